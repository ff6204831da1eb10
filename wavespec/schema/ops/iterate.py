"""`iterate`: a loop over the tiles of a dim that carries values from step to step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.expressions import Expression
from wavespec.schema.names import Name, Reference
from wavespec.schema.ops.base import Scope, ValueType
from wavespec.schema.ops.structured import Structured

if TYPE_CHECKING:
    from wavespec.schema.ops import AnyOp


class DimNotTiled(WavespecError, code="dim-not-tiled"):
    def __init__(self, where: Where, dim: str) -> None:
        super().__init__(
            where,
            f"'iterate' walks over {quote(dim)}, which no constraint tiles.",
            hints=[f"Add {{tiling: {dim}, tile: ...}} to 'constraints'."],
        )


class CarryNotRedefined(WavespecError, code="carry-not-redefined"):
    def __init__(self, where: Where, name: str) -> None:
        super().__init__(
            where,
            f"The body never redefines {quote(name)}, so no step changes it.",
            hints=[f"Give the value of the next step that name: '- {name}: ...'."],
        )


class Iterate(Structured):
    """Runs `body` once for each tile of a dim. `loop.name` is the last value of a carried name."""

    word: ClassVar[str] = "iterate"
    headline: ClassVar[tuple[str, ...]] = ("dim",)
    what: ClassVar[str] = "loop"

    op: Literal["iterate"] = "iterate"
    dim: Name
    """The dim to walk over; a `tiling` constraint gives its tile."""
    start: Expression | None = None
    """The first element that a step may have to do with: tiles that end before it are left out. Absent: 0."""
    end: Expression | None = None
    """One past the last such element: tiles that start there or later are left out. Absent: the size of the dim."""
    carry: Annotated[dict[Name, Reference], Field(max_length=64)] = Field(default_factory=dict)
    """Name inside the body: the value it has in the first step. The body redefines it for the next one."""
    body: Annotated[tuple[AnyOp, ...], Field(min_length=1, max_length=2000)]
    """The statements of one step."""

    def infer(self, scope: Scope) -> ValueType | None:
        dim = scope.dim(self, "dim")
        if dim and not scope.is_tiled(dim):
            scope.report(DimNotTiled(self.where("dim"), dim))
        for bound in ("start", "end"):
            if getattr(self, bound) is not None:
                scope.place(self, bound)
        first = {name: scope.value(self, "carry", name) for name in self.carry}
        defined = self.inside(scope, first, self.body, self.dim)
        for name, before in first.items():
            if name not in defined:
                scope.report(CarryNotRedefined(self.where_key("carry", name), name))
            scope.define(f"{self.name}.{name}", before)
        return None

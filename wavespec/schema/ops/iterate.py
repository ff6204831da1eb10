"""`iterate`: a loop over the tiles of a dim that carries values from step to step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, listing, quote
from wavespec.schema.names import Name, Reference
from wavespec.schema.ops.base import Scope, ValueOp, ValueType
from wavespec.schema.ops.bitcast import Bitcast
from wavespec.schema.ops.cast import Cast
from wavespec.schema.ops.elementwise import Elementwise
from wavespec.schema.ops.formula import Formula
from wavespec.schema.ops.index import Index

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


class CarryTypeMismatch(WavespecError, code="carry-type-mismatch"):
    def __init__(self, where: Where, name: str, first: ValueType, later: ValueType) -> None:
        super().__init__(where, f"{quote(name)} enters the loop as {first} and leaves each step as {later}.")


class NotInLoop(WavespecError, code="not-in-loop"):
    def __init__(self, where: Where, word: str, loop: str, carried: Iterable[str]) -> None:
        results = listing([f"{loop}.{name}" for name in carried])
        super().__init__(
            where,
            f"{quote(word)} is inside {quote(loop)}; it takes whole values, and steps of a loop have parts of them.",
            hints=[f"Move it behind the loop, whose results are {results}."],
        )


class Iterate(ValueOp):
    """Runs `body` once for each tile of a dim. `loop.name` is the last value of a carried name."""

    word: ClassVar[str] = "iterate"
    headline: ClassVar[tuple[str, ...]] = ("dim",)
    is_value: ClassVar[bool] = False

    op: Literal["iterate"] = "iterate"
    dim: Name
    """The dim to walk over; a `tiling` constraint gives its tile."""
    carry: Annotated[dict[Name, Reference], Field(max_length=64)]
    """Name inside the body: the value it has in the first step. The body redefines it for the next one."""
    body: Annotated[tuple[AnyOp, ...], Field(min_length=1, max_length=2000)]
    """The statements of one step."""

    def infer(self, scope: Scope) -> ValueType | None:
        dim = scope.dim(self, "dim")
        if dim and not scope.is_tiled(dim):
            scope.report(DimNotTiled(self.where("dim"), dim))
        first = {name: scope.value(self, "carry", name) for name in self.carry}
        for op in self.body:
            if isinstance(op, Bitcast | Cast | Elementwise | Formula | Index):
                scope.report(
                    NotInLoop(op.where("op"), op.text if isinstance(op, Formula) else op.word, self.name, self.carry)
                )
        defined = scope.inside(first, self.body)
        for name, before in first.items():
            after = defined.get(name)
            if name not in defined:
                scope.report(CarryNotRedefined(self.where_key("carry", name), name))
            elif before and after and before != after:
                scope.report(CarryTypeMismatch(self.where("carry", name), name, before, after))
            scope.define(f"{self.name}.{name}", before)
        return None

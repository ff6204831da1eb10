"""`iterate`: a loop over the tiles of a dim that carries values from step to step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from wavespec.diagnostics import Related, Span, WavespecError, Where, quote
from wavespec.schema.language.dim_names import DimName
from wavespec.schema.language.expression_parser import SpecExpression
from wavespec.schema.language.expressions import EvaluationError, Expression
from wavespec.schema.language.names import Name, Reference
from wavespec.schema.ops.base import Scope, ValueType
from wavespec.schema.ops.structured import Structured, left
from wavespec.schema.ops.until import check_until

if TYPE_CHECKING:
    from wavespec.schema.ops import AnyOp


class DimNotTiled(WavespecError, code="dim-not-tiled"):
    def __init__(self, where: Where, dim: str, owner: str = "", loop: Span | None = None) -> None:
        of = f" of {owner}" if owner else ""
        super().__init__(
            where,
            f"'iterate' walks over {quote(dim)}, which no constraint{of} tiles.",
            hints=[
                f"Add {{tiling: {dim}, tile: 64}} to 'constraints': so many elements in a step. Or leave out all "
                "constraints with tiles: the compiler chooses them."
            ],
            related=[Related(loop, "the loop")] if loop else [],
            about=[dim, *([owner] if owner else [])],
        )


class CarryNotRedefined(WavespecError, code="carry-not-redefined"):
    def __init__(self, where: Where, name: str) -> None:
        super().__init__(
            where,
            f"The body never redefines {quote(name)}, so no step changes it.",
            hints=[f"Give the value of the next step that name: '- {name}: ...'."],
        )


class WalkedTwice(WavespecError, code="walked-twice"):
    def __init__(self, where: Where, dim: str) -> None:
        super().__init__(
            where,
            f"A loop around this one walks over {quote(dim)} already; what has the dim would be of two tiles.",
            hints=["Give one of them a dim of its own, of the same size, or put the loops one behind the other."],
        )


class StepBelowOne(WavespecError, code="step-below-one"):
    def __init__(self, where: Where, step: int | None = None) -> None:
        what = "this may be less" if step is None else f"this is {step}"
        hint = (
            "Write max(..., 1), or promise a dim's 'min: 1'." if step is None else "Leave it out, or write 1 or more."
        )
        super().__init__(where, f"A loop goes on by one tile or more in each step; {what}.", hints=[hint])


class Iterate(Structured):
    """Runs `body` once for each tile of a dim. `loop.name` is the last value of a carried name."""

    word: ClassVar[str] = "iterate"
    headline: ClassVar[tuple[str, ...]] = ("dim",)
    what: ClassVar[str] = "loop"

    op: Literal["iterate"] = "iterate"
    dim: DimName
    """The dim to walk over; a `tiling` constraint gives its tile."""
    start: SpecExpression | None = None
    """The first element that a step may have to do with: tiles that end before it are left out. Absent: 0."""
    end: SpecExpression | None = None
    """One past the last such element: tiles that start there or later are left out. Absent: the size of the dim."""
    step: SpecExpression | None = None
    """How many tiles a step goes on: 2 leaves out every other one, from that of `start` on. Absent: 1, all of them."""
    until: SpecExpression | None = None
    """A comparison of integers, which carried names are among: where it holds, before any step, the loop ends. They are
    one for a workgroup."""
    carry: Annotated[dict[Name, Reference], Field(max_length=64)] = Field(default_factory=dict)
    """Name inside the body: the value it has in the first step. The body redefines it for the next one."""
    body: Annotated[tuple[AnyOp, ...], Field(min_length=1, max_length=2000)]
    """The statements of one step."""

    def infer(self, scope: Scope) -> ValueType | None:
        dim = scope.dim(self, "dim")
        if dim and not scope.is_tiled(dim):
            scope.report(DimNotTiled(self.where("dim"), dim))
        if dim and scope.is_walked(dim):
            scope.report(WalkedTwice(self.where("dim"), dim))
        for bound in ("start", "end", "step"):
            if getattr(self, bound) is not None:
                scope.place(self, bound)
        step = None if self.step is None else _constant(self.step, scope)
        if step is not None and step < 1:
            scope.report(StepBelowOne(self.where("step"), step))
        first = {name: scope.value(self, "carry", name) for name in self.carry}
        if self.until is not None:
            check_until(self, self.until, first, scope)
        defined = self.inside(scope, first, self.body, self.dim)
        for name, before in first.items():
            if name not in defined:
                scope.report(CarryNotRedefined(self.where_key("carry", name), name))
            scope.define(f"{self.name}.{name}", left(before, defined.get(name)))
        return None


def _constant(expression: Expression, scope: Scope) -> int | None:
    """Its value, where parameters and dims of one size decide it."""
    known = {name: scope.size(name) if scope.is_dim(name) else scope.param(name) for name in expression.names()}
    try:
        return int(expression.evaluate({name: value for name, value in known.items() if value is not None}))
    except EvaluationError:
        return None

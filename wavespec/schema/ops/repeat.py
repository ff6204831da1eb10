"""`repeat`: a loop over no dim, whose steps are part of what is computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.expression_parser import SpecExpression
from wavespec.schema.language.expressions import Binary, Call, Expression, Num, Unary
from wavespec.schema.language.expressions import Name as NameNode
from wavespec.schema.language.names import Name, Reference
from wavespec.schema.ops.assertion import Assert, AssertedInEveryStep
from wavespec.schema.ops.base import Scope, ValueType
from wavespec.schema.ops.iterate import CarryNotRedefined
from wavespec.schema.ops.mapping import index_names
from wavespec.schema.ops.structured import Structured, every, left
from wavespec.schema.ops.until import check_until
from wavespec.schema.ops.write import Written

if TYPE_CHECKING:
    from wavespec.schema.ops import AnyOp


class EffectInRepeat(WavespecError, code="effect-in-repeat"):
    def __init__(self, where: Where, tensor: str, dim: str | None, index: str | None) -> None:
        name = index or "t"
        begin = "Say" if index else f"Name the number of the step, 'index: {name}', and say"
        along = f"'at: {{{dim}: {name}}}'" if dim else f"a place along a dim of {quote(tensor)} that is of steps"
        super().__init__(
            where,
            f"Steps of the 'repeat' around may write the same elements of {quote(tensor)}, one after the other.",
            hints=[
                f"{begin} where each step writes: {along}, with what is the same in all steps added or subtracted.",
                f"A step that writes all of a dim C of the value has '{name} * size(C) + C'.",
                "What the last step has made is written behind the loop.",
            ],
        )


class IndexTaken(WavespecError, code="redefined-name"):
    def __init__(self, where: Where, name: str) -> None:
        super().__init__(where, f"{quote(name)} means something already; the number of a step has a name of its own.")


class Repeat(Structured):
    """Runs `body` several times, each step with what the one before has made of the carried names.

    `loop.name` is the last value of a carried name. Unlike tiles, steps are part of what is computed.
    """

    word: ClassVar[str] = "repeat"
    headline: ClassVar[tuple[str, ...]] = ("steps",)
    what: ClassVar[str] = "loop"

    op: Literal["repeat"] = "repeat"
    steps: SpecExpression
    """How many steps, or with `until` the most: every kernel ends. Below 1, none."""
    until: SpecExpression | None = None
    """A comparison of integers, which carried names are among: where it holds, before any step, the loop ends. They are
    one for a workgroup."""
    carry: Annotated[dict[Name, Reference], Field(min_length=1, max_length=64)]  # pyright: ignore[reportGeneralTypeIssues] - a loop that carries nothing does nothing
    """Name inside the body: the value it has in the first step. The body redefines it for the next one."""
    index: Name | None = None
    """The name of the number of the step, from 0 on, inside the body: an i32, which stands in places and bounds too, as
    in `at: {T: t}`. Writes in the body need one, so that each step writes elements of its own."""
    body: Annotated[tuple[AnyOp, ...], Field(min_length=1, max_length=2000)]
    """The statements of one step."""

    def infer(self, scope: Scope) -> ValueType | None:
        scope.place(self, "steps")
        first = {name: scope.value(self, "carry", name) for name in self.carry}
        if self.until is not None:
            check_until(self, self.until, first, scope)
        known: dict[str, ValueType | None] = {}
        if self.index is not None:
            known[self.index] = None
            if scope.is_taken(self.index) or scope.is_value(self.index) or self.index in first:
                scope.report(IndexTaken(self.where("index"), self.index))
            else:
                known[self.index] = ValueType((), "i32")
        defined = self.inside(scope, first, self.body, known=known)
        for write in every(Written, self.body):
            self._check_write(write, scope)
        for op in every(Assert, self.body):
            scope.report(AssertedInEveryStep(op.where("value"), op.value, f"the 'repeat' {quote(self.name)}"))
        for name, before in first.items():
            if name not in defined:
                scope.report(CarryNotRedefined(self.where_key("carry", name), name))
            scope.define(f"{self.name}.{name}", left(before, defined.get(name)))
        return None

    def _check_write(self, write: Written, scope: Scope) -> None:
        """Report a write that does not tell this loop's steps apart."""
        places = write.at.values() if self.index is not None and not write.combination else ()
        if not any(_counts(place, str(self.index), scope) for place in places):
            tensor, value = scope.tensor(write, "to"), scope.type_of(write.value)
            free = [dim for dim in tensor.shape if value and dim not in value.dims] if tensor else []
            dim = next(iter((*write.at, *free)), None)
            scope.report(EffectInRepeat(write.where("to"), write.to, dim, self.index))


def _counts(place: Expression, index: str, scope: Scope) -> bool:
    """Whether a place is another one for each number of a step: that number, or that times the size of a dim and the
    place along it, as in `chunk * size(C) + C`, with what is the same in all steps added or subtracted."""
    match [term for term in _terms(place) if not _is_one(term, scope)]:
        case [NameNode(name=name)]:
            return name == index
        case [Binary(op="*") as step, NameNode(name=dim)] | [NameNode(name=dim), Binary(op="*") as step]:
            factors = ((step.left, step.right), (step.right, step.left))
            return any(one == NameNode(index) and _holds(factor, dim, scope) for one, factor in factors)
        case _:
            return False


def _terms(place: Expression) -> Iterator[Expression]:
    """What is added and subtracted."""
    match place:
        case Unary(operand=operand):
            yield from _terms(operand)
        case Binary(op="+" | "-", left=left, right=right):
            yield from _terms(left)
            yield from _terms(right)
        case _:
            yield place


def _holds(step: Expression, dim: str, scope: Scope) -> bool:
    """Whether a step of so many elements has room for all places along a dim."""
    if step == Call("size", (NameNode(dim),)):
        return scope.is_dim(dim)
    size = scope.size(dim) if scope.is_dim(dim) else None
    number = step.value if isinstance(step, Num) else scope.param(step.name) if isinstance(step, NameNode) else None
    return size is not None and number is not None and number >= size


def _is_one(place: Expression, scope: Scope) -> bool:
    """Whether a place is the same in all steps: one of parameters, scalars and sizes."""
    return all(scope.param(name) is not None or scope.scalar(name) is not None for name in index_names(place))

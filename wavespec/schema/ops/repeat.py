"""`repeat`: a loop over no dim, whose steps are part of what is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.expression_parser import SpecExpression
from wavespec.schema.language.names import Name, Reference
from wavespec.schema.ops.base import EffectOp, Op, Scope, ValueType
from wavespec.schema.ops.iterate import CarryNotRedefined
from wavespec.schema.ops.structured import Structured, left
from wavespec.schema.ops.until import check_until

if TYPE_CHECKING:
    from wavespec.schema.ops import AnyOp


class EffectInRepeat(WavespecError, code="effect-in-repeat"):
    def __init__(self, where: Where, word: str) -> None:
        super().__init__(
            where,
            f"{quote(word)} cannot stand in a 'repeat': what a loop makes is there when it has ended.",
            hints=["Carry the value, and do it behind the loop."],
        )


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
    body: Annotated[tuple[AnyOp, ...], Field(min_length=1, max_length=2000)]
    """The statements of one step."""

    def infer(self, scope: Scope) -> ValueType | None:
        scope.place(self, "steps")
        first = {name: scope.value(self, "carry", name) for name in self.carry}
        if self.until is not None:
            check_until(self, self.until, first, scope)
        for effect in _effects(self.body):
            scope.report(EffectInRepeat(effect.where("op"), effect.word))
        defined = self.inside(scope, first, self.body)
        for name, before in first.items():
            if name not in defined:
                scope.report(CarryNotRedefined(self.where_key("carry", name), name))
            scope.define(f"{self.name}.{name}", left(before, defined.get(name)))
        return None


def _effects(body: Sequence[Op]) -> Iterator[Op]:
    """What is written in a body; what is shown there is that of the last step."""
    for op in body:
        if isinstance(op, EffectOp) and op.word != "debug":
            yield op
        for field in op.bodies if isinstance(op, Structured) else ():
            yield from _effects(getattr(op, field))

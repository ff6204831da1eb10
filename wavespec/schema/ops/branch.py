"""`if`: statements that a workgroup leaves out where a condition on its tiles does not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.expression_parser import SpecExpression
from wavespec.schema.language.names import Name, Reference
from wavespec.schema.ops.base import Scope, ValueType
from wavespec.schema.ops.structured import Structured, left

if TYPE_CHECKING:
    from wavespec.schema.ops import AnyOp


class CarryUnchanged(WavespecError, code="carry-unchanged"):
    def __init__(self, where: Where, name: str) -> None:
        super().__init__(
            where,
            f"Nothing in the branch redefines {quote(name)}, so it is the same behind it.",
            hints=[f"Give the new value that name: '- {name}: ...', or leave it out of 'carry'."],
        )


class NoCondition(WavespecError, code="no-condition"):
    def __init__(self, where: Where, text: str) -> None:
        super().__init__(
            where,
            f"{quote(text)} is a number; a condition compares two.",
            hints=["Such as 'start(N) < end(M)'."],
        )


class Branch(Structured):
    """Runs `body` where a condition holds, which is the same for all of a workgroup. `branch.name` is what a carried
    name is then: what the body made of it, or what it was."""

    word: ClassVar[str] = "if"
    headline: ClassVar[tuple[str, ...]] = ("condition",)
    what: ClassVar[str] = "branch"
    bodies: ClassVar[tuple[str, ...]] = ("body", "otherwise")

    op: Literal["if"] = "if"
    condition: SpecExpression
    """A comparison of places, such as `start(N) < end(M)`, or of values that are one integer for a workgroup."""
    carry: Annotated[dict[Name, Reference], Field(max_length=64)] = Field(default_factory=dict)
    """Name inside the bodies: the value it has there. A body that redefines it changes it."""
    body: Annotated[tuple[AnyOp, ...], Field(min_length=1, max_length=2000)]
    """The statements to run where the condition holds."""
    otherwise: Annotated[tuple[AnyOp, ...], Field(max_length=2000)] = ()
    """The statements to run where it does not."""

    def infer(self, scope: Scope) -> ValueType | None:
        if not self.condition.is_condition:
            scope.report(NoCondition(self.where("condition"), str(self.condition)))
        scope.place(self, "condition")
        first = {name: scope.value(self, "carry", name) for name in self.carry}
        defined = [self.inside(scope, first, body) for body in (self.body, self.otherwise)]
        for name, before in first.items():
            if not any(name in one for one in defined):
                scope.report(CarryUnchanged(self.where_key("carry", name), name))
            scope.define(f"{self.name}.{name}", left(before, *(one.get(name, before) for one in defined)))
        return None

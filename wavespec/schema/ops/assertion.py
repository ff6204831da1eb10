"""`assert`: what has to hold of a value, and is looked at where a kernel is tried."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.names import Reference
from wavespec.schema.ops.base import EffectOp, Scope, ValueType
from wavespec.schema.ops.mma import DtypeMismatch


class AssertedInEveryStep(WavespecError, code="asserted-in-every-step"):
    """Of a value that each step of a loop has, that of the last one alone would be looked at."""

    def __init__(self, where: Where, value: str, loop: str) -> None:
        super().__init__(
            where,
            f"{quote(value)} is another one in every step of {loop}, and only the last would be looked at.",
            hints=[f"Carry 'every: {{logical_and: [every, {value}]}}' from true on, and assert it behind the loop."],
            about=[value],
        )


class Assert(EffectOp):
    """What has to hold for every element of a value. `wavespec run` looks at it, on every target and with `--simulate`,
    and tells the elements for which it does not. Compiled kernels do nothing."""

    word: ClassVar[str] = "assert"
    headline: ClassVar[tuple[str, ...]] = ("value",)

    op: Literal["assert"] = "assert"
    value: Reference
    """A bool: `inside: page < P` in the line before."""
    message: Annotated[str, Field(max_length=1_000)] = ""
    """What it means where it does not hold."""

    def infer(self, scope: Scope) -> ValueType | None:
        value = scope.value(self, "value")
        if value is None:
            return None
        if value.dtype != "bool":
            message = f"What is asserted is bool; {quote(self.value)} is {value.dtype}."
            hints = [f"Compare it with something: '- holds: {self.value} != 0'."]
            scope.report(DtypeMismatch(self.where("value"), message, hints=hints, about=[self.value]))
        for dim in scope.loops():
            if dim not in value.dims:
                scope.report(AssertedInEveryStep(self.where("value"), self.value, f"the loop over {quote(dim)}"))
        return None

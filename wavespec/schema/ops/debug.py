"""`debug`: a value that `wavespec run` shows."""

from __future__ import annotations

from typing import ClassVar, Literal

from wavespec.schema.language.names import Reference
from wavespec.schema.ops.base import EffectOp, Scope, ValueType


class Debug(EffectOp):
    """Shows a value, of the last step where it is in a loop that is not over one of its dims: `wavespec run` prints it
    beside what the reference has, `ws.debug` makes it an output. Compiled kernels do nothing."""

    word: ClassVar[str] = "debug"
    headline: ClassVar[tuple[str, ...]] = ("value",)

    op: Literal["debug"] = "debug"
    value: Reference
    """The value to show."""

    def infer(self, scope: Scope) -> ValueType | None:
        scope.value(self, "value")
        return None

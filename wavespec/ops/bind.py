"""A value that a condition or a bound of a loop is made of: from here on a symbol stands for it."""

from __future__ import annotations

from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Op
from wavespec.ops.contexts import ThreadContext


def to_thread(op: Op, context: ThreadContext) -> None:
    (value,) = context.fragments[op.operands[0].name]
    context.build.add("bind", (context.build.cast(value, DTYPES["i32"]),), (), symbol=op["symbol"], uniform=True)

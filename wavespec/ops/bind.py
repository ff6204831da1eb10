"""A value that a condition or a bound of a loop is made of: from here on a symbol stands for it."""

from __future__ import annotations

from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Op
from wavespec.ir.saturating import LARGEST
from wavespec.ops.contexts import ThreadContext


def to_thread(op: Op, context: ThreadContext) -> None:
    (value,), build = context.fragments[op.operands[0].name], context.build
    dtype = value.vector.dtype
    if dtype.bits > 32:
        least, most = (build.constant(number, dtype, 1) for number in (-LARGEST, LARGEST))
        value = build.elementwise("minimum", build.elementwise("maximum", value, least), most)
    else:
        value = build.cast(value, DTYPES["i32"])
    build.add("bind", (value,), (), symbol=op["symbol"], uniform=True)

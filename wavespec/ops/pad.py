"""`pad`: what lies beyond the edge of a dim becomes a number."""

from __future__ import annotations

from wavespec.ir.kernel import Op
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.reduce import padded


def to_thread(op: Op, context: ThreadContext) -> None:
    (value,), result = op.operands, op.result
    fragments, layout = context.fragments[value.name], value.tile.layout
    assert layout is not None
    if op.get("masked"):
        origin = context.origin(op)[op["dim"]]
        fragments = tuple(padded(context, fragments, layout, op["dim"], origin, op["size"], op["value"]))
    context.fragments[result.name] = tuple(fragments)

"""`join`: the elements of a step of a reduction, each joined with what was carried for its place."""

from __future__ import annotations

import functools

from wavespec.ir.kernel import Op
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.reduce import identity, padded


def to_thread(op: Op, context: ThreadContext) -> None:
    build, (carried, value), result = context.build, op.operands, op.result
    layout, dtype, function = value.tile.layout, result.tile.dtype, op["function"]
    assert layout is not None
    fragments = [build.cast(part, dtype, result.name) for part in context.fragments[value.name]]
    if op.get("masked"):
        origin = context.origin(op)[op["dim"]]
        fragments = padded(context, fragments, layout, op["dim"], origin, op["size"], identity(function, dtype))
    fused = context.kernel.lanes > 1 and function == "add"
    join = build.add_products if fused else functools.partial(build.elementwise, function)
    pairs = zip(context.fragments[carried.name], fragments, strict=True)
    context.fragments[result.name] = tuple(join(*both, hint=result.name) for both in pairs)

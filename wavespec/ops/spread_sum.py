"""`spread_sum`: sums that the waves of a workgroup have of one tile, added up by all lanes, each some elements."""

from __future__ import annotations

from wavespec.ir.expr import const
from wavespec.ir.kernel import Op
from wavespec.ir.names import wave_name
from wavespec.ops.accesses import read_fragments, write_fragments
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.reduce import in_pairs


def to_thread(op: Op, context: ThreadContext) -> None:
    """Each wave lays its sums down; lanes add up those of all waves, in their order, so that repeats are equal."""
    build, kernel, machine, result = context.build, context.kernel, context.machine, op.result
    memory, (own,), wave = kernel.memory(op["memory"]), op.operands, kernel.symbol(wave_name(op["dim"]))
    laid_out, layout = own.tile.layout, result.tile.layout
    assert laid_out is not None and layout is not None
    part, *_ = memory.dims
    start = dict.fromkeys(memory.dims, const(0))
    if memory.over:  # other waves may still multiply what lies there
        build.add("barrier", (), (), first=const(0), waves=kernel.wave_count)
    write_fragments(build, memory, laid_out, {**start, part: wave}, (), context.fragments[own.name], machine)
    parts = [
        read_fragments(build, memory, layout, {**start, part: const(number)}, (), result.name, machine)
        for number in range(memory.shape[0].value)
    ]
    summed = zip(*parts, strict=True)
    context.fragments[result.name] = tuple(in_pairs(build, "add", list(each), result.name) for each in summed)

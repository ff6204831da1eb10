"""`cluster_sum`: sums that the workgroups of a cluster have of one tile, added up; each goes on with its rows.

`cluster_extreme`: the largest or the least of what they have in each place; each goes on with all of it.
"""

from __future__ import annotations

import itertools
from typing import Any

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Op, Region, Value, attribute_pairs
from wavespec.ir.names import wave_name
from wavespec.ops.accesses import read_fragments, write_fragments
from wavespec.ops.contexts import ThreadContext


def to_thread(op: Op, context: ThreadContext) -> None:
    """Lay the values down, wait until all others have, join rank after rank, so that repeats are equal."""
    build, kernel = context.build, context.kernel
    memory, result, (own,) = kernel.memory(op["memory"]), op.result, op.operands
    laid_out, layout = own.tile.layout, result.tile.layout
    assert laid_out is not None and layout is not None
    whole, (of_wave, of_all) = dict.fromkeys(memory.dims, const(0)), _places_of_parts(op, context)
    if memory.over:  # other waves may still multiply what lies there
        build.add("barrier", (), (), first=const(0), waves=kernel.wave_count)
    here = whole | of_wave
    write_fragments(build, memory, laid_out, here, (), context.fragments[own.name], context.machine)
    build.add("barrier", (), (), first=kernel.wave_number, waves=1)
    met: dict[str, Any] = {"signal": op["signal"], "index": op["index"]}
    lane = kernel.symbol("lane")  # one for each workgroup: all of them wait for their writes at the same time
    announced = attribute_pairs({"bytes": 0, "receiver": lane, "release": True, **met})
    arrive = Op("signal_arrive", attributes=announced, span=op.span)
    build.add("if", (), (), Region((), (arrive,), ()), mask=((lane, const(kernel.cluster)),))
    build.add("signal_wait", (), (), phase=const(0), acquire=True, **met)
    origin = context.origin(op) if op.get("origin") is not None else whole
    function = op.get("function", "add")
    joined: tuple[Value, ...] = ()
    for rank, place in itertools.product(range(kernel.cluster), of_all):
        start = dict(origin) | place
        part = read_fragments(build, memory, layout, start, (), result.name, context.machine, rank=rank)
        pairs = zip(joined, part, strict=True)
        joined = tuple(build.elementwise(function, *pair, hint=result.name) for pair in pairs) if joined else part
    context.fragments[result.name] = joined


def _places_of_parts(op: Op, context: ThreadContext) -> tuple[dict[str, Expr], list[dict[str, Expr]]]:
    """Where in memory a wave has its part of a sum, and where all have theirs; one place where each has the whole."""
    if not op.get("dim"):
        return {}, [{}]
    memory = context.kernel.memory(op["memory"])
    part, count = memory.dims[0], memory.shape[0].value
    own = context.kernel.symbol(wave_name(op["dim"]))
    return {part: own}, [{part: const(number)} for number in range(count)]

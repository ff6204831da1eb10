"""Values of the workgroups of a cluster in, what each of them has out: by way of their shared memory."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from wavespec.ir.expr import const
from wavespec.ir.kernel import Memory, Op, Region, Value, attribute_pairs
from wavespec.ir.layout import row_major
from wavespec.ops.contexts import ThreadContext


def parts_of_cluster(
    context: ThreadContext, op: Op, values: Sequence[Value], alike: Sequence[str]
) -> list[list[Value]]:
    """Lay down values, wait until all others have; for every value those of all workgroups, rank after rank.

    Waves that differ in the symbols ``alike`` have the same values: the first of them lays them down.  ``op`` says on
    which signal workgroups meet.
    """
    build, kernel = context.build, context.kernel
    sizes = [value.vector.elements for value in values]
    starts = list(itertools.accumulate(sizes, initial=0))
    dims, extents = ("element",), (kernel.wave_count * starts[-1] * kernel.lanes,)
    taken = {memory.name for memory in (*kernel.memories, *context.memories)}
    names = (f"{op.node or op.result.name}.ranks{n or ''}" for n in itertools.count())
    name, dtype = next(one for one in names if one not in taken), values[0].vector.dtype
    context.memories.append(
        Memory(name, dtype, dims, tuple(map(const, extents)), "shared", arrangement=row_major(dims, extents))
    )
    first = kernel.wave_number.substitute({wave: const(0) for wave in alike})
    is_first = tuple((kernel.symbol(wave), const(1)) for wave in alike)
    lane = kernel.symbol("lane")
    places = [
        (first * starts[-1] + start) * kernel.lanes + lane * size for start, size in zip(starts, sizes, strict=False)
    ]
    for value, place in zip(values, places, strict=True):
        build.store(value, name, place, mask=is_first)
    _meet(context, op, is_first)
    return [
        [
            build.load(name, dtype, size, place, rank=rank, hint=op.node or op.result.name)
            for rank in range(kernel.cluster)
        ]
        for size, place in zip(sizes, places, strict=True)
    ]


def _meet(context: ThreadContext, op: Op, is_first: tuple[Any, ...]) -> None:
    """Wait until the first waves of all workgroups have laid down theirs."""
    build, kernel = context.build, context.kernel
    build.add("barrier", (), (), first=kernel.wave_number, waves=1)
    met: dict[str, Any] = {"signal": op["signal"], "index": op["index"]}
    announced = attribute_pairs({"bytes": 0, "everywhere": True, "release": True, **met})
    arrive = Op("signal_arrive", attributes=announced, span=op.span)
    build.add("if", (), (), Region((), (arrive,), ()), mask=((kernel.symbol("lane"), const(1)), *is_first))
    build.add("signal_wait", (), (), phase=const(0), acquire=True, **met)

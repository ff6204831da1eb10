"""Values of the workgroups of a cluster in, what each of them has out: sent to each other's shared memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Memory, Op, Region, Value, attribute_pairs
from wavespec.ir.layout import row_major
from wavespec.ir.thread import Mask
from wavespec.ops.contexts import ThreadContext

_SENT_BITS = 32  # of an element at least


def parts_of_cluster(
    context: ThreadContext, op: Op, values: Sequence[Value], waves: Sequence[str], *, lanes_alike: bool
) -> list[list[Value]]:
    """For every value those of all workgroups, as `meet_in_cluster` sends them, rank after rank."""
    load = meet_in_cluster(context, op, values, waves, lanes_alike=lanes_alike)
    return [[load(number, const(rank)) for rank in range(context.kernel.cluster)] for number in range(len(values))]


def meet_in_cluster(
    context: ThreadContext,
    op: Op,
    values: Sequence[Value],
    waves: Sequence[str],
    *,
    lanes_alike: bool,
    by_lanes: bool = False,
) -> Callable[[int, Expr], Value]:
    """Send values to all workgroups, and wait for theirs; what loads the value of a number of one of them comes out.

    Waves that differ in the symbols ``waves`` have the same values, and with ``lanes_alike`` so have the lanes of one:
    the first of them send theirs.  ``op`` says on which signal those that arrive are counted.  Where lanes read
    ``by_lanes``, each what another workgroup has, that lies side by side, in as many banks.
    """
    build, kernel, hint = context.build, context.kernel, op.node or op.result.name
    plain = values[0].vector.dtype
    sent = [build.cast(value, plain if plain.bits >= _SENT_BITS else DTYPES["i32"], hint) for value in values]
    dtype, sizes = sent[0].vector.dtype, [value.vector.elements for value in sent]
    starts = list(itertools.accumulate(sizes, initial=0))
    lanes = 1 if lanes_alike else kernel.lanes
    is_one = by_lanes and all(count == 1 or wave in waves for wave, count in kernel.waves)
    each = starts[-1] * lanes * (1 if is_one else kernel.wave_count)  # of a workgroup
    name = _memory(context, f"{hint}.ranks", dtype, each * kernel.cluster)
    lane = kernel.symbol("lane")
    first = kernel.wave_number.substitute({wave: const(0) for wave in waves})
    senders = tuple((kernel.symbol(wave), const(1)) for wave in waves)
    places = [
        (first * starts[-1] + start) * lanes + (const(0) if lanes_alike else lane * size)
        for start, size in zip(starts, sizes, strict=False)
    ]
    met: dict[str, Any] = {"signal": op["signal"], "index": op["index"]}
    groups = 1
    for wave, count in kernel.waves:
        groups *= 1 if wave in waves else count
    _announce(context, op, starts[-1] * lanes * groups * kernel.cluster * dtype.bytes)
    own = kernel.symbol("wg0") * each
    for value, place in zip(sent, places, strict=True):
        if lanes_alike:  # a lane for each workgroup
            mask: Mask = (*senders, (lane, const(kernel.cluster)))
            build.send(value, name, own + place, lane, met, mask=mask)
        for rank in range(0 if lanes_alike else kernel.cluster):
            build.send(value, name, own + place, const(rank), met, mask=senders)
    build.add("signal_wait", (), (), phase=const(0), **met)

    def load(number: int, rank: Expr) -> Value:
        found = build.load(name, dtype, sizes[number], places[number] + rank * each, hint=hint)
        return build.cast(found, plain, hint)

    return load


def _memory(context: ThreadContext, wanted: str, dtype: DType, elements: int) -> str:
    """The name of a shared memory for what others send."""
    taken = {memory.name for memory in (*context.kernel.memories, *context.memories)}
    name = next(one for n in itertools.count() if (one := f"{wanted}{n or ''}") not in taken)
    dims, extents = ("element",), (elements,)
    memory = Memory(name, dtype, dims, (const(elements),), "shared", arrangement=row_major(dims, extents))
    context.memories.append(memory)
    return name


def _announce(context: ThreadContext, op: Op, bytes_: int) -> None:
    """One lane says how many bytes arrive."""
    build, kernel = context.build, context.kernel
    announced = attribute_pairs({"bytes": bytes_, "signal": op["signal"], "index": op["index"]})
    arrive = Op("signal_arrive", attributes=announced, span=op.span)
    waves = tuple((kernel.symbol(name), const(1)) for name, count in kernel.waves if count > 1)
    build.add("if", (), (), Region((), (arrive,), ()), mask=((kernel.symbol("lane"), const(1)), *waves))

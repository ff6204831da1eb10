"""Values of each wave in, what every wave along a dim, or lane out of reach, has out: by way of shared memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, const, minimum
from wavespec.ir.kernel import Kernel, Memory, Value
from wavespec.ir.layout import Layout, row_major
from wavespec.ir.names import dim_of_wave
from wavespec.ir.thread import Mask
from wavespec.ops.contexts import ThreadContext

_Place = Callable[[Expr, Expr, int], Expr]
"""Where in shared memory a wave has its value of a number, for a lane."""


def parts_of_waves(
    context: ThreadContext, values: Sequence[Value], waves: Sequence[str], hint: str, bits: Sequence[int] = ()
) -> list[list[Value]]:
    """Each wave lays down its values; for every value those of all waves that differ in the symbols ``waves``, and of
    all lanes that differ in these ``bits`` of their number, in order."""
    build, kernel = context.build, context.kernel
    name, place = _laid_down(context, values, hint)
    counts, lane = dict(kernel.waves), kernel.symbol("lane")
    first = lane - sum((lane // bit % 2 * bit for bit in bits), const(0))
    found: list[list[Value]] = []
    for number, value in enumerate(values):
        parts: list[Value] = []
        for others in itertools.product(*(range(counts[wave]) for wave in waves)):
            wave = kernel.wave_number.substitute(dict(zip(waves, map(const, others), strict=True)))
            for steps in itertools.product(*((0, bit) for bit in bits)):
                at = place(wave, first + sum(steps), number)
                parts.append(build.load(name, value.vector.dtype, value.vector.elements, at, hint=hint))
        found.append(parts)
    return found


def part_of_each_lane(context: ThreadContext, values: Sequence[Value], wave: str, hint: str) -> list[Value]:
    """Each wave lays down its values; for every value what the wave has whose number along the symbol ``wave`` is that
    of the lane, modulo a power of two: lanes beyond the last wave have what that has."""
    build, kernel = context.build, context.kernel
    name, place = _laid_down(context, values, hint)
    at = kernel.wave_number.substitute({wave: part_of_lane(kernel, dict(kernel.waves)[wave])})
    return [
        build.load(name, value.vector.dtype, value.vector.elements, place(at, kernel.symbol("lane"), number), hint=hint)
        for number, value in enumerate(values)
    ]


def part_of_lane(kernel: Kernel, count: int) -> Expr:
    """Which of so many parts a lane has, in groups of `lanes_of_parts`: lanes beyond have the last one again."""
    return minimum(kernel.symbol("lane") % lanes_of_parts(count), count - 1)


def lanes_of_parts(count: int) -> int:
    """Lanes that join so many parts, bit by bit of their number: a power of two."""
    return 1 << (count - 1).bit_length()


def bits_of_parts(count: int) -> list[int]:
    """The bits of lane numbers that tell these lanes apart."""
    return [1 << bit for bit in range((count - 1).bit_length())]


def parts_of_launched(
    context: ThreadContext,
    values: Sequence[Value],
    nothings: Sequence[float],
    hint: str,
    change: Callable[[Value], Value],
) -> tuple[list[list[Value]], Callable[[int, Expr], Value]]:
    """The first lane of each wave lays down its numbers, which all lanes of it have; for every one what ``change``
    makes of those of all waves, several of which come with one access.  Waves that are not launched have
    ``nothings``.

    Returns:
        These, and what loads the number of a value that one wave has.
    """
    build, kernel, dtype = context.build, context.kernel, values[0].vector.dtype
    width = context.machine.shared.access_bytes // dtype.bytes
    waves = -(-kernel.wave_count // width) * width
    name = _memory_of(context, dtype, waves * len(values), hint)
    lane, launched = kernel.symbol("lane"), kernel.launched
    assert launched is not None and waves <= kernel.lanes
    for number, (value, nothing) in enumerate(zip(values, nothings, strict=True)):
        missing = build.constant(nothing, dtype, 1)
        build.store(value, name, kernel.wave_number + number * waves, mask=((lane, const(1)),))
        beyond = ((launched - 1, lane), (lane, const(waves)), (kernel.wave_number, const(1)))
        build.store(missing, name, lane + number * waves, mask=beyond)
    found = [
        [change(build.load(name, dtype, width, const(at + number * waves), hint=hint)) for at in range(0, waves, width)]
        for number in range(len(values))
    ]
    return found, lambda number, wave: build.load(name, dtype, 1, wave + number * waves, hint=hint)


def _laid_down(context: ThreadContext, values: Sequence[Value], hint: str) -> tuple[str, _Place]:
    """The shared memory that holds the values of all lanes of all waves, and where."""
    build, kernel = context.build, context.kernel
    sizes = [value.vector.elements for value in values]
    each = sum(sizes) * kernel.lanes
    name = _memory_of(context, values[0].vector.dtype, kernel.wave_count * each, hint)
    starts = list(itertools.accumulate(sizes, initial=0))

    def place(wave: Expr, lane: Expr, number: int) -> Expr:
        return wave * each + starts[number] * kernel.lanes + lane * sizes[number]

    for number, value in enumerate(values):
        build.store(value, name, place(kernel.wave_number, kernel.symbol("lane"), number))
    return name, place


def _memory_of(context: ThreadContext, dtype: DType, elements: int, hint: str) -> str:
    """The name of a shared memory for so many."""
    taken = {memory.name for memory in (*context.kernel.memories, *context.memories)}
    name = next(one for n in itertools.count() if (one := f"{hint}.parts{n or ''}") not in taken)
    dims, extents = ("element",), (elements,)
    memory = Memory(name, dtype, dims, (const(elements),), "shared", arrangement=row_major(dims, extents))
    context.memories.append(memory)
    return name


def first_of_equal(kernel: Kernel, layout: Layout) -> Mask:
    """Which waves write a tile that has fewer parts than there are waves: the first that have each part."""
    free = [(name, count) for name, count in reversed(kernel.waves) if dim_of_wave(name) not in layout.dims]
    parts = [
        tuple(base.substitute(dict(zip((name for name, _ in free), digits, strict=True))) for _, base in layout.base)
        for digits in (place[::-1] for place in itertools.product(*(range(count) for _, count in reversed(free))))
    ]
    count = len(set(parts))
    if count == len(parts) or any(part != parts[number % count] for number, part in enumerate(parts)):
        return ()
    number, step = const(0), 1
    for name, extent in free:
        number, step = number + kernel.symbol(name) * step, step * extent
    return ((number, const(count)),)

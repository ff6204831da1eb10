"""Values of each wave in, what every wave along a dim, or lane out of reach, has out: by way of shared memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

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
    of the lane, modulo a power of two: lanes beyond the last wave that is launched have what that has."""
    build, kernel = context.build, context.kernel
    name, place = _laid_down(context, values, hint)
    count, lane = dict(kernel.waves)[wave], kernel.symbol("lane")
    other = minimum(
        lane % (1 << (count - 1).bit_length()), (const(count) if kernel.launched is None else kernel.launched) - 1
    )
    at = kernel.wave_number.substitute({wave: other})
    return [
        build.load(name, value.vector.dtype, value.vector.elements, place(at, lane, number), hint=hint)
        for number, value in enumerate(values)
    ]


def _laid_down(context: ThreadContext, values: Sequence[Value], hint: str) -> tuple[str, _Place]:
    """The shared memory that holds the values of all lanes of all waves, and where."""
    build, kernel = context.build, context.kernel
    sizes = [value.vector.elements for value in values]
    each = sum(sizes) * kernel.lanes
    taken = {memory.name for memory in (*kernel.memories, *context.memories)}
    name = next(one for n in itertools.count() if (one := f"{hint}.parts{n or ''}") not in taken)
    dims, extents = ("element",), (kernel.wave_count * each,)
    dtype = values[0].vector.dtype
    context.memories.append(
        Memory(name, dtype, dims, tuple(map(const, extents)), "shared", arrangement=row_major(dims, extents))
    )
    starts = list(itertools.accumulate(sizes, initial=0))

    def place(wave: Expr, lane: Expr, number: int) -> Expr:
        return wave * each + starts[number] * kernel.lanes + lane * sizes[number]

    for number, value in enumerate(values):
        build.store(value, name, place(kernel.wave_number, kernel.symbol("lane"), number))
    return name, place


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

"""A tile that is combined with what a tensor holds goes in; atomic operations of the lanes come out, one an element."""

from __future__ import annotations

from wavespec.diagnostics import WavespecError, Where, listing
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op
from wavespec.ir.layout import Layout
from wavespec.ir.names import dim_of_wave
from wavespec.ir.thread import Mask
from wavespec.ir.tile_ops import ITERATE
from wavespec.ops.accesses import coordinates_in, edge
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.mapped_accesses import mapped_places
from wavespec.targets.machine import Machine

FUNCTIONS = {"add": "add", "max": "maximum", "min": "minimum"}
"""What combines two elements, by the word of a write."""


class AtomicNotPossible(WavespecError, code="atomic-not-possible"):
    def __init__(self, where: Where, combine: str, memory: Memory, machine: Machine) -> None:
        has = machine.globals.atomics.get(combine, ())
        super().__init__(
            where,
            f"{machine.variant} cannot combine {memory.dtype} in one indivisible step by '{combine}'; "
            f"'{memory.name}' holds {memory.dtype}.",
            hints=[f"It can for {listing(has)}."] if has else [],
        )


def write_combined(op: Op, context: ThreadContext) -> None:
    """Combine each element of a tile once, however many lanes, waves and workgroups hold it."""
    kernel, build = context.kernel, context.build
    memory, layout = kernel.memory(op["memory"]), op.operands[0].tile.layout
    assert layout is not None
    if memory.dtype.name not in context.machine.globals.atomics.get(op["combine"], ()):
        raise AtomicNotPossible(op.span, op["combine"], memory, context.machine)
    once = _holders(kernel, op, layout)
    if op.get("at"):
        places = mapped_places(op, layout, context)
    else:
        elements = [coordinates_in(memory, context.origin(op), inside) for inside in layout.coordinates()]
        places = [(memory.offset(at), edge(memory, op.get("masked", ()), at, 1)[0]) for at in elements]
    fragments = [build.cast(value, memory.dtype) for value in context.fragments[op.operands[0].name]]
    for register, (offset, mask) in enumerate(places):
        number, inside = divmod(register, layout.fragment_elements)
        element = build.slice(fragments[number], inside, 1)
        build.atomic(FUNCTIONS[op["combine"]], element, memory.name, offset, mask=(*once, *mask))


def _holders(kernel: Kernel, op: Op, layout: Layout) -> Mask:
    """Where one of those holds that have the same elements: the first workgroup, wave and lane of each kind."""
    named = {name for _, expr in (*layout.base, *op["origin"]) for name in expr.symbols}
    for loop in (one for one in kernel.walk() if one.is_(ITERATE) and one["induction"] in named):
        bounds = [loop[key] for key in ("lower", "extent", "stride") if loop.get(key) is not None]
        named |= {name for bound in bounds for name in bound.symbols}  # workgroups may share out the steps
    axes = [known for known in kernel.symbols if known.args[0] in (f"wg{axis}" for axis in range(len(kernel.grid)))]
    # Waves that take turns have tiles of their own; all others split a dim.
    waves = [kernel.symbol(name) for name, count in kernel.waves if count > 1 and dim_of_wave(name)]
    alike = [one for one in (*axes, *waves) if one.args[0] not in named]
    return (*((one, const(1)) for one in alike), *_lanes(kernel, layout))


def _lanes(kernel: Kernel, layout: Layout) -> Mask:
    """The lanes that hold what no lane before them does: bits of their number that tell no places apart are 0."""
    if kernel.lanes == 1:
        return ()
    lane = kernel.symbol("lane")
    others = {name: 0 for _, expr in layout.base for name in expr.symbols}
    held = [
        tuple(expr.evaluate({**others, "lane": number}) for _, expr in layout.base) for number in range(kernel.lanes)
    ]
    same = [
        bit
        for bit in range(kernel.lanes.bit_length() - 1)
        if all(held[number] == held[number ^ 1 << bit] for number in range(kernel.lanes))
    ]
    first = [held[number] for number in range(kernel.lanes) if not any(number >> bit & 1 for bit in same)]
    assert len({*first}) == len(first), f"lanes share elements of {layout} in no pattern of bits"
    return tuple((_bit(lane, bit), const(1)) for bit in same)


def _bit(lane: Expr, bit: int) -> Expr:
    return lane // (1 << bit) % 2

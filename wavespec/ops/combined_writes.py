"""A tile that is combined with what a tensor holds goes in; atomic operations of the lanes come out, one an element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wavespec.diagnostics import WavespecError, Where, listing, quote
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op, Value
from wavespec.ir.layout import Layout
from wavespec.ir.names import dim_of_wave
from wavespec.ir.thread import Mask
from wavespec.ir.tile_ops import ITERATE
from wavespec.ops.accesses import coordinates_in, edge
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.mapped_accesses import mapped_places
from wavespec.ops.own_elements import axes_apart, combine_own
from wavespec.ops.parts_of_waves import parts_of_waves
from wavespec.ops.turned_blocks import regroup
from wavespec.targets.machine import Machine

FUNCTIONS = {"max": "maximum", "min": "minimum"}
"""What combines two elements, by the word of a write, where it is called otherwise."""


class AtomicNotPossible(WavespecError, code="atomic-not-possible"):
    def __init__(self, where: Where, combine: str, memory: Memory, machine: Machine) -> None:
        has = machine.globals.atomics.get(combine, ())
        super().__init__(
            where,
            f"{machine.variant} cannot combine {memory.dtype} in one indivisible step by '{combine}'; "
            f"'{memory.name}' holds {memory.dtype}.",
            hints=[f"It can for {listing(has)}."] if has else [],
        )


class OldValueOfSeveral(WavespecError, code="old-value-of-several"):
    def __init__(self, where: Where, value: str, dims: Sequence[str]) -> None:
        dim = dims[0] if dims else ""
        split = f"lacks the dim {quote(dim)}, which workgroups split" if dim else "is the same in several workgroups"
        super().__init__(
            where,
            f"{quote(value)} {split}: each element is combined once, and the old value is known to the workgroup that "
            "does so alone.",
            hints=[f"Give a workgroup all of {quote(dim)}, or use the old values in a kernel of their own."]
            if dim
            else ["Use the old values in a kernel of their own."],
        )


def write_combined(op: Op, context: ThreadContext) -> None:
    """Combine each element of a tile once, however many lanes, waves and workgroups hold it; where the old values are
    used, all of them have these."""
    kernel, build = context.kernel, context.build
    memory, layout = kernel.memory(op["memory"]), op.operands[0].tile.layout
    assert layout is not None
    if memory.dtype.name not in context.machine.globals.atomics.get(op["combine"], ()):
        raise AtomicNotPossible(op.span, op["combine"], memory, context.machine)
    if axes := axes_apart(kernel, context.machine):
        combine_own(op, FUNCTIONS.get(op["combine"], op["combine"]), _holders(kernel, op, layout).mask, axes, context)
        return
    values = (op.operands[0], op.operands[-1]) if op.get("expected") else op.operands[:1]
    holders = _holders(kernel, op, layout)
    if op.get("at"):
        named = replace(op, operands=op.operands[: len(op.operands) - len(values) + 1])  # without what is expected
        places = mapped_places(named, layout, context)
    else:
        elements = [coordinates_in(memory, context.origin(op), inside) for inside in layout.coordinates()]
        places = [(memory.offset(at), edge(memory, op.get("masked", ()), at, 1)[0]) for at in elements]
    fragments = [[build.cast(one, memory.dtype) for one in context.fragments[value.name]] for value in values]
    function, name = FUNCTIONS.get(op["combine"], op["combine"]), op.result.name if op.results else ""
    old: list[Value] = []
    for register, (offset, mask) in enumerate(places):
        number, inside = divmod(register, layout.fragment_elements)
        operands = tuple(build.slice(parts[number], inside, 1) for parts in fragments)
        found = build.atomic(function, operands, memory.name, offset, mask=(*holders.mask, *mask), old=name)
        old += [found] if found is not None else []
    if op.results:
        found = regroup(build, holders.shared(old, op, context), layout.fragment_elements, name)
        context.fragments[name] = tuple(found)


@dataclass(frozen=True, slots=True)
class _Holders:
    """Who has the same elements of a tile: all that differ in these symbols of workgroups and waves, and in these bits
    of the number of a lane. The first of them combines."""

    kernel: Kernel
    workgroups: tuple[Expr, ...]
    waves: tuple[Expr, ...]
    bits: tuple[int, ...]

    @property
    def mask(self) -> Mask:
        """Where the first of those with the same elements is."""
        first = tuple((one, const(1)) for one in (*self.workgroups, *self.waves))
        return (*first, *((_bit(self.kernel.symbol("lane"), bit), const(1)) for bit in self.bits))

    def shared(self, old: Sequence[Value], op: Op, context: ThreadContext) -> list[Value]:
        """What the first has found, as all have it."""
        counted = [one for one in self.workgroups if self.kernel.grid[int(one.args[0][2:])].high != 1]
        if counted:
            dims = [split.dim for split in self.kernel.distribution.workgroup if split.dim not in op.result.tile.dims]
            raise OldValueOfSeveral(op.span, op.node, dims)
        waves = [one.args[0] for one in self.waves]
        if not waves and not self.bits:
            return list(old)
        steps = tuple(1 << bit for bit in self.bits)
        return [parts[0] for parts in parts_of_waves(context, old, waves, op.result.name, steps)]


def _holders(kernel: Kernel, op: Op, layout: Layout) -> _Holders:
    named = {name for _, expr in (*layout.base, *op["origin"]) for name in expr.symbols}
    for loop in (one for one in kernel.walk() if one.is_(ITERATE) and one["induction"] in named):
        bounds = [loop[key] for key in ("lower", "extent", "stride") if loop.get(key) is not None]
        named |= {name for bound in bounds for name in bound.symbols}  # workgroups may share out the steps
    axes = [known for known in kernel.symbols if known.args[0] in (f"wg{axis}" for axis in range(len(kernel.grid)))]
    # Waves that take turns have tiles of their own; all others split a dim.
    waves = [kernel.symbol(name) for name, count in kernel.waves if count > 1 and dim_of_wave(name)]
    alike = [tuple(one for one in known if one.args[0] not in named) for known in (axes, waves)]
    return _Holders(kernel, alike[0], alike[1], _bits(kernel, layout))


def _bits(kernel: Kernel, layout: Layout) -> tuple[int, ...]:
    """The bits of the number of a lane that tell no places apart: those lanes hold what no lane before them does that
    have none of them."""
    if kernel.lanes == 1:
        return ()
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
    return tuple(same)


def _bit(lane: Expr, bit: int) -> Expr:
    return lane // (1 << bit) % 2

"""Tile kernel in, tile kernel out: every tile has a layout, its place in waves, lanes and registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from wavespec.diagnostics import WavespecError, Where, enumeration, raise_all
from wavespec.ir.kernel import Kernel, Op, Split, TileType, Value, VectorType, retype, rewrite
from wavespec.ir.layout import Layout, lanes_of_row, spread
from wavespec.ir.nodes import replace
from wavespec.ir.tile_ops import (
    ACROSS,
    CAST,
    CLUSTER_SUM,
    DOT,
    ELEMENTWISE,
    ITERATE,
    JOIN,
    MMA,
    READ,
    SPREAD_SUM,
    TOPK,
    WRITE,
)
from wavespec.lower.base import Pass, written_name
from wavespec.lower.bring_together import alike, bring_together, layout_like
from wavespec.lower.in_place import moved_in_place, reads_in_place, with_awaited_writes
from wavespec.lower.lane_layouts import lane_layouts
from wavespec.lower.planned_tiles import hints_of_plan
from wavespec.lower.product_layouts import product_layouts
from wavespec.lower.spread_tile import spread_tile
from wavespec.lower.tile_properties import products_have_instructions, tiles_have_extents, tiles_have_layouts
from wavespec.ops.index_map import is_window
from wavespec.ops.topk import result_layout
from wavespec.targets.machine import Machine

_MOST_COSTS = 3


class TooManyRegisters(WavespecError, code="too-many-registers"):
    """``costs``: of values, what each is and takes, the largest first; ``tiles``: that make the first one large, or
    ``planned``: what to do about those of the compiler."""

    def __init__(
        self,
        where: Where,
        costs: Sequence[tuple[str, str, int]],
        tiles: Sequence[str],
        machine: Machine,
        planned: Sequence[str] = (),
    ) -> None:
        (name, _, needed), *_ = costs
        most = enumeration(f"'{one}' {what} with {registers}" for one, what, registers in costs[:_MOST_COSTS])
        super().__init__(
            where,
            f"'{name}' takes {needed} registers of each lane; {machine.variant} has {machine.registers}.",
            notes=[f"The largest are {most}."],
            hints=planned or [f"Lower {enumeration(tiles, 'or')}." if tiles else "Give the dims smaller tiles."],
        )


class VectorNotPossible(WavespecError, code="vector-not-possible"):
    def __init__(self, where: Where, why: str, hint: str) -> None:
        super().__init__(where, f"Lanes cannot take vectors like this: {why}.", hints=[hint])


class AssignLayouts(Pass):
    """Distribute tiles: the matrix instructions fix their operands, everything connected to them follows.

    Before: tiles without layouts.
    After:  operands and accumulators of an mma have the instruction's layout, repeated over the wave tile; values
            that carry an accumulator through loops, constants, writes and elementwise operations share its layout.
            An operand with fewer dims than the result has the layout's projection on its dims.  What the matrix
            unit reads itself has none.  What leaves through shared memory has the layout of sums, else it is stored
            as it is.  Rows of a `cluster_sum`, and tiles that no mma reaches, are spread over lanes;
            all that a `topk` finds is in every lane that has a part of the row.
            Where values meet that several products, or a spread, have put in different places, one is taken from where
            it is.
    Errors: ``too-many-registers`` at the wave's tile; ``vector-not-possible`` at a vector that is no part of any tile,
            or of which a wave's part is no multiple.
    """

    name: ClassVar[str] = "assign-layouts"
    requires = (products_have_instructions, tiles_have_extents)
    ensures = (tiles_have_layouts,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        raise_all(_misfits(kernel))
        layouts: dict[str, Layout] = {}
        for op in kernel.walk():
            if op.is_(MMA, DOT):
                layouts_of = product_layouts if op.is_(MMA) else lane_layouts
                a, b, acc = layouts_of(kernel, op, machine)
                layouts |= {
                    op.operands[0].name: a,
                    op.operands[1].name: b,
                    op.operands[2].name: acc,
                    op.result.name: acc,
                }
            # Rows alone are where the sums of a cluster are.
            if op.is_(SPREAD_SUM) or (op.is_(CLUSTER_SUM) and len(op.result.tile.dims) > 1):
                layouts[op.result.name] = _over_lanes(kernel, op)
        links = [(values[0], value) for op in kernel.walk() for values in alike(op) for value in values[1:]]
        links += _kept(kernel)
        _follow(links, layouts)
        for op in kernel.walk():
            if op.is_(TOPK):
                (value, *_) = op.operands
                if value.name not in layouts:
                    layouts[value.name] = spread_tile(kernel, value.tile, machine)
                    _follow(links, layouts)
                layouts |= {found.name: result_layout(op, layouts[value.name]) for found in op.results}
                _follow(links, layouts)
        _share_operands(kernel, machine, links, layouts)
        tiles = (value for op in kernel.walk() if not op.get("by_unit") for value in op.results)
        for value in sorted(tiles, key=lambda value: -len(value.tile.dims)):
            if value.name not in layouts:  # no matrix product says how
                layouts[value.name] = spread_tile(kernel, value.tile, machine)
                _follow(links, layouts)
        kernel = bring_together(kernel, layouts)
        layouts |= _sums_of_lanes(kernel, layouts)
        types: dict[str, TileType | VectorType] = {}
        kept = layouts.keys() - _passing(kernel)
        for op in kernel.walk():
            if op.get("by_unit"):
                continue
            for value in (*op.results, *(op.region.arguments if op.region else ())):
                types[value.name] = replace(value.tile, layout=layouts[value.name])
                if machine.registers and value.name in kept and _registers(value, layouts) > machine.registers:
                    raise _too_many_registers(kernel, machine, {name: layouts[name] for name in kept}, op)
        kernel = replace(kernel, body=tuple(retype(op, types) for op in kernel.body))
        raise_all(moved_in_place(kernel, machine))
        kernel = with_awaited_writes(kernel, machine)
        return _with_staged_sums(kernel, [layouts[op.result.name] for op in kernel.walk() if op.is_(MMA)])


def _with_staged_sums(kernel: Kernel, sums: Sequence[Layout]) -> Kernel:
    """The kernel with nothing but what is distributed like sums leaving through shared memory, in slabs of theirs; what
    is read in place is written by the lanes that have read it."""

    def change(op: Op) -> tuple[Op, ...]:
        others = op.get("staged") and (op.operands[0].tile.layout not in sums or op["memory"] in in_place)
        return (op.with_(staged=()) if others else op,)

    in_place = reads_in_place(kernel)
    before = {name for op in kernel.walk() for name in op.get("staged", ())}
    kernel = replace(kernel, body=rewrite(kernel.body, change, WRITE))
    unused = before - {name for op in kernel.walk() for name in op.get("staged", ())}
    return replace(kernel, memories=tuple(memory for memory in kernel.memories if memory.name not in unused))


def _registers(value: Value, layouts: Mapping[str, Layout]) -> int:
    """Of a lane, for its part of a value."""
    return layouts[value.name].elements * value.tile.dtype.bits // 32


def _passing(kernel: Kernel) -> set[str]:
    """What windows hold, and what is computed of that up to their sums: elements that windows share are one register,
    and the others are made one after another."""
    found = set[str]()
    for op in kernel.walk():
        if (op.is_(READ) and is_window(op)) or (
            op.is_(CAST, ELEMENTWISE) and any(v.name in found for v in op.operands)
        ):
            found.add(op.result.name)
    return found


def _too_many_registers(kernel: Kernel, machine: Machine, layouts: Mapping[str, Layout], op: Op) -> WavespecError:
    """At the tile of a wave or, without one, of a workgroup or a loop that makes the largest value large."""
    values = [
        value for one in kernel.walk() for value in one.results if value.name in layouts and not one.get("by_unit")
    ]
    values.sort(key=lambda value: -_registers(value, layouts))
    costs: dict[str, tuple[str, str, int]] = {}
    for value in values:
        extents = ", ".join(f"{dim}: {extent}" for dim, extent in zip(value.tile.dims, value.tile.extents, strict=True))
        name = written_name(kernel, value)
        costs.setdefault(name, (name, f"[{extents}] of {value.tile.dtype.name}", _registers(value, layouts)))
    plan, tiles = kernel.distribution, dict[str, tuple[str, Split]]()
    waves = () if plan.chosen else plan.waves
    for kind, splits in (("wave", waves), ("workgroup", plan.workgroup), ("tiling", plan.loops)):
        for split in splits:
            if split.dim in values[0].tile.dims:
                tiles.setdefault(split.dim, (f"the tile of '{kind}: {split.dim}' ({_as_written(split)})", split))
    where = next((split.span for _, split in tiles.values() if split.span), op.span)
    words = [words for words, _ in tiles.values()]
    return TooManyRegisters(where, list(costs.values()), words, machine, hints_of_plan(kernel))


def _as_written(split: Split) -> str:
    """``WAVE_M = 256``, or the number alone where that is what the spec has."""
    span = split.span
    if span is None or span.source is None or span.line != span.end_line:
        return str(split.tile)
    text = span.source.lines[span.line - 1][span.column - 1 : span.end_column - 1].strip("'\"")
    return text if text == str(split.tile) else f"{text} = {split.tile}"


def _share_operands(
    kernel: Kernel, machine: Machine, links: Sequence[tuple[Value, Value]], layouts: dict[str, Layout]
) -> None:
    """Waves that multiply the same part of a computed operand each compute a part of that, unless they have to reduce
    what they compute it from: then each does all of it."""
    reduced = {op.operands[0].name for op in kernel.walk() if op.is_(ACROSS)}
    for op in kernel.walk():
        if not op.is_(WRITE) or kernel.memory(op["memory"]).space != "shared" or op.operands[0].name in layouts:
            continue
        (value, *_) = op.operands
        contiguous = kernel.memory(op["memory"]).contiguous_dim if kernel.producers else ""  # as it is staged, too
        own = {value.name: spread_tile(kernel, value.tile, machine, by_all_waves=True, contiguous=contiguous)}
        _follow([link for link in links if not {one.name for one in link} & layouts.keys()], own)
        if not own.keys() & reduced:
            layouts |= own


def _misfits(kernel: Kernel) -> Iterator[WavespecError]:
    """Vectors that lanes cannot have."""
    tiles = [value.tile for op in kernel.walk() for value in op.results]
    has_products = any(op.is_(MMA) for op in kernel.walk())
    for split in kernel.distribution.vectors:
        dim, count = split.dim, split.tile
        parts = [tile.extent(dim) // kernel.waves_along(dim) for tile in tiles if dim in tile.dims]
        if has_products:
            why = "the matrix instruction says which elements a lane has"
            yield VectorNotPossible(split.span, why, "Leave out 'vector'.")
        elif not parts:
            yield VectorNotPossible(split.span, f"no tile has '{dim}'", f"Leave out '{dim}'.")
        elif count < 1 or any(part % count for part in parts):
            part = next((part for part in parts if count > 0 and part % count), parts[0])
            why = f"a wave has {part} elements along '{dim}', in vectors of {count}"
            yield VectorNotPossible(split.span, why, f"Use a divisor of {part}.")


def _follow(links: Sequence[tuple[Value, Value]], layouts: dict[str, Layout]) -> None:
    """Give linked values layouts until there is nothing more to say."""
    changed = True
    while changed:
        changed = False
        for one, other in links:
            for known, value in ((one, other), (other, one)):
                if known.name in layouts and value.name not in layouts and _covers(known, value):
                    layouts[value.name], changed = layout_like(known, layouts[known.name], value), True


def _sums_of_lanes(kernel: Kernel, layouts: Mapping[str, Layout]) -> dict[str, Layout]:
    """Where loops carry one number for all that a lane has along a dim: it is at the place of the first."""
    joins = [op for op in kernel.walk() if op.is_(JOIN) and op.get("by_lane")]
    along = {value.name: op["dim"] for op in joins for value in (op.operands[0], op.result)}
    for loop in kernel.walk():
        if loop.is_(ITERATE):
            for carried in zip(loop.operands, loop.body.arguments, loop.body.yields, loop.results, strict=True):
                dims = [along[value.name] for value in carried if value.name in along]
                along |= {value.name: dim for dim in dims[:1] for value in carried}
    return {name: layouts[name].of_first(dim) for name, dim in along.items()}


def _over_lanes(kernel: Kernel, op: Op) -> Layout:
    tile, (*_, row, column) = op.result.tile, kernel.memory(op["memory"]).dims
    thread = kernel.wave_number * kernel.lanes + kernel.symbol("lane")
    extents = (tile.extent(row), tile.extent(column))
    width, threads = op["width"], kernel.wave_count * kernel.lanes
    return spread((row, column), extents, width, thread, threads, lanes_of_row(extents[1] // width, threads))


def _kept(kernel: Kernel) -> Iterator[tuple[Value, Value]]:
    """What is read back, after what was written there for want of registers."""
    private = {memory.name for memory in kernel.memories if memory.space == "private"}
    accesses = [op for op in kernel.walk() if op.get("memory") in private]
    written = {op["memory"]: op.operands[0] for op in accesses if op.is_(WRITE)}
    read = ((written[op["memory"]], op.result) for op in accesses if op.is_(READ))
    return ((one, other) for one, other in read if one.tile.extents == other.tile.extents)  # not a part of a whole one


def _covers(known: Value, value: Value) -> bool:
    return set(value.tile.dims) <= set(known.tile.dims)

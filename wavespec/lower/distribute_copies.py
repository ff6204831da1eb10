"""Tile kernel in, tile kernel out: every staging copy is spread over all lanes in the widest accesses both sides
allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import ClassVar

from wavespec.ir.expr import Expr, ceildiv, const, minimum, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, attribute_pairs, rewrite
from wavespec.ir.layout import Layout, RegisterAxis, spread
from wavespec.ir.names import dim_of_wave
from wavespec.ir.tile_ops import COPY, MMA, READ
from wavespec.lower.base import Pass
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.empty_dims import may_be_empty
from wavespec.lower.lane_order import copies_in_lane_order, copy_width
from wavespec.lower.rows_again import parts_of_rows, rows_again
from wavespec.lower.split_reduction import remaining
from wavespec.lower.tile_properties import copies_are_distributed, tiles_are_placed
from wavespec.lower.turned_tiles import turned_blocks_of
from wavespec.ops.index_map import index_of, seen_by
from wavespec.ops.moved_places import moved_place, rows_moved_together
from wavespec.ops.shifted_rows import period_of, shift_of
from wavespec.ops.tensor_views import as_matrices, as_slabs, as_windows, slab_columns
from wavespec.targets.machine import Machine

_MAPPED = ("at", "over", "through")
_FEWEST_ROWS = 32  # of a piece: boxes of fewer take longer to be asked for than lanes take to copy them,
_FEWEST_ROWS_ONCE = 8  # which does not matter where no loop does it again; swizzles begin anew with so many
Box = tuple[tuple[int, int], ...]
_VECTORS_OF_ROW = 4  # that a mapping finds side by side, checked and placed together, on the same machines
_ROWS_AT_ONCE = 16  # rows of a copy whose loads are in flight together, on machines where one lane copies

_ROWS_OF_PERIOD = 32  # of a copy that are written out so that what differs from row to row is a number


class DistributeCopies(Pass):
    """Give each ``copy`` the layout of its tile over the lanes of the whole workgroup.

    Before: ``copy`` has source, memory and origin.
    After:  also ``layout`` (per lane), ``loops`` (symbol, extent, step) on machines where one lane walks over the
            whole tile, ``guard`` (pairs left < right) and ``bounded`` (dims) where some lanes would reach beyond the
            tile, ``transpose`` = (rows, columns, unit) when elements change order on the way into packed panels, and
            ``asynchronous`` where the machine copies without registers.
    Cases:  1. lanes that run together: lanes along the contiguous dim first, so that neighbours read neighbours; of
               rows that are gathered beside products as many as a row of the swizzle has, for several pieces each;
               where asynchronous copies write in the order of lanes, along what is contiguous in shared memory: a lane
               reads the element that the swizzle puts there; blocks, turned in registers, where the tile lies turned;
            2. one lane, rows: one vector per step; 3. one lane, panels: square blocks transposed in registers, as many
               as it takes for remainders of a mapping by numbers to come again, columns outermost if those are divided;
            4. waves that only copy, tensors whose rows the machine copies by itself, of no more dims than it counts,
               and that no workgroup finds empty: ``boxes``, each (start, extent) per dim, and an origin along each dim
               of the tensor; ``again``, the dim whose first elements a box copies that would have none of the tensor.
               A mapping, of what is loaded too (``through``), may move a tile, and leave out its last rows: the first
               ``valid`` are read.  One that counts over dims, or has windows move over them, stays, and the boxes are
               in terms of the tile's dims.
    """

    name: ClassVar[str] = "distribute-copies"
    requires = (tiles_are_placed,)
    ensures = (copies_are_distributed,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        added: list[Expr] = []
        in_lane_order = copies_in_lane_order(kernel, machine)

        def change(op: Op) -> tuple[Op, ...]:
            source, shared = seen_by(op, kernel), kernel.memory(op["memory"])
            tensor = kernel.memory(op["source"])
            moved = _moved(op, tensor, shared) if kernel.producers and not may_be_empty(kernel, tensor) else None
            again = rows_again(op, kernel, shared) if moved else ""
            parts = parts_of_rows(shared.shape[0].value) if again else 1
            boxes = boxes_of(moved[1], shared, machine, parts) if moved else ()
            if moved and boxes and _has_rows(moved[0], boxes, tensor, machine):
                return (moved[0].with_(boxes=boxes, **({"again": again} if again else {})),)
            if kernel.producers and (boxes := _boxes_of_mapping(op, kernel, shared, machine)):
                return (op.with_(boxes=boxes),)
            if kernel.producers and (pieces := in_pieces(op, kernel, shared, machine)):
                return pieces
            if machine.concurrent_waves:
                return (_over_lanes(kernel, op, source, shared, machine, in_lane_order=in_lane_order),)
            changed, symbols = _over_blocks(kernel, op, source, shared, machine)
            added.extend(symbols)
            return (changed,)

        body = rewrite(kernel.body, change, COPY)
        return replace(kernel.with_symbols(*added), body=body)


def _moved(op: Op, tensor: Memory, shared: Memory) -> tuple[Op, Memory] | None:
    """The copy with a place for each dim of the tensor, and the tensor with the names that its dims have in the tile.

    Where the mapping only moves the tile: along each of its dims one of the tensor has the same neighbours, all other
    places are the same for the whole tile, and so are the values that places are made of.  The machine leaves out what
    is outside; the last rows may be, whatever the tensor has there (``valid``).
    """
    if not op.get("at"):
        return op, tensor
    origin, places = dict(op["origin"]), dict[str, Expr]()
    moving = {index_of(dim).args[0]: dim for dim in shared.dims}
    known = {index_of(dim).args[0]: start for dim, start in origin.items()}
    rows: Expr | None = None
    for dim, place in op["at"]:
        found = moved_place(place, shared.dims)
        if found is None or (found.dim or dim) in places:
            return None
        places[found.dim or dim] = found.place.substitute(known)
        for outside in found.outside:
            if index_of(shared.dims[0]).args[0] not in outside.symbols:
                return None
            here = 1 - outside.substitute(known)
            rows = here if rows is None else minimum(rows, here)
    through = op["through"]
    if any(not moving.keys().isdisjoint(expr.symbols) for _, _, at in through for _, expr in at):
        return None
    if not {*shared.dims} <= places.keys():
        return None
    loads = tuple((name, of, tuple((d, expr.substitute(known)) for d, expr in at)) for name, of, at in through)
    attributes = {key: value for key, value in op.attributes if key not in _MAPPED}
    attributes |= {"origin": tuple(places.items())} | ({"through": loads} if loads else {})
    attributes |= {} if rows is None else {"valid": rows}
    return replace(op, attributes=attribute_pairs(attributes)), replace(tensor, dims=tuple(places))


def in_pieces(op: Op, kernel: Kernel, shared: Memory, machine: Machine) -> tuple[Op, ...]:
    """A copy for each piece of a tile whose rows a mapping only moves together, such as those of a page: between
    multiples of what it divides the index of a row by.  Empty where the machine copies no such pieces by itself."""
    (row, _), height, tensor = shared.dims, shared.shape[0].value, kernel.memory(op["source"])
    places = [place for _, place in op.get("at") or ()]
    places += [place for _, _, at in op.get("through") or () for _, place in at]
    rows = rows_moved_together(places, index_of(row), math.gcd(height, dict(op["origin"])[row].divisor))
    is_once = any(one.is_(COPY) and one["memory"] == shared.name for one in kernel.body)
    if rows < (_FEWEST_ROWS_ONCE if is_once else _FEWEST_ROWS) or may_be_empty(kernel, tensor):
        return ()
    read = {one.result.name for one in kernel.walk() if one.is_(READ) and one["memory"] == shared.name}
    products = [one for one in kernel.walk() if one.is_(MMA) and one["k"] == row]
    summed = any(value.name in read for product in products for value in product.operands)
    pieces = list[Op]()
    for start in range(0, height, rows):
        first = dict(op["origin"])[row] + start
        moved = _moved(_piece(op, row, first, rows), tensor, shared)
        boxes = boxes_of(moved[1], shared, machine, height // rows) if moved else ()
        if not moved or not boxes:
            return ()
        piece, at = moved[0], moved[1].dims.index(row)
        origin = tuple((dim, place - start if dim == row else place) for dim, place in piece["origin"])
        piece = piece.with_(origin=origin, boxes=tuple(box for box in boxes if box[at][0] == start))
        there: Expr | None = piece.get("valid")
        valid = list[Expr]() if there is None else [there + start]
        if summed and kernel.all_sizes[row].divisor % height:  # what is added up has to be 0 behind the last row
            valid.append(kernel.all_sizes[row] - first + start)
        piece = piece.with_(valid=reduce(minimum, valid)) if valid else piece
        if not _has_rows(piece, boxes, tensor, machine):
            return ()
        pieces.append(piece)
    return tuple(pieces)


def _piece(op: Op, row: str, first: Expr, rows: int) -> Op:
    """The copy in terms of the rows of a piece, the ``first`` of which is 0."""
    name = index_of(row).args[0]
    within = {name: first + symbol(name, 0, rows - 1)}

    def moved(at: Sequence[tuple[str, Expr]]) -> tuple[tuple[str, Expr], ...]:
        return tuple((dim, place.substitute(within).substitute({name: index_of(row)})) for dim, place in at)

    origin = tuple((dim, const(0) if dim == row else place) for dim, place in op["origin"])
    through = tuple((value, of, moved(at)) for value, of, at in op["through"])
    return op.with_(at=moved(op["at"]), through=through, origin=origin)


def _left_out_by_a_check(op: Op, shared: Memory) -> Op:
    """The copy without the parts of places that only leave out rows from some index on: a comparison does it."""
    found = [(dim, moved_place(place, shared.dims)) for dim, place in op.get("at") or ()]
    places = {dim: moved for dim, moved in found if moved is not None and moved.outside}
    at = tuple((dim, places[dim].place if dim in places else place) for dim, place in op.get("at") or ())
    outside = tuple(one for moved in places.values() for one in moved.outside)
    return op.with_(at=at, outside=outside) if outside else op


def _has_rows(copy: Op, boxes: tuple[Box, ...], tensor: Memory, machine: Machine) -> bool:
    """Whether the machine can copy a row of each box alone, where that is asked for."""
    (_, width) = boxes[0][-1]
    return copy.get("valid") is None or width * tensor.dtype.bytes % machine.globals.bulk_target_bytes == 0


def boxes_of(source: Memory, shared: Memory, machine: Machine, parts: int = 1) -> tuple[Box, ...]:
    """The boxes of consecutive rows that make up a staged tile; none where the machine cannot copy them by itself.
    ``parts``: how many there are at least of the rows.

    A row of a box is a row of the swizzle, dims that the tile does not have are 1.
    """
    granule = machine.globals.bulk_row_bytes
    if (
        not granule
        or source.dtype != shared.dtype
        or source.is_packed != shared.is_packed
        or len(source.dims) > machine.globals.bulk_box_dims
        or source.row_divisor * source.dtype.stored_bits % (8 * granule)
    ):
        return ()
    assert shared.arrangement is not None
    (row, column), (height, width) = shared.dims, (extent.value for extent in shared.shape)
    if not column == source.contiguous_dim == source.dims[-1]:  # dims of one element are no rows of a swizzle
        return ()
    columns = slab_columns(shared)
    most = min(max(1, height // parts), machine.globals.bulk_box_elements)
    rows = max(size for size in range(1, most + 1) if height % size == 0)
    shift = shift_of(shared)  # of what is there once, the first of several slabs is copied
    step = shift.depth if shift else columns
    starts = ((top, left) for left in range(0, width, step) for top in range(0, height, rows))
    boxes = ({row: (top, rows), column: (left, columns)} for top, left in starts)
    return tuple(tuple(box.get(dim, (0, 1)) for dim in source.dims) for box in boxes)


def _boxes_of_mapping(op: Op, kernel: Kernel, shared: Memory, machine: Machine) -> tuple[Box, ...]:
    """The boxes of a tile whose mapping the machine follows by itself, each (start, extent) per dim of the tile."""
    if matrices := as_matrices(op, kernel, shared.dims):
        return boxes_of(matrices.memory, shared, machine)
    tensor = kernel.memory(op["source"])
    if not as_windows(op, kernel, shared, machine):
        if len(tensor.dims) > machine.globals.bulk_box_dims or not as_slabs(op, kernel, shared):
            return ()
        return boxes_of(replace(tensor, dims=shared.dims, shape=tensor.shape[-2:]), shared, machine)
    # Workgroups of a cluster differ along axis 0, and copy in turns what is the same for them.
    parts = 1 if any("wg0" in start.symbols for _, start in op["origin"]) else kernel.cluster
    rows = replace(tensor, dims=shared.dims, shape=(tensor.elements, tensor.shape[-1]))
    return boxes_of(rows, shared, machine, parts)


def _over_lanes(kernel: Kernel, op: Op, source: Memory, shared: Memory, machine: Machine, *, in_lane_order: bool) -> Op:
    row, column = shared.dims
    height, depth = (extent.value for extent in shared.shape)
    threads, wave = kernel.threads, kernel.wave_number
    if kernel.producers:
        threads, wave = kernel.producers * kernel.lanes, const(0)
    thread = wave * kernel.lanes + kernel.symbol("lane")
    if turned := turned_blocks_of(shared, thread, threads):
        layout, block, across, down = turned
        guard, bounded = _beyond(thread, threads, (row, column), (down, across), min(across, threads))
        return op.with_(layout=layout, loops=(), guard=guard, bounded=bounded, transpose=(*block, 1))
    width = copy_width(source, shared, machine)
    per_row = depth // width
    columns = min(per_row, threads)
    if kernel.producers and op.get("through"):
        columns = _lanes_of_gathered_row(shared, width, threads) or columns
    layout = spread((row, column), (height, depth), width, thread, threads, columns)
    if in_lane_order and shared.arrangement is not None and shared.arrangement.swizzle is not None:
        places = dict(layout.base)
        swizzled = shared.arrangement.swizzled(places[column], places[row])
        layout = replace(layout, base=((row, places[row]), (column, swizzled)))
    guard, bounded = _beyond(thread, threads, (row, column), (height, per_row), columns)
    # What is masked off gets zeros, so lanes without a place in the tile need the other way.
    copies, every_lane = machine.globals.async_copies, not guard and not bounded
    alike = source.dtype == shared.dtype and not source.dtype.is_packed and width * source.dtype.bytes in copies.bytes
    asynchronous = in_lane_order if copies.in_lane_order else alike and every_lane
    if asynchronous:
        op = _left_out_by_a_check(op.with_(asynchronous=True), shared)
    return op.with_(layout=layout, loops=(), guard=guard, bounded=bounded, transpose=())


def _lanes_of_gathered_row(shared: Memory, width: int, threads: int) -> int:
    """As many as copy a row of the swizzle, so that a lane that knows where a row is has several pieces of it; 0 where
    these do not fill the tile evenly."""
    height, depth = (extent.value for extent in shared.shape)
    lanes = slab_columns(shared) // width
    even = lanes and not threads % lanes and not height % (threads // lanes) and not depth % (lanes * width)
    return lanes if even else 0


def _beyond(
    thread: Expr, threads: int, dims: tuple[str, str], counts: tuple[int, int], columns: int
) -> tuple[tuple[tuple[Expr, Expr], ...], tuple[str, ...]]:
    """Which lanes have nothing to copy, and along which dims some reach beyond the tile, which has so many parts along
    each; ``columns`` lanes take a row together."""
    (row, column), (height, per_row) = dims, counts
    rows_at_once = max(1, threads // columns)
    guard = ((thread, const(rows_at_once * columns)),) if threads % columns else ()
    bounded = (row,) if height % rows_at_once else ()
    return guard, bounded + ((column,) if per_row % columns else ())


def _read_extents(kernel: Kernel, staged: Memory, machine: Machine) -> dict[str, int]:
    """What is read is filled, beyond the edge of a tensor too: the extents of one matrix instruction, of a whole tile
    that no waves share, and of one step along k; the whole tile where it is used otherwise than in products."""
    extents: dict[str, int] = {}
    shared = {dim_of_wave(name) for name, _ in kernel.waves}
    used = {value.name for op in kernel.walk() if not op.is_(MMA) for value in op.operands}
    for op in kernel.walk():
        if op.is_(READ) and op["memory"] == staged.name and op.result.name in used:
            extents |= {dim: extent.value for dim, extent in zip(staged.dims, staged.shape, strict=True)}
    for op in kernel.walk():
        if op.is_(MMA):
            row, acc = instruction_of(op, machine), op.result.tile
            free = [(d, extent if d in shared else acc.extent(d)) for d, extent in ((op["m"], row.m), (op["n"], row.n))]
            for dim, extent in (*free, (op["k"], op.operands[0].tile.extent(op["k"]))):
                extents[dim] = math.lcm(extents.get(dim, 1), extent)
    return extents


def _blocks_of_period(op: Op, row: str, lines: int) -> int:
    """Blocks of so many rows after which remainders of the row by numbers, such as the taps of a filter, come again:
    code for each of them has these as numbers."""
    index, period = index_of(row), 1
    for _, place in op.get("at", ()):
        for node in place.walk():
            if node.kind == "mod" and node.args[1].is_const:
                value, divisor = node.args[0], node.args[1].value
                if value.kind == "floordiv" and value.args[1].is_const:
                    value, divisor = value.args[0], divisor * value.args[1].value
                period = math.lcm(period, divisor) if value is index else period
    several = math.lcm(period, lines) // lines
    return several if several * lines <= _ROWS_OF_PERIOD else 1


def _is_divided(op: Op, dim: str) -> bool:
    """Whether places of a mapping are quotients or remainders of the index along a dim by sizes."""
    index = index_of(dim).args[0]
    nodes = (node for _, place in op.get("at", ()) for node in place.walk() if node.kind in ("floordiv", "mod"))
    return any(index in node.symbols and not node.args[1].is_const for node in nodes)


def _over_blocks(kernel: Kernel, op: Op, source: Memory, shared: Memory, machine: Machine) -> tuple[Op, list[Expr]]:
    row, column = shared.dims
    sizes = {dim: extent.value for dim, extent in zip(shared.dims, shared.shape, strict=True)}
    assert shared.arrangement is not None
    digits = shared.arrangement.digits
    width = machine.vector_bytes // shared.dtype.bytes
    unit = digits[-1].extent if digits[-1].dim == column and digits[-1].stride == 1 else 1
    while digits[-1].dim == column and unit % width and width % unit:
        width //= 2
    packed = digits[-1].dim == row or unit < min(width, sizes[column])
    lines = width // unit if packed else min(sizes[row], _ROWS_AT_ONCE)
    together = (
        next((digit.extent for digit in digits if digit.dim == row and digit.step == 1), 1) if packed else sizes[row]
    )
    while together % lines:
        lines -= 1
    while sizes[column] % width:
        width //= 2
    if not packed and op.get("at"):
        known = math.gcd(kernel.memory(op["source"]).shape[-1].divisor, unit)  # what lies side by side on both sides
        width = max(width, math.gcd(known, _VECTORS_OF_ROW * width))
    loops: list[tuple[Expr, Expr, Expr]] = []
    symbols: list[Expr] = []
    base: list[tuple[str, Expr]] = []
    read = _read_extents(kernel, shared, machine)
    period = period_of(shared)  # of what is there once, the first of several rows is copied
    steps = {column: period} if period and width == unit else {}
    several = _blocks_of_period(op, row, lines) if packed and digits[0].dim == column else 1
    if sizes[row] % (several * lines) == 0:
        steps[row] = several * lines
    else:
        several = 1
    further = dict[str, Expr](op.get("further") or ())
    blocks = [(row, lines), (column, width)]
    if packed and digits[0].dim == column and _is_divided(op, column):  # once for a panel, and not in each of its rows
        blocks.reverse()
    for dim, block in blocks:
        step = steps.get(dim, block)
        granule = math.lcm(step, read.get(dim, 1))
        # Rows that are there once for all lines: steps are counted, so that places say nothing of lines.
        unit_step = step if dim == column and further and step == period else 1
        at = symbol(f"copy.{shared.name}.{dim}", 0, (sizes[dim] - step) // unit_step, step // unit_step)
        base.append((dim, at * unit_step))
        if not at.is_const:
            symbols.append(at)
            beyond = further.get(dim, const(0))
            there = remaining(kernel, dim, sizes[dim] - (beyond.high or 0), granule) + ceildiv(beyond, step) * step
            there = minimum(there, sizes[dim]) if beyond is not const(0) else there
            loops.append((at, ceildiv(there, unit_step), const(step // unit_step)))
    axes = (RegisterAxis(lines, ((row, 1),)), RegisterAxis(width, ((column, 1),)))
    if several > 1:
        axes = (RegisterAxis(several, ((row, lines),)), *axes)
    layout = Layout(tuple(base), axes, 2 if packed else 1)
    transpose = (lines, width // unit, unit) if packed else ()
    return op.with_(layout=layout, loops=tuple(loops), guard=(), bounded=(), transpose=transpose), symbols

"""How tile-level reads, writes and copies become the loads and stores of one lane."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile

from wavespec.ir.expr import Expr, const, minimum
from wavespec.ir.kernel import Memory, Op, Value
from wavespec.ir.layout import Layout
from wavespec.ir.thread import Mask, ThreadBuilder
from wavespec.ops.line_ends import takes_ends_apart
from wavespec.ops.matrix_places import matrix_places, moves_matrices, turned_matrices
from wavespec.ops.small_floats import converted
from wavespec.ops.turned_blocks import (
    PairedRows,
    TurnedBlocks,
    blocks_across,
    blocks_of_units,
    in_parts_of_runs,
    in_runs,
    paired_rows,
    regroup,
    stored_together,
    unit_of,
)
from wavespec.targets.machine import Machine

Coordinates = Mapping[str, Expr]
_TILE_ROWS, _TILE_ROW_BYTES = 16, 64  # of a tile register
_IN_TURN = (2, 4)  # rows whose elements one step of a product takes together


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive registers that are consecutive in memory."""

    register: int
    width: int
    offset: Expr
    coordinates: Coordinates


def pieces(
    memory: Memory,
    coordinates: Iterable[Coordinates],
    widest: int,
    machine: Machine,
    *,
    granule: int = 1,
    checked: bool = False,
) -> Iterator[Piece]:
    """Cut registers into the widest accesses that memory order and alignment allow (``widest`` in elements).

    ``coordinates``: of the first of every ``granule`` registers, which are known to be consecutive
    (``granule_elements``). ``checked``: the emitter sees to rows that start unaligned, so that only the place inside
    the row counts.
    """
    places = ((at, memory.offset(at)) for at in coordinates)
    start, inside, ahead = 0, 0, list(islice(places, -(-widest // granule) + 1))
    while ahead:
        run = granule - inside
        neighbours = takewhile(lambda pair: _follows(*pair, granule, memory), pairwise(ahead))
        while run < widest and next(neighbours, None):
            run += granule
        run = min(widest, run)
        width = run if machine.any_vector_length else 1 << (run.bit_length() - 1)
        at, offset = ahead[0][0], ahead[0][1] + inside
        if inside:
            at = {dim: at[dim] + inside if dim == memory.contiguous_dim else at[dim] for dim in memory.dims}
        known = at[memory.contiguous_dim] if checked else offset
        while width > 1 and not is_aligned(memory, known.divisor, width, machine):
            width //= 2
        yield Piece(start, width, offset, at)
        start += width
        used, inside = divmod(inside + width, granule)
        ahead = [*ahead[used:], *islice(places, used)]


def _follows(one: tuple[Coordinates, Expr], other: tuple[Coordinates, Expr], granule: int, memory: Memory) -> bool:
    """Whether the elements at a place begin where the ``granule`` ones of another end."""
    (here, start), (there, end) = one, other
    if end.beyond(start) != granule:
        return False
    # Bound checks look along the contiguous dim: rows of one element are rows still.
    return memory.space != "global" or all(here[d] is there[d] for d in memory.dims if d != memory.contiguous_dim)


def coordinates_in(memory: Memory, origin: Coordinates, inside: Coordinates) -> dict[str, Expr]:
    """Where an element of a tile is in memory; a dim that the tile does not have stays at its origin."""
    return {dim: origin[dim] + inside[dim] if dim in inside else origin[dim] for dim in memory.dims}


def granule_elements(memory: Memory, layout: Layout, origin: Coordinates) -> int:
    """Registers of a fragment that are consecutive in memory from every multiple of that number on, read off the
    strides alone."""
    if memory.arrangement is None:
        return math.gcd(layout.run_length(memory.contiguous_dim), layout.fragment_elements)
    if (swizzle := memory.arrangement.swizzle) is not None:  # chunks stay whole
        column = swizzle.column
        run = math.gcd(layout.run_length(column), swizzle.chunk, layout.fragment_elements)
        start = origin[column] + layout.base_of(column)
        others = (axis.stride(column) for axis in layout.axes if axis.stride(column) > run)
        return run if start.divisor % run == 0 and all(stride % run == 0 for stride in others) else 1
    run, axes = 1, list(layout.axes)
    for digit in reversed(memory.arrangement.digits):
        axis = axes.pop() if axes else None
        if (
            axis is None
            or axis.strides != ((digit.dim, digit.step),)
            or digit.stride != run
            or digit.extent % axis.extent
        ):
            break
        span = digit.step * axis.extent
        if (origin[digit.dim] + layout.base_of(digit.dim)).divisor % span or any(
            other.stride(digit.dim) % span for other in axes
        ):
            break
        run *= axis.extent
        if axis.extent != digit.extent:
            break
    return math.gcd(run, layout.fragment_elements)


def is_aligned(memory: Memory, divisor: int, width: int, machine: Machine) -> bool:
    if memory.space == "global":
        return machine.globals.aligned(divisor, width, memory.dtype.stored_bits)
    return machine.shared.any_alignment or divisor % width == 0


def edge(memory: Memory, masked: Sequence[str], at: Coordinates, width: int) -> tuple[Mask, Expr | None]:
    """The bound checks of one access: a mask for all of it, and how many elements exist where it may stick out."""
    mask: list[tuple[Expr, Expr]] = []
    valid: Expr | None = None
    for dim, size in zip(memory.dims, memory.shape, strict=True):
        if dim not in masked:
            continue
        if dim == memory.contiguous_dim and width > 1 and size.divisor % width:
            valid = size - at[dim]
        else:
            mask.append((at[dim], size))
        if (low := at[dim].low) is not None and low < 0:  # a shifted tile
            mask.append((-at[dim], const(1)))
    return tuple(mask), valid


def widest_access(memory: Memory, masked: Sequence[str], machine: Machine, *, checked: bool = False) -> int:
    """Elements of the widest access of one lane, given what is masked."""
    room = machine.shared.access_bytes if memory.space == "shared" else machine.globals.access_bytes
    bits = memory.dtype.stored_bits if memory.dtype.is_packed and machine.lanes > 1 else memory.dtype.bytes * 8
    widest = 1 << max(1, room * 8 // bits).bit_length() - 1
    # Elements that share bytes are inside their row together, or not at all.
    partial = (machine.globals.masked_vectors or checked) and not memory.dtype.is_packed
    if memory.contiguous_dim in masked and not partial:
        while widest > 1 and memory.row_length.divisor % widest:
            widest //= 2
    elif memory.contiguous_dim in masked and machine.globals.alignment_bytes and not checked:
        # What leaves out elements does so in units of the alignment, which the end of a tensor has to be a multiple of.
        unit = max(1, machine.globals.alignment_bytes // memory.dtype.bytes)
        if memory.row_length.divisor % unit:
            widest = 1
    return widest


def read_fragments(
    build: ThreadBuilder,
    memory: Memory,
    layout: Layout,
    origin: Coordinates,
    masked: Sequence[str],
    hint: str,
    machine: Machine,
    clamped: Sequence[str] = (),
    rank: int | None = None,
    *,
    is_factor: bool = False,
) -> tuple[Value, ...]:
    """Load a tile; returns its fragments in order.  Beyond the edge of a ``clamped`` dim the last element is read.
    ``rank``: from the shared memory of that workgroup of the cluster.  ``is_factor``: products alone use it."""
    granule = granule_elements(memory, layout, origin)
    blocks = _read_along(memory, layout, origin, masked, machine) if granule == 1 and not clamped else None
    if blocks is not None:
        lines = read_fragments(build, memory, blocks.lines, origin, masked, hint, machine)
        return tuple(regroup(build, blocks.fragments(build, lines, hint), layout.fragment_elements, hint))
    if is_factor and _takes_tile_load(memory, layout, granule, machine):
        return tuple(_load_tiles(build, memory, layout, origin, hint))
    last = {d: size - 1 for d, size in zip(memory.dims, memory.shape, strict=True) if d in clamped}
    places = (coordinates_in(memory, origin, c) for c in layout.coordinates(granule))
    coordinates = ({d: minimum(at, last[d]) if d in last else at for d, at in place.items()} for place in places)
    loaded: list[Value] = []
    if rank is None and moves_matrices(memory, layout, machine):
        loaded = [
            build.load_matrix(memory.name, memory.dtype, count, offset, hint=hint)
            for count, offset in matrix_places(memory, layout, origin)
        ]
    elif rank is None and (turned := turned_matrices(memory, layout, origin, machine)):
        loaded = [
            build.load_matrix(memory.name, memory.dtype, count, offset, transposed=True, hint=hint)
            for count, offset in turned
        ]
    else:
        widest = widest_access(memory, masked, machine, checked=takes_ends_apart(memory, granule, machine))
        for piece in pieces(memory, coordinates, widest, machine, granule=granule):
            mask, valid = edge(memory, masked, piece.coordinates, piece.width)
            loaded.append(
                build.load(
                    memory.name,
                    memory.dtype,
                    piece.width,
                    piece.offset,
                    mask=mask,
                    valid=valid,
                    rank=rank,
                    hint=hint,
                )
            )
    return tuple(regroup(build, loaded, layout.fragment_elements, hint))


def _read_along(
    memory: Memory, layout: Layout, origin: Coordinates, masked: Sequence[str], machine: Machine
) -> TurnedBlocks | None:
    """The blocks whose rows are read as they lie, and turned: of tensors where one access has a row of a block,
    which may end beyond theirs."""
    if memory.space != "global":
        return _blocks_of(memory, layout, origin, machine)
    found = _turned_across(memory, layout, origin, machine) if machine.vector_bytes else None
    if found is None or not isinstance(found[0], TurnedBlocks) or found[0].unit > 1:
        return None
    whole = machine.vector_bytes * 8 // memory.dtype.bits  # a row may be several registers
    return found[0] if widest_access(memory, masked, machine) >= min(found[0].width, whole) else None


def _blocks_of(memory: Memory, layout: Layout, origin: Coordinates, machine: Machine) -> TurnedBlocks | None:
    """The blocks to turn in registers where vectors, or bytes of registers, lie across the rows of a memory."""
    blocks = blocks_across(layout, memory, machine)
    whole = blocks is not None and granule_elements(memory, blocks.lines, origin) == blocks.width
    return blocks if whole else None


def _rows_of(memory: Memory, layout: Layout, origin: Coordinates, machine: Machine) -> PairedRows | None:
    """The rows whose elements lie in turn in a memory, where vectors are along another dim."""
    for rows in _IN_TURN if machine.vector_bytes else ():
        paired = paired_rows(layout, memory.nearest_dim, memory.dtype.bits, rows)
        if paired is not None and granule_elements(memory, paired.lines, origin) == rows * paired.width:
            return paired
    return None


def _units_of(memory: Memory, layout: Layout, origin: Coordinates, machine: Machine) -> TurnedBlocks | None:
    """The blocks of units to turn in registers where vectors lie across what a memory has one behind the other."""
    blocks = blocks_of_units(layout, memory, machine)
    whole = blocks is not None and granule_elements(memory, blocks.lines, origin) == blocks.width * blocks.unit
    return blocks if whole else None


def _turned_across(
    memory: Memory, layout: Layout, origin: Coordinates, machine: Machine
) -> tuple[TurnedBlocks | PairedRows, int] | None:
    """How vectors that lie across the rows of a memory are turned, and elements of the runs that are; rows of what a
    matrix instruction gives are turned as others, and runs that are longer than columns have rows, in parts."""
    whole = in_runs(layout)
    for of in (_blocks_of, _rows_of, _units_of):
        if (turned := of(memory, whole, origin, machine)) is not None:
            return turned, whole.fragment_elements
    for dim, unit, of in ((memory.nearest_dim, 1, _blocks_of), (*unit_of(memory), _units_of)):
        for parts in in_parts_of_runs(layout, dim, unit):
            if (turned := of(memory, parts, origin, machine)) is not None:
                return turned, parts.fragment_elements
    return None


def write_fragments(
    build: ThreadBuilder,
    memory: Memory,
    layout: Layout,
    origin: Coordinates,
    masked: Sequence[str],
    values: Sequence[Value],
    machine: Machine,
    *,
    buffer: Expr | int = 0,
    writers: Mask = (),
) -> None:
    """Store a tile from its fragments; ``writers``: which waves do."""
    granule = granule_elements(memory, layout, origin)
    across = _turned_across(memory, layout, origin, machine) if granule == 1 else None
    if across is not None:
        turned, run = across
        parts = regroup(build, [build.cast(value, memory.dtype) for value in values], run, memory.name)
        values = turned.of_fragments(build, [*parts], memory.name)
        layout, granule = turned.lines, turned.lines.fragment_elements
    size = layout.fragment_elements // granule
    checked = memory.space == "global" and machine.globals.checked_stores and memory.contiguous_dim in masked
    checked = checked and not memory.is_strided  # the length of a row says nothing about where the next one starts
    widest = widest_access(memory, masked, machine, checked=checked)
    coordinates = [coordinates_in(memory, origin, c) for c in layout.coordinates(granule)]
    for number, value in enumerate(values):
        value = build.cast(value, memory.dtype)
        part = coordinates[number * size : (number + 1) * size]
        for piece in pieces(memory, part, widest, machine, granule=granule, checked=checked):
            mask, valid = edge(memory, masked, piece.coordinates, piece.width)
            stored = build.slice(value, piece.register, piece.width)
            build.store(stored, memory.name, piece.offset, buffer=buffer, mask=(*writers, *mask), valid=valid)


def copy_tile(
    build: ThreadBuilder, source: Memory, shared: Memory, op: Op, origin: Coordinates, machine: Machine
) -> Callable[[], None]:
    """Stage one tile, by copies that go on by themselves where it is ``asynchronous``.

    Loads are issued now; the function returned stores what arrived, once the loads of other copies are on their way
    too.
    """
    layout: Layout = op["layout"]
    width = copied_together(op)
    local = list(layout.coordinates())
    waiting: list[tuple[Value, Coordinates, Mask]] = []
    for start in range(0, len(local), width):
        inside = local[start]
        at = coordinates_in(source, origin, inside)
        mask, valid = edge(source, op["masked"], at, width)
        guard: Mask = op["guard"] + tuple((inside[d], shared.shape[shared.dims.index(d)]) for d in op["bounded"])
        offset = shared.offset(inside)
        if op.get("asynchronous"):
            build.copy_async(
                source.name, source.offset(at), shared.name, offset, width, mask=(*mask, *guard), valid=valid
            )
            continue
        value = build.load(
            source.name, source.dtype, width, source.offset(at), mask=(*mask, *guard), valid=valid, hint=source.name
        )
        waiting.append((value, inside, guard))
    return stored_later(build, waiting, source, shared, op, machine)


def copied_together(op: Op) -> int:
    """Elements that a copy moves at once on the way into shared memory."""
    layout: Layout = op["layout"]
    return layout.fragment_elements if not op["transpose"] else op["transpose"][1] * op["transpose"][2]


def stored_later(
    build: ThreadBuilder,
    waiting: Sequence[tuple[Value, Coordinates, Mask]],
    source: Memory,
    shared: Memory,
    op: Op,
    machine: Machine,
) -> Callable[[], None]:
    """What stores the values that a copy has loaded, each with its place in the tile and a mask."""
    local = list(op["layout"].coordinates())
    span, node, bias = build.span, f"{op.node}.store", op.get("bias", 0)

    def store() -> None:
        build.span, build.node = span, node
        lines = [converted(build, value, shared.dtype, machine, source.name, bias) for value, _, _ in waiting]
        if op["transpose"]:
            sizes: tuple[int, int, int] = op["transpose"]
            rows, columns, unit = sizes
            for at in range(0, len(lines), rows):
                block = build.transpose(build.pack(lines[at : at + rows], source.name), *sizes, source.name)
                # Register r of line `number` is row r of the block, unit by unit.
                places = [shared.offset(local[(at * columns + number) * unit]) for number in range(columns)]
                together = 1 if machine.concurrent_waves else stored_together(places, rows * unit)
                for number in range(0, columns, together):
                    part = build.slice(block, number * rows * unit, together * rows * unit)
                    build.store(part, shared.name, places[number], mask=waiting[at][2])
            return
        for line, (_, inside, guard) in [*zip(lines, waiting, strict=True)][:: 1 if machine.out_of_order else -1]:
            build.store(line, shared.name, shared.offset(inside), mask=guard)

    return store


def _takes_tile_load(memory: Memory, layout: Layout, granule: int, machine: Machine) -> bool:
    """Whether fragments are blocks of whole rows of tile registers; the first axis of a fragment counts the rows."""
    if machine.shared.matrix_load != "tile" or memory.space != "shared" or layout.inner < 2:
        return False
    rows = layout.axes[len(layout.axes) - layout.inner].extent
    columns = layout.fragment_elements // rows
    return rows % _TILE_ROWS == 0 and columns * memory.dtype.bytes % _TILE_ROW_BYTES == 0 and granule % columns == 0


def _load_tiles(
    build: ThreadBuilder, memory: Memory, layout: Layout, origin: Coordinates, hint: str
) -> Iterator[Value]:
    rows = layout.axes[len(layout.axes) - layout.inner].extent
    columns = layout.fragment_elements // rows
    offsets = [memory.offset({d: origin[d] + c[d] for d in memory.dims}) for c in layout.coordinates(columns)]
    for first in range(0, len(offsets), rows):
        steps = [b - a for a, b in pairwise(offsets[first : first + rows])]
        assert all(step == steps[0] for step in steps), f"rows of a tile of {memory.name} are not evenly spaced"
        yield build.load_tile(memory.name, memory.dtype, rows, columns, steps[0].value, offsets[first], hint=hint)

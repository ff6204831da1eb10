"""A tile of the result leaves through shared memory: lanes lay down slabs of rows, the machine stores them by boxes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Memory, Op, Region, Value, attribute_pairs
from wavespec.ir.layout import Layout, swizzled_slabs
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.accesses import write_fragments
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.matrix_places import matrix_places, moves_matrices, turned_matrices
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import MatrixInstruction

_ROW_BYTES = (128, 64, 32)  # of a slab, that a swizzle knows
_TURNED_ROWS = 64  # of a slab of a product that is turned round, about
_PERIOD_ROWS = 8  # after which a swizzle begins anew
_BUFFERS = 2  # one is filled while the machine still reads the other
_MATRIX_STORE_BYTES = 2  # of one element, the only size that a matrix store knows


def staging_of(
    output: Memory, row: MatrixInstruction, dims: tuple[str, str], waves: int, machine: Machine, room: int
) -> tuple[Memory, ...]:
    """Where each wave lays down its slabs, one memory for each width, or nothing where results are stored directly.

    That is where the machine does not store boxes, rows do not start where it needs them, or the tile is none of the
    product.  ``dims``: rows and columns of the tile, of the dims that the output has; it may have more that tiles have
    one place of.  Where a lane's neighbours are neighbours along a column, as in a product that is turned round, a row
    of a slab is as long as that of the instruction.  ``room``: the bytes that are left; one buffer has to do where two
    do not fit.
    """
    granule, bytes_ = machine.globals.bulk_row_bytes, output.dtype.bytes
    if output.dtype.is_packed or not granule or len(output.dims) > machine.globals.bulk_box_dims:
        return ()
    if output.row_divisor * bytes_ % granule or not dims[1] == output.dims[-1] == output.contiguous_dim:
        return ()
    if dims[0] not in output.dims:
        return ()
    if row.acc.layout.run_length("n") == 1:
        is_turned = row.acc.layout.run_length("m") > 1 and row.n * bytes_ in _ROW_BYTES
        if row.m < _TURNED_ROWS or not is_turned:  # few rows are not worth the way
            return ()
        parts = (rows for rows in range(_PERIOD_ROWS, row.m + 1, _PERIOD_ROWS) if row.m % rows == 0)
        rows = min(parts, key=lambda rows: abs(rows - _TURNED_ROWS))
        for buffers in range(min(_BUFFERS, row.m // rows), 0, -1):
            turned = _staging(output, dims, waves * rows, row.n, buffers)
            if shared_bytes(turned) <= room:
                return (turned,)
        return ()
    widths = slab_widths(row.n, bytes_)
    for most in range(_BUFFERS, 0, -1):
        found = tuple(
            _staging(output, dims, waves * row.m, width, min(most, widths.count(width)))
            for width in sorted(set(widths), reverse=True)
        )
        if sum(shared_bytes(memory) for memory in found) <= room:
            return found
    return ()


def shared_bytes(memory: Memory) -> int:
    """Of all buffers of a shared memory; none of one that lies in another."""
    return 0 if memory.shares else memory.bytes_of(memory.elements.value) * memory.buffers


def shared_bytes_of_all(memories: Iterable[Memory]) -> int:
    """Of the shared memories of a kernel; what lies over tiles of a loop takes bytes of its own where it is larger."""
    shared = [memory for memory in memories if memory.space == "shared"]
    below = {name for memory in shared for name in memory.over}
    over = sum(shared_bytes(memory) for memory in shared if memory.over)
    tiles = sum(shared_bytes(memory) for memory in shared if memory.name in below)
    return sum(map(shared_bytes, shared)) - min(over, tiles)


def begins_anywhere(staged: Memory) -> bool:
    """Whether a box may begin with any row of a slab: the machine takes it from multiples of the widest swizzle."""
    return staged.shape[1].value * staged.dtype.bytes == _ROW_BYTES[0]


def slab_widths(columns: int, element_bytes: int) -> list[int]:
    """Elements of each slab along ``columns``, widest first; nothing where they do not add up."""
    widths: list[int] = []
    for row_bytes in _ROW_BYTES:
        width = row_bytes // element_bytes
        count, columns = divmod(columns, width)
        widths += [width] * count
    return widths if not columns else []


def _staging(output: Memory, dims: tuple[str, str], rows: int, columns: int, buffers: int) -> Memory:
    return Memory(
        f"{output.name}.staged_{columns}",
        output.dtype,
        dims,
        (const(rows), const(columns)),
        "shared",
        arrangement=swizzled_slabs(dims, (rows, columns), 8 * output.dtype.bytes),
        buffers=buffers,
        span=output.span,
    )


@dataclass(frozen=True, slots=True)
class _Slab:
    """``elements`` of one fragment, from register ``start`` on, and where they are laid down."""

    fragment: int
    start: int
    elements: int
    memory: Memory
    buffer: int


def _slabs(layout: Layout, stride: int, staged: Mapping[int, Memory]) -> list[_Slab]:
    """The slabs of a tile in the order of registers, ``staged`` by their extent along the first axis of a fragment."""
    first = layout.axes[len(layout.repeats)]
    each = layout.fragment_elements // first.extent  # registers of one step of that axis
    used = dict.fromkeys(staged, 0)
    slabs: list[_Slab] = []
    (one, *others), along = staged, first.extent * stride
    bytes_ = staged[one].dtype.bytes
    widths = slab_widths(along, bytes_) if others or along % one else [one] * (along // one)
    for fragment in range(layout.elements // layout.fragment_elements):
        start = 0
        for width in widths:
            elements = width // stride * each
            slabs.append(_Slab(fragment, start, elements, staged[width], used[width] % staged[width].buffers))
            used[width] += 1
            start += elements
    return slabs


def _groups_since(slabs: Sequence[_Slab], number: int) -> int:
    """Stores that were issued after the one that last used the buffer of slab ``number``, in this tile or the one
    before."""
    here = slabs[number].memory, slabs[number].buffer
    before = (slabs[number - distance] for distance in range(1, len(slabs) + 1))
    return next(since for since, slab in enumerate(before) if (slab.memory, slab.buffer) == here)


Store = Callable[[Mapping[str, Expr], Mapping[str, int], Mapping[str, Any]], tuple[Op, ...]]
"""Where a slab starts, its rows and columns, and what is known of its stores go in, the stores come out."""


def box_store(
    known: Mapping[str, Any], corner: tuple[Expr, ...], box: tuple[int, ...], view: tuple[Expr, ...] = ()
) -> Op:
    """The store of a box of the tensor, or of one with the sizes ``view``."""
    attributes: dict[str, Any] = {**known, "corner": corner, "box": box, **({"view": view} if view else {})}
    span = attributes.pop("span")
    return Op("bulk_store", attributes=attribute_pairs(attributes), span=span)


def write_staged(
    context: ThreadContext,
    output: Memory,
    staged: Sequence[Memory],
    layout: Layout,
    store: Store,
    values: Sequence[Value],
) -> None:
    """Slab after slab: wait for the store that used its buffer, lay it down, have it stored.

    The lanes of a wave need each other only; waves do not wait for waves.

    Args:
        output: the tensor, with the names that its dims have in the tile.
        store: what is stored of the slab that begins at a place of the tile.
    """
    build, kernel, machine = context.build, context.kernel, context.machine
    row, column = staged[0].dims
    wave = kernel.wave_number
    height = staged[0].shape[0].value // kernel.wave_count
    first, rest = layout.axes[len(layout.repeats)], layout.axes[len(layout.repeats) + 1 :]
    uniform = {dim: without_lane(layout.base_of(dim)) for dim in staged[0].dims}
    lane = {dim: layout.base_of(dim) - start for dim, start in uniform.items()}
    base = ((row, lane[row] + wave * height), (column, lane[column]))
    first_lane = ((kernel.symbol("lane"), const(1)),)
    places = list(layout.register_offsets())
    run = column if first.stride(column) else row  # what the first axis of a fragment runs along
    extents = {memory.shape[1].value if run == column else height: memory for memory in staged}
    slabs = _slabs(layout, first.stride(run), extents)
    for number, slab in enumerate(slabs):
        memory, buffer = slab.memory, const(slab.buffer)
        columns = memory.shape[1].value
        axes = (replace(first, extent=slab.elements // math.prod(axis.extent for axis in rest)), *rest)
        place = places[slab.fragment * layout.fragment_elements + slab.start]
        part = build.cast(build.slice(values[slab.fragment], slab.start, slab.elements), memory.dtype)
        if not memory.shares:
            since = _groups_since(slabs, number)
            wait = Op("bulk_wait", attributes=attribute_pairs({"pending": since}), span=build.span)
            build.add("if", (), (), Region((), (wait,), ()), mask=first_lane)
        if not memory.shares or not number:  # a tile that was read lies there, and nothing else
            build.add("barrier", (), (), first=wave, waves=1)
        _lay_down(build, memory, Layout(base, axes, len(axes)), part, buffer, machine)
        build.add("fence_async", (), ())
        build.add("barrier", (), (), first=wave, waves=1)
        attributes = {
            "memory": memory.name,
            "offset": memory.unswizzled_offset({row: wave * height, column: const(0)}),
            "buffer": buffer,
            "target": output.name,
            "span": build.span,
        }
        stored = store(
            {d: first + place[d] for d, first in uniform.items()}, {row: height, column: columns}, attributes
        )
        commit = Op("bulk_commit", span=build.span)
        build.add("if", (), (), Region((), (*stored, commit), ()), mask=first_lane)


def _lay_down(build: ThreadBuilder, staged: Memory, slab: Layout, part: Value, buffer: Expr, machine: Machine) -> None:
    nowhere = {dim: const(0) for dim in staged.dims}
    is_stored = staged.dtype.bytes == _MATRIX_STORE_BYTES
    turned = turned_matrices(staged, slab, nowhere, machine) if is_stored else []
    if not turned and not (is_stored and moves_matrices(staged, slab, machine)):
        write_fragments(build, staged, slab, nowhere, (), (part,), machine, buffer=buffer)
        return
    start, name, transposed = 0, staged.name, bool(turned)
    for count, offset in turned or matrix_places(staged, slab, nowhere):
        size = count * 4 // staged.dtype.bytes
        piece = build.slice(part, start, size)
        build.add(
            "store_matrix", (piece,), (), memory=name, offset=offset, buffer=buffer, count=count, transposed=transposed
        )
        start += size


def without_lane(expr: Expr) -> Expr:
    """The part of a place that all lanes of a wave share."""
    return expr.substitute({"lane": const(0)})

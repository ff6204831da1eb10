"""A tile of the result leaves through shared memory: lanes lay down slabs of rows, the machine stores them by boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op, Region, Value, attribute_pairs
from wavespec.ir.layout import Layout, swizzled_slabs
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.accesses import matrix_places, moves_matrices, write_fragments
from wavespec.targets.machine import Machine, MatrixInstruction

_ROW_BYTES = (128, 64, 32)  # of a slab, that a swizzle knows
_BUFFERS = 2  # one is filled while the machine still reads the other
_MATRIX_STORE_BYTES = 2  # of one element, the only size that a matrix store knows


def staging_of(
    output: Memory, row: MatrixInstruction, dims: tuple[str, str], waves: int, machine: Machine, room: int
) -> tuple[Memory, ...]:
    """Where each wave lays down its slabs, one memory for each width, or nothing where results are stored directly.

    That is where the machine does not store boxes, rows do not start where it needs them, or a lane's neighbours are
    not neighbours along a row.  ``dims``: rows and columns of the tile, of the dims that the output has.  ``room``: the
    bytes that are left; one buffer has to do where two do not fit.
    """
    granule, bytes_ = machine.globals.bulk_row_bytes, output.dtype.bytes
    if output.dtype.is_packed or not granule:
        return ()
    if output.shape[-1].divisor * bytes_ % granule or output.dims[-1] != dims[1]:
        return ()
    if row.acc.layout.run_length("n") == 1:
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
    """Of all buffers of a shared memory."""
    return memory.elements.value * memory.dtype.bytes * memory.buffers


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
        arrangement=swizzled_slabs(dims, (rows, columns), output.dtype.bytes),
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


def _slabs(layout: Layout, column: str, staged: Sequence[Memory]) -> list[_Slab]:
    """The slabs of a tile in the order of registers."""
    first = layout.axes[len(layout.repeats)]
    each = layout.fragment_elements // first.extent  # registers of one step of the axis that runs along the row
    by_width = {memory.shape[1].value: memory for memory in staged}
    used = dict.fromkeys(by_width, 0)
    slabs: list[_Slab] = []
    for fragment in range(layout.elements // layout.fragment_elements):
        start = 0
        for width in slab_widths(first.extent * first.stride(column), staged[0].dtype.bytes):
            elements = width // first.stride(column) * each
            slabs.append(_Slab(fragment, start, elements, by_width[width], used[width] % by_width[width].buffers))
            used[width] += 1
            start += elements
    return slabs


def _groups_since(slabs: Sequence[_Slab], number: int) -> int:
    """Stores that were issued after the one that last used the buffer of slab ``number``, in this tile or the one
    before."""
    here = slabs[number].memory, slabs[number].buffer
    before = (slabs[number - distance] for distance in range(1, len(slabs) + 1))
    return next(since for since, slab in enumerate(before) if (slab.memory, slab.buffer) == here)


def write_staged(
    build: ThreadBuilder,
    kernel: Kernel,
    output: Memory,
    staged: Sequence[Memory],
    layout: Layout,
    origin: Mapping[str, Expr],
    values: Sequence[Value],
    machine: Machine,
) -> None:
    """Slab after slab: wait for the store that used its buffer, lay it down, have it stored.

    The lanes of a wave need each other only; waves do not wait for waves.
    """
    row, column = staged[0].dims
    wave = kernel.wave_number
    height = staged[0].shape[0].value // kernel.wave_count
    first, rest = layout.axes[len(layout.repeats)], layout.axes[len(layout.repeats) + 1 :]
    shared = {dim: _without_lane(layout.base_of(dim)) for dim in (row, column)}
    lane = {dim: layout.base_of(dim) - shared[dim] for dim in (row, column)}
    base = ((row, lane[row] + wave * height), (column, lane[column]))
    first_lane = ((kernel.symbol("lane"), const(1)),)
    places = list(layout.register_offsets())
    slabs = _slabs(layout, column, staged)
    for number, slab in enumerate(slabs):
        memory, buffer = slab.memory, const(slab.buffer)
        columns = memory.shape[1].value
        box = {row: height, column: columns}
        axes = (replace(first, extent=columns // first.stride(column)), *rest)
        place = places[slab.fragment * layout.fragment_elements + slab.start]
        part = build.cast(build.slice(values[slab.fragment], slab.start, slab.elements), memory.dtype)
        wait = Op("bulk_wait", attributes=attribute_pairs({"pending": _groups_since(slabs, number)}), span=build.span)
        build.add("if", (), (), Region((), (wait,), ()), mask=first_lane)
        build.add("barrier", (), (), first=wave, waves=1)
        _lay_down(build, memory, Layout(base, axes, len(axes)), part, buffer, machine)
        build.add("fence_async", (), ())
        build.add("barrier", (), (), first=wave, waves=1)
        attributes = {
            "memory": memory.name,
            "offset": memory.unswizzled_offset({row: wave * height, column: const(0)}),
            "buffer": buffer,
            "target": output.name,
            "corner": tuple(origin[d] + shared.get(d, 0) + place.get(d, 0) for d in output.dims),
            "box": tuple(box.get(d, 1) for d in output.dims),
        }
        store = Op("bulk_store", attributes=attribute_pairs(attributes), span=build.span)
        commit = Op("bulk_commit", span=build.span)
        build.add("if", (), (), Region((), (store, commit), ()), mask=first_lane)


def _lay_down(build: ThreadBuilder, staged: Memory, slab: Layout, part: Value, buffer: Expr, machine: Machine) -> None:
    nowhere = {dim: const(0) for dim in staged.dims}
    if staged.dtype.bytes != _MATRIX_STORE_BYTES or not moves_matrices(staged, slab, machine):
        write_fragments(build, staged, slab, nowhere, (), (part,), machine, buffer=buffer)
        return
    start = 0
    for count, offset in matrix_places(staged, slab, nowhere):
        size = count * 4 // staged.dtype.bytes
        piece = build.slice(part, start, size)
        build.add("store_matrix", (piece,), (), memory=staged.name, offset=offset, buffer=buffer, count=count)
        start += size


def _without_lane(expr: Expr) -> Expr:
    """The part of a place that all lanes of a wave share."""
    return expr.substitute({"lane": const(0)})

"""`write`: a tile into an output tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wavespec.ir.expr import Expr, const, maximum, minimum, symbol
from wavespec.ir.kernel import Memory, Op, Region, attribute_pairs
from wavespec.ir.tile_ops import WAVE_SUM
from wavespec.ops.accesses import write_fragments
from wavespec.ops.accesses_around import write_around
from wavespec.ops.combined_writes import write_combined
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.index_map import mapped, places
from wavespec.ops.mapped_accesses import write_mapped
from wavespec.ops.moved_writes import write_moved
from wavespec.ops.parts_of_waves import first_of_equal
from wavespec.ops.staged_writes import Store, box_store, write_staged
from wavespec.ops.tensor_views import Lines, as_lines, as_matrices
from wavespec.schema.ops import Write

if TYPE_CHECKING:
    import torch


def to_tile(statement: Write, context: TileContext) -> None:
    value = context.names[statement.value]
    shape, _ = context.tensors[statement.to]
    values, places = mapped(statement, context, shape, value.tile.dims)
    how: dict[str, Any] = {"combine": statement.combine} if statement.combine else {}
    if statement.cache or statement.to in context.streamed:
        how["cache"] = "streaming"
    context.add("write", (value, *values), (), statement.span, memory=statement.to, **places, **how)


def to_thread(op: Op, context: ThreadContext) -> None:
    memory, layout = context.kernel.memory(op["memory"]), op.operands[0].tile.layout
    assert layout is not None
    if op.get("combine"):
        write_combined(op, context)
        return
    staged = [context.kernel.memory(name) for name in op.get("staged", ())]
    view = _view(op, context) if staged else None
    if op.get("at") and view is None:
        if staged:
            write_moved(op, staged, layout, context)
        else:
            write_mapped(op, context)
        return
    values, origin = context.fragments[op.operands[0].name], context.origin(op)
    if view is not None:
        seen, store = view
        write_staged(context, seen, staged, layout, store, values)
        return
    masked, writers = op.get("masked", ()), ()
    if op.get("around"):
        write_around(context.build, memory, layout, context.origin(op), masked, values, context.machine)
        return
    has_copies = memory.space == "shared" or any(one.is_(WAVE_SUM) for one in context.kernel.walk())
    if op.get("awaited"):
        context.build.add("barrier", (), ())
    if (has_copies or op.get("awaited")) and context.machine.concurrent_waves:
        writers = first_of_equal(context.kernel, layout)
    write_fragments(context.build, memory, layout, origin, masked, values, context.machine, writers=writers)
    if any(read.get("by_unit") and read["memory"] == memory.name for read in context.kernel.walk()):
        context.build.add("fence_async", (), ())


def _view(op: Op, context: ThreadContext) -> tuple[Memory, Store] | None:
    """How slabs of a tile see the tensor, and how one is stored; None where a mapping only moves the tile."""
    memory, tile, origin = context.kernel.memory(op["memory"]), op.operands[0].tile.dims, context.origin(op)

    def at(inside: Mapping[str, Expr]) -> dict[str, Expr]:
        return {dim: place + inside.get(dim, 0) for dim, place in origin.items()}

    matrices = as_matrices(op, context.kernel, tile) if op.get("at") else None
    if matrices or not op.get("at"):
        seen = matrices.memory if matrices else memory
        view = seen.shape if seen.shape != memory.shape else ()

        def store(inside: Mapping[str, Expr], extents: Mapping[str, int], known: Mapping[str, Any]) -> tuple[Op, ...]:
            start = at(inside)
            corner = matrices.corner(start) if matrices else tuple(start[dim] for dim in seen.dims)
            return (box_store(known, corner, tuple(extents.get(dim, 1) for dim in seen.dims), view),)

        return seen, store
    lines = as_lines(op, context.kernel, tile)
    if lines is None:
        return None
    return lines.tile, lambda inside, extents, known: _store_lines(lines, context, at(inside), extents, known)


def _store_lines(
    lines: Lines,
    context: ThreadContext,
    start: Mapping[str, Expr],
    extents: Mapping[str, int],
    known: Mapping[str, Any],
) -> tuple[Op, ...]:
    """The rows of a slab, line by line: in the first one those beyond its end are left out by the machine, which stores
    from no place before the start of a line; of the others as many rows as they have, a power of two at a time."""
    (row, column), view = lines.tile.dims, lines.memory.shape
    height, width = extents[row], extents[column]
    first, inside = start[row] // lines.length, start[row] % lines.length
    line = symbol(context.build.fresh("line"), 0, height - 1)
    context.symbols.append(line)
    top = (line + 1) * lines.length - inside
    count = maximum(0, minimum(view[1], const(height) - top))
    parts: list[Op] = []
    for power in reversed(range((height - 1).bit_length())):
        rows = 1 << power
        done = count // (2 * rows) * (2 * rows)
        corner = (first + line + 1, done, start[column])
        offset = known["offset"] + (top + done) * width
        part = box_store({**known, "offset": offset}, corner, (1, rows, width), view)
        mask = ((const(rows - 1), count % (2 * rows)),)
        parts.append(
            Op("if", region=Region((), (part,), ()), attributes=attribute_pairs({"mask": mask}), span=part.span)
        )
    loop = context.build.nested()
    loop.loop(line.args[0], 0, (inside + height - 1) // lines.length, 1, (), (), tuple(parts), ())
    return (box_store(known, (first, inside, start[column]), (1, height, width), view), *loop.ops)


def reference(statement: Write, context: ReferenceContext) -> None:
    import torch

    tensor, dims = context.computation.tensors[statement.to], context.dims[statement.value]
    value = context.names[statement.value].to(context.dtype(tensor.dtype))
    is_taken = [context.mask(condition, dims) for condition in context.conditions]
    if not statement.at and not statement.combine:
        for holds in is_taken:
            value = torch.where(holds, value, context.output(statement.to))
        context.outputs[statement.to] = value
        return
    if statement.to in context.outputs:  # by a step before this one
        result = context.outputs[statement.to].clone()
    elif tensor.role == "inout":
        result = context.tensors[statement.to].to(value.dtype).clone()
    else:
        result = value.new_zeros([context.sizes[dim] for dim in tensor.shape])
    if not statement.at:
        combined = _COMBINED[str(statement.combine)](result, value)
        for holds in is_taken:
            combined = torch.where(holds, combined, result)
        context.outputs[statement.to] = combined
        return
    number, inside = places(statement, context, tensor.shape, dims)
    for holds in is_taken:
        inside = inside & holds
    # What lies outside goes to a spare element, so that no size depends on values and a trace is possible.
    flat = torch.cat([result.reshape(-1), result.new_zeros(1)])
    where, written = torch.where(inside, number, result.numel()).reshape(-1), value.reshape(-1)
    match statement.combine:
        case None:
            flat[where] = written
        case "add":
            flat.index_add_(0, where, written)
        case "max" | "min":
            flat.scatter_reduce_(0, where, written, f"a{statement.combine}")
        case "and" | "or" | "xor":
            flat = _with_bits(statement.combine, flat, where, written)
    context.outputs[statement.to] = flat[:-1].reshape(result.shape)


_COMBINED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": lambda left, right: left + right,
    "max": lambda left, right: left.maximum(right),
    "min": lambda left, right: left.minimum(right),
    "and": lambda left, right: left & right,
    "or": lambda left, right: left | right,
    "xor": lambda left, right: left ^ right,
}


def _with_bits(combine: str, flat: torch.Tensor, where: torch.Tensor, written: torch.Tensor) -> torch.Tensor:
    """What is there, combined bit by bit with all that is written there: torch has no such scatter."""
    import torch

    joined = torch.zeros_like(flat)
    for bit in range(flat.element_size() * 8):
        held, new = flat >> bit & 1, written >> bit & 1
        match combine:
            case "and":
                held = held.scatter_reduce(0, where, new, "amin")
            case "or":
                held = held.scatter_reduce(0, where, new, "amax")
            case _:
                held = held.index_add(0, where, new) & 1
        joined |= held << bit
    return joined

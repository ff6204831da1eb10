"""`read`: a tensor, or its tile of the current step."""

from __future__ import annotations

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Op, Value
from wavespec.ir.layout import Layout
from wavespec.ir.nodes import replace
from wavespec.ir.tile_ops import DOT, MMA
from wavespec.ops.accesses import read_fragments
from wavespec.ops.accesses_around import read_around
from wavespec.ops.blocks_of_lanes import read_block
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.index_map import index_of, mapped, places, taken
from wavespec.ops.mapped_accesses import read_mapped
from wavespec.ops.runs_of_lanes import as_fragments, in_run_order
from wavespec.ops.small_floats import converted
from wavespec.ops.turned_blocks import regroup
from wavespec.schema.ops import Read

_WHOLE_BITS = 16
"""Of elements that lanes read in the pairs that instructions take; of shorter ones they read whole runs."""


def to_tile(statement: Read, context: TileContext) -> None:
    shape, dtype = context.tensors[statement.tensor]
    value = context.tile(statement.name, shape if statement.dims is None else statement.dims, dtype)
    values, how = mapped(statement, context, shape, value.tile.dims)
    how |= {"cache": statement.cache} if statement.cache else {}
    context.add("read", values, (value,), statement.span, node=statement.name, memory=statement.tensor, **how)
    context.names[statement.name] = value


def to_thread(op: Op, context: ThreadContext) -> None:
    layout, name = op.result.tile.layout, op.result.name
    if op.get("by_unit"):
        context.by_unit[name] = op
        return
    assert layout is not None
    if turned := _turned(op, layout, context):
        depth, size = layout.axes[-1].extent, layout.fragment_elements
        tile = replace(op.result.tile, layout=turned)
        lines = _loaded(replace(op, results=(replace(op.result, type=tile),)), context)
        context.fragments[name] = tuple(
            context.build.transpose(line, depth, size // depth, hint=name) for line in lines
        )
        return
    held, dim = in_run_order(layout) if _is_taken_in_runs(op, layout, context) else (layout, "")
    tile = replace(op.result.tile, layout=held)
    fragments = _loaded(replace(op, results=(replace(op.result, type=tile),)), context)
    context.fragments[name] = as_fragments(context.build, fragments, held, layout, dim, name) if dim else fragments


def _turned(op: Op, layout: Layout, context: ThreadContext) -> Layout | None:
    """Of what a `dot` takes in groups of elements side by side, which are apart in memory, the layout with each of the
    group for all lanes."""
    inner = layout.axes[len(layout.repeats) :]
    memory, dims = context.kernel.memory(op["memory"]), [*layout.dims]
    if len(inner) < 2 or op.get("at") or memory.contiguous_dim not in dims or inner[-1].stride(memory.contiguous_dim):
        return None
    if not any(one.is_(DOT) and op.result in one.operands for one in context.kernel.walk()):
        return None
    return replace(layout, axes=(*layout.repeats, inner[-1], *inner[:-1]))


def _is_taken_in_runs(op: Op, layout: Layout, context: ThreadContext) -> bool:
    """Whether a product wants longer runs than its instruction has, of what is read of a tensor."""
    memory = context.kernel.memory(op["memory"])
    if memory.space != "global" and memory.dtype.bits >= _WHOLE_BITS:
        return False
    products = (one for one in context.kernel.walk() if one.is_(MMA) and one.get("run"))
    return any(value.tile.layout == layout for one in products for value in one.operands[:2])


def _loaded(op: Op, context: ThreadContext) -> tuple[Value, ...]:
    """The fragments of a tile, loaded as they are."""
    memory, layout, name = context.kernel.memory(op["memory"]), op.result.tile.layout, op.result.name
    assert layout is not None
    if op.get("at"):
        return read_mapped(op, context)
    masked, dtype, clamped = op.get("masked", ()), op.result.tile.dtype, op.get("clamped", ())
    where = memory, layout, _beginning(op, context), masked, name, context.machine
    if op.get("around"):
        loaded = tuple(regroup(context.build, read_around(context.build, *where), layout.fragment_elements, name))
    elif context.kernel.lanes > 1 and not clamped and (block := read_block(context.build, *where)):
        loaded = block
    else:
        loaded = read_fragments(context.build, *where, clamped, is_factor=name in context.factors)
    machine, bias = context.machine, op.get("bias", 0)
    return tuple(converted(context.build, value, dtype, machine, name, bias) for value in loaded)


def _beginning(op: Op, context: ThreadContext) -> dict[str, Expr]:
    """Where a tile is in its memory."""
    origin = context.origin(op)
    along = {index_of(dim).args[0]: place for dim, place in origin.items()}
    return origin | {dim: origin[dim] + by.substitute(along) for dim, by in op.get("further") or ()}


def reference(statement: Read, context: ReferenceContext) -> None:
    tensor = context.computation.tensors[statement.tensor]
    value = context.tensors[statement.tensor].to(context.dtype(tensor.dtype))
    dims = tensor.shape if statement.dims is None else statement.dims
    if statement.at:
        value = taken(value, *places(statement, context, tensor.shape, dims))
    elif dims != tensor.shape:
        value = value.permute([tensor.shape.index(dim) for dim in dims])
    context.define(statement.name, dims, value)

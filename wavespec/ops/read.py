"""`read`: a tensor, or its tile of the current step."""

from __future__ import annotations

from wavespec.ir.kernel import Op
from wavespec.ops.accesses import read_fragments, regroup
from wavespec.ops.accesses_around import read_around
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.index_map import mapped, places, taken
from wavespec.ops.mapped_accesses import read_mapped
from wavespec.schema.ops import Read


def to_tile(statement: Read, context: TileContext) -> None:
    shape, dtype = context.tensors[statement.tensor]
    value = context.tile(statement.name, shape if statement.dims is None else statement.dims, dtype)
    values, how = mapped(statement, context, shape, value.tile.dims)
    how |= {"cache": statement.cache} if statement.cache else {}
    context.add("read", values, (value,), statement.span, node=statement.name, memory=statement.tensor, **how)
    context.names[statement.name] = value


def to_thread(op: Op, context: ThreadContext) -> None:
    memory, layout = context.kernel.memory(op["memory"]), op.result.tile.layout
    if op.get("by_unit"):
        context.by_unit[op.result.name] = op
        return
    assert layout is not None
    if op.get("at"):
        context.fragments[op.result.name] = read_mapped(op, context)
        return
    masked = op.get("masked", ())
    name, dtype = op.result.name, op.result.tile.dtype
    clamped = op.get("clamped", ())
    where = memory, layout, context.origin(op), masked, name, context.machine
    if op.get("around"):
        loaded = tuple(regroup(context.build, read_around(context.build, *where), layout.fragment_elements, name))
    else:
        loaded = read_fragments(context.build, *where, clamped, is_factor=name in context.factors)
    context.fragments[name] = tuple(context.build.cast(value, dtype, name, op.get("bias", 0)) for value in loaded)


def reference(statement: Read, context: ReferenceContext) -> None:
    tensor = context.computation.tensors[statement.tensor]
    value = context.tensors[statement.tensor].to(context.dtype(tensor.dtype))
    dims = tensor.shape if statement.dims is None else statement.dims
    if statement.at:
        value = taken(value, *places(statement, context, tensor.shape, dims))
    elif dims != tensor.shape:
        value = value.permute([tensor.shape.index(dim) for dim in dims])
    context.define(statement.name, dims, value)

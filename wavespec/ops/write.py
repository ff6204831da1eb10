"""`write`: a tile into an output tensor."""

from __future__ import annotations

from wavespec.ir.kernel import Op
from wavespec.ops.accesses import write_fragments
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.index_map import mapped, places
from wavespec.ops.mapped_accesses import write_mapped
from wavespec.ops.staged_writes import write_staged
from wavespec.schema.ops import Write


def to_tile(statement: Write, context: TileContext) -> None:
    value = context.names[statement.value]
    shape, _ = context.tensors[statement.to]
    values, places = mapped(statement, context, shape, value.tile.dims)
    context.add("write", (value, *values), (), statement.span, memory=statement.to, **places)


def to_thread(op: Op, context: ThreadContext) -> None:
    memory, layout = context.kernel.memory(op["memory"]), op.operands[0].tile.layout
    assert layout is not None
    if op.get("at"):
        write_mapped(op, context)
        return
    values = context.fragments[op.operands[0].name]
    staged = [context.kernel.memory(name) for name in op.get("staged", ())]
    if staged:
        write_staged(context.build, context.kernel, memory, staged, layout, context.origin(op), values, context.machine)
        return
    write_fragments(context.build, memory, layout, context.origin(op), op.get("masked", ()), values, context.machine)


def reference(statement: Write, context: ReferenceContext) -> None:
    tensor = context.spec.tensors[statement.to]
    value = context.names[statement.value].to(context.dtype(tensor.dtype))
    if statement.at:
        number, inside = places(statement, context, tensor.shape, context.dims[statement.value])
        result = value.new_zeros([context.sizes[dim] for dim in tensor.shape])
        result.view(-1)[number[inside]] = value[inside]
        value = result
    context.outputs[statement.to] = value

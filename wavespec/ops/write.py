"""`write`: a tile into an output tensor."""

from __future__ import annotations

from wavespec.ir.kernel import Op
from wavespec.ops.accesses import write_fragments
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.staged_writes import write_staged
from wavespec.schema.ops import Write


def to_tile(statement: Write, context: TileContext) -> None:
    context.add("write", (context.names[statement.value],), (), statement.span, memory=statement.to)


def to_thread(op: Op, context: ThreadContext) -> None:
    memory, layout = context.kernel.memory(op["memory"]), op.operands[0].tile.layout
    assert layout is not None
    values = context.fragments[op.operands[0].name]
    staged = [context.kernel.memory(name) for name in op.get("staged", ())]
    if staged:
        write_staged(context.build, context.kernel, memory, staged, layout, context.origin(op), values, context.machine)
        return
    write_fragments(context.build, memory, layout, context.origin(op), op.get("masked", ()), values, context.machine)


def reference(statement: Write, context: ReferenceContext) -> None:
    tensor = context.spec.tensors[statement.to]
    context.outputs[statement.to] = context.names[statement.value].to(context.dtype(tensor.dtype))

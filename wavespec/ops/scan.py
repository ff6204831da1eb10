"""The scans of the language that join by one function: sums, products and extremes."""

from __future__ import annotations

from wavespec.ir.dtype import computed
from wavespec.ir.kernel import Op
from wavespec.ops.broadcast import broadcast_fragments
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.joining import Joining
from wavespec.ops.reduce import identity
from wavespec.ops.scanner import Scanner
from wavespec.schema.ops.scan import Scan


def to_tile(statement: Scan, context: TileContext) -> None:
    value = context.names[statement.value]
    result = context.tile(statement.name, value.tile.dims, value.tile.dtype)
    operands = (value,) if statement.init is None else (value, context.names[statement.init])
    context.names[statement.name] = result
    name, dim, function = statement.name, statement.dim, statement.scan.function
    if not statement.reverse:
        context.add("scan", operands, (result,), statement.span, node=name, dim=dim, function=function)
        return
    compute = computed(value.tile.dtype)
    joining = Joining.of(function, compute, identity(function, compute))
    how, span = str(joining), statement.span
    context.add("joined", operands, (result,), span, node=name, dim=dim, combine=how, running=True, reverse=True)


def to_thread(op: Op, context: ThreadContext) -> None:
    """Small floats are joined in f32. What lies beyond the edge comes last, and changes nothing before it."""
    build, (value, *init) = context.build, op.operands
    layout, result, function = value.tile.layout, op.result, op["function"]
    assert layout is not None
    dtype, compute = result.tile.dtype, computed(result.tile.dtype)
    fragments = [build.cast(part, compute, result.name) for part in context.fragments[value.name]]
    joining = Joining.of(function, compute, identity(function, compute))
    (scanned,) = Scanner(op, context, layout, joining).run([fragments])
    for start in init:
        first = [build.cast(part, compute, result.name) for part in context.fragments[start.name]]
        wide = broadcast_fragments(build, start, first, layout)
        scanned = [build.elementwise(function, *both, hint=result.name) for both in zip(wide, scanned, strict=True)]
    context.fragments[result.name] = tuple(build.cast(part, dtype, result.name) for part in scanned)


def reference(statement: Scan, context: ReferenceContext) -> None:
    import torch

    value, dims = context.names[statement.value], context.dims[statement.value]
    axis, function = dims.index(statement.dim), statement.scan.function
    value = value.flip(axis) if statement.reverse else value
    if function in ("add", "mul"):
        result = {"add": torch.cumsum, "mul": torch.cumprod}[function](value, axis).to(value.dtype)
    else:
        result = {"maximum": torch.cummax, "minimum": torch.cummin}[function](value, axis).values
    if statement.init is not None:
        own = context.dims[statement.init]
        start = context.names[statement.init].permute([own.index(dim) for dim in dims if dim != statement.dim])
        joins = {"add": torch.add, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum}
        result = joins[function](start.unsqueeze(axis), result)
    context.define(statement.name, dims, result.flip(axis) if statement.reverse else result)

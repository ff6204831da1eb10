"""`mma`: ``acc[m, n] + Σ_k lhs[m, k] · rhs[n, k]``."""

from __future__ import annotations

from wavespec.ir.kernel import Op
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.schema.ops import Mma


def to_tile(statement: Mma, context: TileContext) -> None:
    lhs, rhs, acc = (context.names[name] for name in (statement.lhs, statement.rhs, statement.acc))
    value = context.tile(statement.name, acc.tile.dims, acc.tile.dtype)
    context.add("mma", (lhs, rhs, acc), (value,), statement.span)
    context.names[statement.name] = value


def to_thread(op: Op, context: ThreadContext) -> None:
    """One matrix instruction per repeat of the accumulator and step of k.

    k is outermost, so that results chain far apart; columns run back and forth, so that neighbours share.
    """
    a, b, acc = (context.fragments[value.name] for value in op.operands)
    layout = op.result.tile.layout
    assert layout is not None
    rows, columns = (axis.extent for axis in layout.repeats)
    steps = len(a) // rows
    result = list(acc)
    for step in range(steps):
        for row in range(rows):
            for column in range(columns) if row % 2 == 0 else reversed(range(columns)):
                at = row * columns + column
                left, right = a[row * steps + step], b[column * steps + step]
                result[at] = context.build.mma(op["instruction"], left, right, result[at], op.result.name)
    context.fragments[op.result.name] = tuple(result)


def reference(statement: Mma, context: ReferenceContext) -> None:
    import torch

    operands = [context.names[name] for name in (statement.lhs, statement.rhs)]
    dims = [context.dims[name] for name in (statement.lhs, statement.rhs, statement.acc)]
    acc = context.names[statement.acc]
    letters = {dim: chr(ord("a") + number) for number, dim in enumerate(dict.fromkeys(d for ds in dims for d in ds))}
    formula = "{},{}->{}".format(*("".join(letters[d] for d in ds) for ds in dims))
    product = torch.einsum(formula, *(operand.to(acc.dtype) for operand in operands))
    context.define(statement.name, dims[2], acc + product)

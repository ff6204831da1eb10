"""`mma`: ``acc[m, n] + Σ_k lhs[m, k] · rhs[n, k]``, the operands scaled element by element where it has five."""

from __future__ import annotations

from typing import Any

from wavespec.ir.expr import const
from wavespec.ir.kernel import Op, Value
from wavespec.ir.names import wave_name
from wavespec.ir.thread import SharedTile
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.index_map import index_of, lies_along
from wavespec.schema.ops import Mma


def to_tile(statement: Mma, context: TileContext) -> None:
    lhs, rhs, acc = (context.names[name] for name in (statement.lhs, statement.rhs, statement.acc))
    value = context.tile(statement.name, acc.tile.dims, acc.tile.dtype)
    chosen: dict[str, Any] = {"variant": statement.variant} if statement.variant else {}
    scales = tuple(context.names[name] for name in statement.scales or ())
    context.add("mma", (lhs, rhs, acc, *scales), (value,), statement.span, node=statement.name, **chosen)
    context.names[statement.name] = value


def to_thread(op: Op, context: ThreadContext) -> None:
    """One matrix instruction per repeat of the accumulator and step of k.

    k is outermost, so that results chain far apart; columns run back and forth, so that neighbours share.
    """
    if any(value.name in context.by_unit for value in op.operands):
        _by_unit(op, context)
        return
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


def _by_unit(op: Op, context: ThreadContext) -> None:
    """The same by a matrix unit that reads shared memory itself: one group, waited for at its end.

    The instruction's own a and b are the operands the other way round where it is swapped.
    """
    build, acc = context.build, op.operands[2].tile
    name, _, swapped = op["instruction"].partition(":")
    row = context.machine.instruction(name)
    assert row is not None and acc.layout is not None
    (left, right), dims = op.operands[:2], (op["m"], op["n"])
    if swapped:
        left, right, dims = right, left, (dims[1], dims[0])
    tiles = {dim: acc.extent(dim) // context.kernel.waves_along(dim) for dim in dims}
    repeats = (tiles[dims[0]] // row.m, tiles[dims[1]] // row.n)
    steps = right.tile.extent(op["k"]) // row.k

    def tile(value: Value, dim: str, number: int, extent: int, step: int) -> SharedTile:
        read = context.by_unit[value.name]
        memory = context.kernel.memory(read["memory"])
        place = context.kernel.symbol(wave_name(dim)) * tiles[dim] + number * extent
        start, inside = context.origin(read), {dim: place, op["k"]: const(step * row.k)}
        index = {d: start[d] + own for d, own in inside.items()}
        if read.get("at"):
            known = {index_of(d).args[0]: own for d, own in index.items()}
            index = {d: where.substitute(known) for d, where in read["at"]}
        major = "k" if lies_along(read, memory, op["k"]) else "mn"
        return SharedTile(memory.name, memory.unswizzled_offset(index), major)

    result = list(context.fragments[op.operands[2].name])
    build.add("mma_fence", (), ())
    for step in range(steps):
        for i in range(repeats[0]):
            a: Value | SharedTile
            if left.name in context.by_unit:
                a = tile(left, dims[0], i, row.m, step)
            else:
                a = context.fragments[left.name][i * steps + step]
            for j in range(repeats[1]):
                # Repeats of the accumulator run along m first, whichever way round the instruction is.
                at = j * repeats[0] + i if swapped else i * repeats[1] + j
                b = tile(right, dims[1], j, row.n, step)
                result[at] = build.mma_async(row.name, a, b, result[at], op.result.name)
    build.add("mma_commit", (), ())
    context.fragments[op.result.name] = build.mma_wait(tuple(result))


def reference(statement: Mma, context: ReferenceContext) -> None:
    import torch

    operands = [context.names[name] for name in (statement.lhs, statement.rhs)]
    dims = [context.dims[name] for name in (statement.lhs, statement.rhs, statement.acc)]
    acc = context.names[statement.acc]
    letters = {dim: chr(ord("a") + number) for number, dim in enumerate(dict.fromkeys(d for ds in dims for d in ds))}
    formula = "{},{}->{}".format(*("".join(letters[d] for d in ds) for ds in dims))
    factors = [operand.to(acc.dtype) for operand in operands]
    for number, name in enumerate(statement.scales or ()):
        own = context.dims[name]
        factors[number] = factors[number] * context.names[name].to(acc.dtype).permute(
            [own.index(d) for d in dims[number]]
        )
    product = torch.einsum(formula, *factors)
    context.define(statement.name, dims[2], acc + product)

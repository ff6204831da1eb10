"""Tile kernel in, tile kernel out: products of few rows, or of many small matrices, are multiplied lane by lane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, TileType, Value, attribute_pairs, rewrite
from wavespec.ir.tile_ops import MMA, READ, WRITE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.choose_instructions import NoMatrixInstruction
from wavespec.lower.tile_properties import products_have_three_operands
from wavespec.ops.index_map import contiguous_dim
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import MatrixInstruction


class MultiplyByLanes(Pass):
    """Multiply lane by lane where the spec asks for an instruction of vectors.

    Before: an mma may have operands of any number of dims.
    After:  those whose instruction multiplies vectors are a `dot`, of operands in the types that this takes; those that
            lanes add up, of elements along k that they share out, are products of elements and a `reduce` of these.
            Vectors of results run along the last dims of the second factor of a `dot`.
    Errors: ``no-matrix-instruction`` at the hardware constraint, or at the mma that names its instruction.
    """

    name: ClassVar[str] = "multiply-by-lanes"
    requires = (products_have_three_operands,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh = fresh_names(kernel)

        def change(op: Op) -> tuple[Op, ...]:
            row = _instruction(kernel, op, machine)
            return (op,) if row is None else _by_lanes(_with_vectors_last(kernel, op, row), row, fresh)

        return replace(kernel, body=rewrite(kernel.body, change, MMA))


def _instruction(kernel: Kernel, op: Op, machine: Machine) -> MatrixInstruction | None:
    """The one of vectors that multiplies such operands; None where the spec asks for another."""
    written = op.get("variant") or kernel.distribution.instruction
    rows = [row for row in machine.instructions if row.of_lanes and written in (row.family, row.name)]
    if not rows:
        return None
    left, _, acc = (value.tile.dtype for value in op.operands)
    found = next((row for row in rows if left in row.inputs and acc == row.acc.dtype), None)
    if found is None:
        where = op.span if op.get("variant") else kernel.distribution.instruction_span or op.span
        raise NoMatrixInstruction(where, left.name, acc.name, written, machine)
    return found


def _with_vectors_last(kernel: Kernel, op: Op, row: MatrixInstruction) -> Op:
    """The same product, its second factor the one whose elements lie side by side as vectors of results do: one element
    of the first meets all of a vector."""
    if row.adds_across:
        return op
    first, second, acc = op.operands
    reads = [known for known in kernel.walk() if known.is_(READ)]
    last = {read.result.name: contiguous_dim(read, kernel.memory(read["memory"])) for read in reads}
    if not last.keys() >= {first.name, second.name}:
        return op
    side, other = last[first.name], last[second.name]
    if side not in acc.tile.dims or side in second.tile.dims:
        return op
    written = {kernel.memory(known["memory"]).contiguous_dim for known in kernel.walk() if known.is_(WRITE)}
    is_turned = other not in acc.tile.dims or (side in written and other not in written)
    return replace(op, operands=(second, first, acc)) if is_turned else op


def _by_lanes(op: Op, row: MatrixInstruction, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    *factors, acc = op.operands
    (k,) = (dim for dim in factors[0].tile.dims if dim in factors[1].tile.dims and dim not in acc.tile.dims)
    made: list[Op] = []
    for at, (value, part) in enumerate(zip(factors, (row.a, row.b), strict=True)):
        if value.tile.dtype != part.dtype:
            factors[at] = Value(fresh(value.name), replace(value.tile, dtype=part.dtype))
            made.append(Op("cast", (value,), (factors[at],), span=op.span, node=op.node))
    if row.adds_across:
        return (*made, *_added_across(op, (factors[0], factors[1]), k, fresh))
    attributes = (("dim", k), ("instruction", row.name))
    return (*made, replace(op, name="dot", operands=(*factors, acc), attributes=attributes))


def _added_across(op: Op, factors: tuple[Value, Value], k: str, fresh: Callable[[str], str]) -> tuple[Op, Op]:
    acc = op.operands[2]
    tile = TileType((*acc.tile.dims, k), (*acc.tile.extents, 0), acc.tile.dtype)
    products = Value(fresh(op.result.name), tile)
    multiply = Op("elementwise", factors, (products,), attribute_pairs({"function": "mul"}), None, op.span, op.node)
    attributes = attribute_pairs({"dim": k, "function": "add", "divided": False, "by_lane": True})
    return multiply, Op("reduce", (products, acc), op.results, attributes, None, op.span, op.node)

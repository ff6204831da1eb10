"""Tile kernel in, tile kernel out: products of few rows, or of many small matrices, are multiplied lane by lane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, TileType, Value, attribute_pairs, rewrite
from wavespec.ir.tile_ops import MMA
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.choose_instructions import NoMatrixInstruction
from wavespec.lower.tile_properties import products_have_three_operands
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import MatrixInstruction


class MultiplyByLanes(Pass):
    """Multiply lane by lane where the spec asks for an instruction of vectors.

    Before: an mma may have operands of any number of dims.
    After:  those whose instruction multiplies vectors are a `dot`, of operands in the types that this takes; those that
            lanes add up, of elements along k that they share out, are products of elements and a `reduce` of these.
    Errors: ``no-matrix-instruction`` at the hardware constraint, or at the mma that names its instruction.
    """

    name: ClassVar[str] = "multiply-by-lanes"
    requires = (products_have_three_operands,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh = fresh_names(kernel)

        def change(op: Op) -> tuple[Op, ...]:
            row = _instruction(kernel, op, machine)
            return (op,) if row is None else _by_lanes(op, row, fresh)

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

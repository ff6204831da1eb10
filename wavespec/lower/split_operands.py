"""Tile kernel in, tile kernel out: products of more bits than a matrix unit has become products of parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Value, attribute_pairs, rewrite
from wavespec.ir.tile_ops import MMA
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.tile_properties import products_have_three_operands
from wavespec.targets.machine import Machine


class SplitOperands(Pass):
    """Multiply high and low parts of the operands where the spec asks for an instruction that is made of such products.

    Before: an mma may name, itself or in the hardware constraint, a row of the machine with ``product_of``.
    After:  ``lhs`` is its nearest number of fewer bits and what is left, ``rhs`` the bits that the unit takes of it and
            the others.  Three products, the small ones first, start from zero, and their sum is added to what was
            there: the unit cuts off what it adds up, an addition rounds.
    """

    name: ClassVar[str] = "split-operands"
    requires = (products_have_three_operands,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh = fresh_names(kernel)

        def change(op: Op) -> tuple[Op, ...]:
            row = machine.instruction(op.get("variant") or kernel.distribution.instruction)
            return _split(op, row.product_of, fresh) if row and row.product_of else (op,)

        return replace(kernel, body=rewrite(kernel.body, change, MMA))


def _split(product: Op, variant: str, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    lhs, rhs, acc = product.operands
    ops = list[Op]()

    def add(name: str, operands: tuple[Value, ...], like: Value, **attributes: object) -> Value:
        result = replace(like, name=fresh(like.name))
        ops.append(Op(name, operands, (result,), attribute_pairs(attributes), span=product.span, node=product.node))
        return result

    def part(value: Value, function: str) -> tuple[Value, Value]:
        high = add("elementwise", (value,), value, function=function)
        return high, add("elementwise", (value, high), value, function="sub")

    (high, low), (_, left) = part(lhs, "tf32_nearest"), part(rhs, "tf32_cut")
    rest = add("elementwise", (left,), left, function="tf32_nearest")  # cut off, it would all err towards zero
    total = add("register", (), acc, value=0.0)
    for one, other in ((low, rhs), (high, rest), (high, rhs)):
        total = add("mma", (one, other, total), acc, variant=variant)
    last = Op("elementwise", (acc, total), product.results, attribute_pairs({"function": "add"}))
    return (*ops, replace(last, span=product.span, node=product.node))

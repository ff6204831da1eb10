"""Tile kernel in, tile kernel out: products are added by the instruction that makes them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, REDUCE
from wavespec.lower.base import Pass
from wavespec.lower.tile_properties import tiles_have_layouts
from wavespec.targets.machine import Machine

_HIDES_BITS = 16


class FuseProducts(Pass):
    """Add products that nothing else uses by the instruction that makes them, and round once.

    Before: a product of f32 is rounded, and added to a number, or to others along a dim.
    After:  the sum is an ``fma`` where all who take it round it to 16 bits or fewer, which hide the difference.  A
            ``reduce`` knows of its ``products``: sums of many are nearer to what is meant so.
            Kernels with schedules that name operations stay as they are.
    """

    name: ClassVar[str] = "fuse-products"
    requires = (tiles_have_layouts,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.lanes > 1

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if kernel.distribution.schedules:
            return kernel
        uses, hidden, products = Counter[str](), Counter[str](), dict[str, Op]()
        for op in kernel.walk():
            uses.update(value.name for value in (*op.operands, *(op.region.yields if op.region else ())))
            if _is(op, "mul"):
                products[op.result.name] = op
            elif op.is_(CAST) and op.result.tile.dtype.is_float and op.result.tile.dtype.bits <= _HIDES_BITS:
                hidden[op.operands[0].name] += 1
        fused: set[str] = set()

        def added(op: Op) -> tuple[Op, ...]:
            if op.is_(REDUCE):
                value = op.operands[0].name
                is_sum = op["function"] == "add" and value in products and uses[value] == 1
                return (op.with_(products=True) if is_sum else op,)
            if not _is(op, "add") or not 0 < uses[op.result.name] == hidden[op.result.name]:
                return (op,)
            for value, other in (op.operands, op.operands[::-1]):
                product = products.get(value.name)
                if product is not None and uses[value.name] == 1 and value.type == op.result.type:
                    fused.add(value.name)
                    return (replace(op, operands=(*product.operands, other)).with_(function="fma"),)
            return (op,)

        body = rewrite(kernel.body, added, ELEMENTWISE | REDUCE)
        return replace(kernel, body=rewrite(body, lambda op: () if _makes(op, fused) else (op,), ELEMENTWISE))


def _is(op: Op, function: str) -> bool:
    return op.is_(ELEMENTWISE) and op["function"] == function and op.result.tile.dtype.name == "f32"


def _makes(op: Op, names: set[str]) -> bool:
    return op.result.name in names

"""Tile kernel in, tile kernel out: products with scales become products of scaled operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.dtype import DTYPES, SCALED_PRODUCT
from wavespec.ir.kernel import Kernel, Op, Value, attribute_pairs, rewrite
from wavespec.ir.tile_ops import MMA
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.tile_properties import is_of_tiles, products_have_three_operands
from wavespec.targets.machine import Machine

_COMPUTED = "f32"


class ScaleOperands(Pass):
    """Multiply the operands of a product by their scales, as no instruction of the machines does.

    Before: an mma may have two operands more: a factor, f8e8m0fnu or f32, for each element of ``lhs`` and of ``rhs``.
    After:  every mma has three.  What had powers of two as scales is a product of bf16, which has all bits of an
            element of 8 bits or less and all exponents of a scale, so that nothing is lost but what leaves the range of
            bf16.  The scales are multiplied in f32, or in bf16 by machines that can, which rounds the same.
            Where a scale is f32, so are both operands: a shorter type would lose bits of it.
    """

    name: ClassVar[str] = "scale-operands"
    requires = (is_of_tiles,)
    ensures = (products_have_three_operands,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh = fresh_names(kernel)

        def change(op: Op) -> tuple[Op, ...]:
            if len(op.operands) == 3:
                return (op,)
            lhs, rhs, acc, *scales = op.operands
            made: list[Op] = []
            has_bits = any(scale.tile.dtype.mantissa for scale in scales)
            multiplied = _COMPUTED if has_bits else SCALED_PRODUCT
            computed = multiplied if multiplied in machine.packed_products else _COMPUTED
            types = computed, multiplied
            scaled = [_scaled(op, *pair, types, made, fresh) for pair in zip((lhs, rhs), scales, strict=True)]
            return (*made, replace(op, operands=(*scaled, acc)))

        return replace(kernel, body=rewrite(kernel.body, change, MMA))


def _scaled(
    product: Op, value: Value, scale: Value, types: tuple[str, str], made: list[Op], fresh: Callable[[str], str]
) -> Value:
    """The operand times its scale; ``types``: in which they are multiplied, and that of the result.  Appends what does
    it."""
    computed, multiplied = types

    def add(name: str, operands: tuple[Value, ...], dtype: str, **attributes: str) -> Value:
        result = Value(fresh(value.name), replace(operands[0].tile, dtype=DTYPES[dtype]))
        pairs = attribute_pairs(attributes)
        made.append(Op(name, operands, (result,), pairs, span=product.span, node=product.node))
        return result

    wide, factor = (one if one.tile.dtype.name == computed else add("cast", (one,), computed) for one in (value, scale))
    scaled = add("elementwise", (wide, factor), computed, function="mul")
    return scaled if computed == multiplied else add("cast", (scaled,), multiplied)

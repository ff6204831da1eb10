"""Tile kernel in, tile kernel out: powers of what small numbers are less than another are made by one product."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Kernel, Op, TileType, Value, attribute_pairs, rewrite
from wavespec.ir.nodes import replace
from wavespec.ir.rewriting import without_unused
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, PURE, REGISTER
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.tile_properties import tiles_have_layouts
from wavespec.ops.join_powers import LEAST
from wavespec.targets.machine import Machine

_LOG2_E = 47274 / 2**15
"""The nearest number of 16 bits to log2 e, off by 2^-18 of it."""
_LARGE = 2.0**126
"""From here on the next smaller number counts for nothing, and the product with log2 e may be too large."""


class PowersByProducts(Pass):
    """Make a power of what a number is less than another one by a product that is added to.

    Before: a power of e that may be approximate is that of a difference: it is rounded, and multiplied by log2 e.
    After:  where both are bf16, 2^(x r - m r) is an ``fma`` and a power of two.  ``r`` is log2 e with 16 bits, so that
            m r is exact and the difference is rounded once: what is as large as m has the power 1, whatever m is.
            A power of -d is off by d 2^-17 of it, for d up to 88; sums of powers and results of 16 bits hide that.
            ``r`` is 1 where m is so large that all others have the power 0.  A difference that something else needs,
            too, is made for that alone: numbers wait for it in 16 bits.
    """

    name: ClassVar[str] = "powers-by-products"
    requires = (tiles_have_layouts,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.lanes > 1 and machine.fused_steps

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if kernel.distribution.schedules:
            return kernel
        made = {value.name: op for op in kernel.walk() for value in op.results}
        found = {op.result.name: less for op in kernel.walk() if (less := _difference(op, made)) is not None}
        if not found:
            return kernel
        bases = {less.operands[1].name for less in found.values()}
        fresh = fresh_names(kernel)
        known: dict[str, tuple[Value, Value]] = {}

        def change(op: Op) -> tuple[Op, ...]:
            name = op.results[0].name if len(op.results) == 1 else ""
            if name in bases:  # there, since several loops may have powers of what is less than that
                known[name], ops = _rate_and_offset(op, fresh)
                return (op, *ops)
            less = found.get(name)
            return (op,) if less is None else _by_product(op, less, *known[less.operands[1].name], fresh)

        body = rewrite(kernel.body, change)
        return replace(kernel, body=without_unused(body, lambda op: op.is_(PURE)))


def _difference(op: Op, made: Mapping[str, Op]) -> Op | None:
    """What a power is of, where that is what a number of each element is less than one of all of them."""
    if not op.is_(ELEMENTWISE) or op["function"] != "exp" or not op.get("fast"):
        return None
    less = made.get(op.operands[0].name)
    if less is None or not less.is_(ELEMENTWISE) or less["function"] != "sub":
        return None
    each, base = less.operands
    is_of_all = len(base.tile.dims) < len(each.tile.dims) == len(less.result.tile.dims)
    are_small = _is_small(each, made) and _is_small(base, made)
    return less if is_of_all and are_small and less.result.tile.dtype == DTYPES["f32"] else None


def _is_small(value: Value, made: Mapping[str, Op]) -> bool:
    """Whether a value is of bf16, or where that is less than any of these, the least f32."""
    op = made.get(value.name)
    if op is None:
        return False
    if op.is_(ELEMENTWISE) and op["function"] == "maximum":
        return all(_is_small(one, made) for one in op.operands)
    if op.is_(REGISTER):
        return op["value"] == LEAST
    return op.is_(CAST) and op.operands[0].tile.dtype == DTYPES["bf16"]


def _rate_and_offset(op: Op, fresh: Callable[[str], str]) -> tuple[tuple[Value, Value], list[Op]]:
    """By what numbers are multiplied that the result of ``op`` is taken from, what is added to the product, and the
    operations that make both."""
    base, ops = op.result, list[Op]()

    def new(name: str, operands: tuple[Value, ...], tile: TileType, hint: str, **attributes: object) -> Value:
        result = Value(fresh(hint), tile)
        ops.append(Op(name, operands, (result,), attribute_pairs(attributes), span=op.span, node=op.node))
        return result

    def number(value: float) -> Value:
        return new("register", (), base.tile, "number", value=value)

    flags = replace(base.tile, dtype=DTYPES["bool"])
    size = new("elementwise", (base,), base.tile, "size", function="abs")
    is_less = new("elementwise", (size, number(_LARGE)), flags, "is_less", function="lt")
    rates = (is_less, number(_LOG2_E), number(1.0))
    rate = new("elementwise", rates, base.tile, "rate", function="where")
    product = new("elementwise", (base, rate), base.tile, "product", function="mul")
    return (rate, new("elementwise", (product,), base.tile, "offset", function="neg")), ops


def _by_product(op: Op, less: Op, rate: Value, offset: Value, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    exponent = Value(fresh("exponent"), less.result.tile)
    fma, power = attribute_pairs({"function": "fma"}), attribute_pairs({"function": "exp2"})
    operands = less.operands[0], rate, offset
    return (
        Op("elementwise", operands, (exponent,), fma, span=op.span, node=op.node),
        Op("elementwise", (exponent,), op.results, power, span=op.span, node=op.node),
    )

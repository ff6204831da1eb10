"""Tile kernel in, tile kernel out: where a step of a loop has one scale, its sums are scaled, not its operands."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, ClassVar

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op, Value, attribute_pairs, rewrite
from wavespec.ir.rewriting import without_unused
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, MMA, READ, REGISTER
from wavespec.lower.base import Pass, fresh_names, written_name
from wavespec.lower.expression_to_index import place_symbol
from wavespec.lower.tile_properties import is_of_tiles
from wavespec.ops.index_map import dims_of, index_of
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import MatrixInstruction

_SUMMED, _MULTIPLIED = "f32", "bf16"
_MADE_AGAIN = CAST | ELEMENTWISE | READ | REGISTER


class ScalesChangeInStep(WavespecError, code="scales-change-in-step"):
    """``scale``: the name of a value; ``tile``: elements of the dim ``k`` in one step."""

    def __init__(self, where: Where, scale: str, k: str, tile: int) -> None:
        super().__init__(
            where,
            f"A step takes {tile} elements of '{k}', along which '{scale}' changes; beside waves that only copy, f32 "
            "numbers scale the sums of whole steps.",
            hints=[f"Use a tile of '{k}' that divides the blocks of the scales, or leave out 'producers'."],
        )


class ScaleProducts(Pass):
    """Scale the sums of a step where that step has one scale for each row of both operands.

    Before: an mma may have two operands more: a factor for each element of ``lhs`` and of ``rhs``.
    After:  where neither factor changes along the dim that is summed over, inside of a tile of it, the mma has three
            operands and starts at zero.  The factors are read again without that dim, and without those of the
            operand along which a tile has one of them; multiplied with each other in f32, they are what a
            multiply-add takes the sums times.  Operands stay as they are, where the machine multiplies such;
            elsewhere they are converted to bf16, which has all of their numbers.
    Cases:  factors of f32 would need operands of f32 otherwise.  Powers of two can be multiplied into operands without
            a loss: they scale sums where a step has no more of those than elements of both operands.
    Errors: ``scales-change-in-step`` at the loop's tile: no matrix unit takes the operands of f32.
    """

    name: ClassVar[str] = "scale-products"
    requires = (is_of_tiles,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        tiles = _Tiles(kernel, machine)

        def change(op: Op) -> tuple[Op, ...]:
            return tiles.scaled(op) if len(op.operands) > 3 else (op,)

        body = rewrite(kernel.body, change, MMA)
        if body is kernel.body:
            return kernel
        body = without_unused(body, lambda op: op.is_(_MADE_AGAIN))  # factors as they were
        return replace(kernel, body=body).with_symbols(*dict.fromkeys(tiles.symbols))


class _Tiles:
    """What is known of the tiles of a kernel; ``symbols``: of the places in them that new reads have."""

    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self.kernel, self.machine, self.fresh = kernel, machine, fresh_names(kernel)
        self.makers = {value.name: op for op in kernel.walk() if op.region is None for value in op.results}
        self.extents = {dim: size.value for dim, size in kernel.all_sizes.items() if size.is_const}
        plan = kernel.distribution
        self.extents |= {split.dim: split.tile for split in (*plan.workgroup, *plan.loops)}
        self.symbols = list[Expr]()

    def scaled(self, product: Op) -> tuple[Op, ...]:
        """What the product and its factors become, or the product as it is."""
        lhs, rhs, acc, *scales = product.operands
        (k,) = (dim for dim in lhs.tile.dims if dim in rhs.tile.dims and dim not in acc.tile.dims)
        made = list[Op]()
        factors = [self._in_a_tile(scale, made) for scale in scales]
        changing = [scale for scale, one in zip(scales, factors, strict=True) if k in one.tile.dims]
        if changing:
            self._check_roles(product, changing[0], k)
        if changing or not self._is_worth_it(product, k):
            return (product,)

        def add(name: str, operands: tuple[Value, ...], dims: tuple[str, ...], dtype: str, **attributes: Any) -> Value:
            like = product.result if dims == acc.tile.dims else operands[0]
            tile = replace(acc.tile, dims=dims, extents=(0,) * len(dims), dtype=DTYPES[dtype])
            result = Value(self.fresh(like.name), tile)
            pairs = attribute_pairs(attributes)
            made.append(Op(name, operands, (result,), pairs, span=product.span, node=product.node))
            return result

        if not self._multiplies(product):
            lhs, rhs = (
                one if one.tile.dtype.name == _MULTIPLIED else add("cast", (one,), one.tile.dims, _MULTIPLIED)
                for one in (lhs, rhs)
            )
        zero = add("register", (), acc.tile.dims, _SUMMED, value=0.0)
        sums = add("mma", (lhs, rhs, zero), acc.tile.dims, _SUMMED, **dict(product.attributes))
        # Behind the product: loads of factors are on their way while it runs.
        first, second = (
            one if one.tile.dtype.name == _SUMMED else add("cast", (one,), one.tile.dims, _SUMMED) for one in factors
        )
        kept = _in_order(acc, {*first.tile.dims, *second.tile.dims})
        both = add("elementwise", (first, second), kept, _SUMMED, function="mul")
        scaled = replace(product, name="elementwise", operands=(sums, both, acc))
        return (*made, replace(scaled, attributes=attribute_pairs({"function": "fma"})))

    def _check_roles(self, product: Op, scale: Value, k: str) -> None:
        plan = self.kernel.distribution
        can_have_roles = any(row.reads_shared for row in self.machine.instructions)  # others are refused for that
        if _has_bits(product) and plan.roles.producers and can_have_roles and self._named(product) is None:
            where = next((split.span for split in plan.loops if split.dim == k), product.span)
            raise ScalesChangeInStep(where, written_name(self.kernel, scale), k, self.extents.get(k, 0))

    def _is_worth_it(self, product: Op, k: str) -> bool:
        """Whether operands could not be scaled without a loss, or have more elements than there are sums."""
        if _has_bits(product):
            return True
        operands = (value.tile for value in product.operands[:2])
        rows, columns = (prod(self.extents.get(dim, 0) for dim in one.dims if dim != k) for one in operands)
        return 0 < rows * columns <= (rows + columns) * self.extents.get(k, 0)

    def _multiplies(self, product: Op) -> bool:
        """Whether the instruction that the spec names, or one of the machine's, takes the operands as they are."""
        lhs, rhs = (value.tile.dtype for value in product.operands[:2])
        named, by_unit = self._named(product), bool(self.kernel.distribution.roles.producers)
        rows = [row for row in self.machine.instructions if row.auto and row.reads_shared == by_unit]
        taken = {row.a.dtype for row in ([named] if named else rows)} | {DTYPES[_MULTIPLIED]}
        return lhs == rhs and lhs in taken

    def _named(self, product: Op) -> MatrixInstruction | None:
        return self.machine.instruction(product.get("variant") or self.kernel.distribution.instruction)

    def _in_a_tile(self, value: Value, made: list[Op]) -> Value:
        """The value without dims along which a tile has one number of it; appends what makes that."""
        maker = self.makers.get(value.name)
        if maker is None or not maker.is_(_MADE_AGAIN):
            return value
        if maker.is_(READ):
            if not maker.get("at") or maker.operands:
                return value
            maker = self._narrowed(maker)
            dims = dims_of(maker)
        else:
            maker = replace(maker, operands=tuple(self._in_a_tile(operand, made) for operand in maker.operands))
            dims = _in_order(value, {dim for operand in maker.operands for dim in operand.tile.dims})
        result = Value(self.fresh(value.name), replace(value.tile, dims=dims, extents=(0,) * len(dims)))
        made.append(replace(maker, results=(result,)))
        return result

    def _narrowed(self, read: Op) -> Op:
        """The read without the dims along which a tile has one element, which is that of its start."""
        alike = [dim for dim in dims_of(read) if all(self._is_one(place, dim) for _, place in read["at"])]
        starts = {dim: place_symbol("start", dim, self.kernel.all_sizes[dim]) for dim in alike}
        self.symbols += starts.values()
        places = {index_of(dim).args[0]: start for dim, start in starts.items()}
        at = tuple((dim, place.substitute(places)) for dim, place in read["at"])
        return read.with_(at=at, over=tuple(dim for dim in dims_of(read) if dim not in alike))

    def _is_one(self, place: Expr, dim: str) -> bool:
        """Whether a tile has one place along ``dim``, also where an instruction shortens its steps."""
        tile = self.extents.get(dim, 0)
        lengths = {min(tile, row.chain or tile) for row in self.machine.instructions}
        return all(length and _is_one(place, dim, length) for length in lengths)


def _has_bits(product: Op) -> bool:
    """Whether a scale is no power of two."""
    return any(scale.tile.dtype.mantissa for scale in product.operands[3:])


def _is_one(place: Expr, dim: str, length: int) -> bool:
    """Whether ``length`` neighbours along ``dim``, the first at a multiple of it, have one place: it counts groups."""
    index = index_of(dim)
    if place.symbols.isdisjoint(index.symbols):
        return True
    if place.kind == "floordiv" and place.args[0] is index and place.args[1].is_const:
        return place.args[1].value % length == 0
    parts = [term for _, term in place.args[1]] if place.kind == "sum" else place.args
    return place is not index and all(_is_one(part, dim, length) for part in parts)


def _in_order(value: Value, dims: set[str]) -> tuple[str, ...]:
    return tuple(dim for dim in value.tile.dims if dim in dims)

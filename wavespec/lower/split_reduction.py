"""Tile kernel in, tile kernel out: an mma over a deep tile becomes a loop over instruction-sized steps of k."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import ClassVar

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.expr import Expr, ceildiv, const, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel, Op, Region, TileType, Value, attribute_pairs
from wavespec.ir.tile_ops import BITCAST, CAST, COPY, ELEMENTWISE, EXTRACT, MMA, READ, WRITE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.empty_dims import of_grid
from wavespec.lower.product_layouts import depth_of_round
from wavespec.lower.shared_sums import waves_of_sum
from wavespec.lower.tile_properties import (
    operands_are_read_beside_products,
    products_have_instructions,
    products_read_their_operands,
)
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import MatrixInstruction


class TooManyInstructions(WavespecError, code="too-many-instructions"):
    def __init__(self, where: Where, dim: str, count: int, most: int) -> None:
        super().__init__(
            where,
            f"One step over '{dim}' would be {count} matrix instructions of each wave in a row; "
            f"at most {most} are written out.",
            hints=[f"Use a smaller tile of '{dim}', or more waves."],
        )


class SplitReduction(Pass):
    """Read operands just before the step that uses them, so that few fragments are alive at a time.

    Before: ``read a; read b; mma`` with k as deep as the staged tile.
    After:  the three inside an ``iterate`` over k, ``step`` deep; ``unroll`` is 0 where the machine wants
            straight-line code and 1 where the loop stays.
            What the matrix unit reads itself takes no registers and stays whole.  A read around a loop is repeated
            inside it where nothing writes to its memory there.  Places that a read takes from values are made inside
            as well, of a step alone; where they are not made element by element, there is one step.
    Errors: ``too-many-instructions`` at the loop's tile.
    """

    name: ClassVar[str] = "split-reduction"
    requires = (products_have_instructions, products_read_their_operands)
    ensures = (operands_are_read_beside_products,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        splitter = _Splitter(kernel, machine)
        body = _without_unused(splitter.block(kernel.body, {}))
        declared = [symbol(name, 0, depth - step, step) for name, (depth, step) in splitter.symbols.items()]
        return replace(kernel.with_symbols(*declared), body=body)


class _Splitter:
    """``symbols``: by induction, the depth of its loop and of a step."""

    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self.kernel, self.machine, self.fresh = kernel, machine, fresh_names(kernel)
        self.makers = {value.name: op for op in kernel.walk() if op.region is None for value in op.results}
        self.symbols: dict[str, tuple[int, int]] = {}

    def block(self, ops: tuple[Op, ...], around: dict[str, Op]) -> tuple[Op, ...]:
        """Operations with loops in place of products; ``around``: the reads in front of the loop that they are in."""
        written = {one["memory"] for op in ops for one in op.walk() if one.is_(COPY, WRITE)}
        reads = {name: read for name, read in around.items() if read.get("memory") not in written}
        reads |= {op.result.name: op for op in ops if op.is_(READ, EXTRACT) and not op.get("by_unit")}
        products = [op for op in ops if op.is_(MMA) and all(v.name in reads for v in op.operands[:2])]
        # Waves that share out k have parts that lie apart: each reads all of its own.
        products = [op for op in products if waves_of_sum(self.kernel, op, self.machine) == 1]
        split = {v.name for op in products for v in op.operands[:2]}
        result: list[Op] = []
        for op in ops:
            if op.region:
                op = replace(op, region=replace(op.region, ops=self.block(op.region.ops, reads)))
            if op in products:
                result.append(self._loop(op, reads, instruction_of(op, self.machine)))
            elif not (op.results and op.results[0].name in split):
                result.append(op)
        return tuple(result)

    def _loop(self, mma: Op, reads: dict[str, Op], row: MatrixInstruction) -> Op:
        k, acc = mma["k"], mma.operands[2]
        depth = mma.operands[0].tile.extent(k)
        if self.machine.most_unrolled:
            _check_length(self.kernel, mma, row, depth, self.machine)
        unrolled = self.machine.most_unrolled
        step = min(depth, depth_of_round(mma, row, self.machine) if unrolled else row.k)
        while depth % step:
            step -= row.k
        if not all(self._is_made_apart(value, k, reads[value.name]) for value in mma.operands[:2]):
            step = depth
        names = (f"in_{k}{number or ''}" for number in itertools.count())
        induction = next(name for name in names if self.symbols.get(name, (depth, step)) == (depth, step))
        self.symbols[induction] = (depth, step)
        at = symbol(induction, 0, depth - step, step)
        inner: list[Op] = []
        operands: list[Value] = []
        for value in mma.operands[:2]:
            operands.append(self._part(value, reads[value.name], k, step, at, inner))
        argument, product = Value(self.fresh(acc.name), acc.type), Value(self.fresh(acc.name), acc.type)
        inner.append(replace(mma, operands=(*operands, argument), results=(product,)))
        extent = const(depth) if self.machine.most_unrolled else remaining(self.kernel, k, depth, step)
        attributes = {
            "dim": k,
            "induction": induction,
            "extent": extent,
            "step": const(step),
            "unroll": 0 if self.machine.most_unrolled else 1,
        }
        return Op(
            "iterate",
            (acc,),
            mma.results,
            attribute_pairs(attributes),
            Region((argument,), tuple(inner), (product,)),
            mma.span,
        )

    def _is_made_apart(self, value: Value, k: str, maker: Op | None) -> bool:
        """Whether a value, with what a read takes its places from, can be made for some elements of ``k`` alone."""
        if k not in value.tile.dims or (maker is not None and maker.is_(EXTRACT)):
            return True
        if maker is None or not maker.is_(READ | ELEMENTWISE | CAST | BITCAST):
            return False
        return all(self._is_made_apart(one, k, self.makers.get(one.name)) for one in maker.operands)

    def _part(self, value: Value, maker: Op, k: str, step: int, at: Expr, inner: list[Op]) -> Value:
        """``step`` elements of a value from place ``at`` along ``k``; what makes them goes to `inner`."""
        tile = value.tile
        extents = tuple(step if d == k else e for d, e in zip(tile.dims, tile.extents, strict=True))
        part = Value(self.fresh(value.name), TileType(tile.dims, extents, tile.dtype))
        if maker.is_(READ | EXTRACT):
            maker = maker.with_(origin=tuple((d, expr + at if d == k else expr) for d, expr in maker["origin"]))
        if not maker.is_(EXTRACT):  # which takes a part of all of its operand
            operands = [
                self._part(one, self.makers[one.name], k, step, at, inner) if k in one.tile.dims else one
                for one in maker.operands
            ]
            maker = replace(maker, operands=tuple(operands))
        inner.append(replace(maker, results=(part,)))
        return part


def _without_unused(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """The operations without reads in front of loops that are repeated inside."""
    used = {value.name for op in ops for inner in op.walk() for value in inner.operands}
    used |= {value.name for op in ops for inner in op.walk() if inner.region for value in inner.region.yields}
    return tuple(op for op in ops if not op.is_(READ) or op.result.name in used)


def _check_length(kernel: Kernel, mma: Op, row: MatrixInstruction, depth: int, machine: Machine) -> None:
    repeats = [
        mma.operands[2].tile.extent(dim) // kernel.waves_along(dim) // extent
        for dim, extent in ((mma["m"], row.m), (mma["n"], row.n))
    ]
    count = math.prod(repeats) * (depth // row.k)
    registers = math.prod(repeats) * row.acc.layout.elements * row.acc.dtype.bits // 32
    # `AssignLayouts` refuses what no register file holds.
    if count > machine.most_unrolled and registers <= machine.registers:
        loop = next((split.span for split in kernel.distribution.loops if split.dim == mma["k"]), None)
        raise TooManyInstructions(loop or mma.span, mma["k"], count, machine.most_unrolled)


def remaining(kernel: Kernel, dim: str, tile: int, granule: int) -> Expr:
    """Elements of a tile of ``dim`` that exist at the tile's place, rounded up to ``granule``: where a loop in it
    may end; of an empty dim, one such part, which is masked."""
    split = next((s for s in (*kernel.distribution.workgroup, *kernel.distribution.loops) if s.dim == dim), None)
    if split is None:
        return const(tile)
    size = kernel.size(dim)
    looped = split in kernel.distribution.loops
    start = kernel.symbol(f"at_{dim}") if looped else kernel.symbol(f"wg{split.axis}") * split.tile
    there = ceildiv(size - start, granule) * granule
    return minimum(tile, maximum(granule, there) if dim in of_grid(kernel) else there)

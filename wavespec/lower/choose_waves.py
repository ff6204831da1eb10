"""Tile kernel in, tile kernel out: a workgroup has the waves that its tiles are worth, where the spec names none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Split, TileType
from wavespec.ir.tile_ops import ACROSS, MMA, RANDOM, REDUCE, TAKE
from wavespec.lower.base import Pass
from wavespec.lower.tile_properties import products_have_three_operands
from wavespec.ops.index_map import moved_dims
from wavespec.targets.machine import Machine

_PARTS = 4
"""Of a processor, that issue on their own: as many waves keep all of them busy."""
_MOST_WAVES = 16
_SUM_REGISTERS = 128
"""Of a lane, for all sums of products together: operands and addresses need the others."""
_VALUE_REGISTERS = 32
"""Of a lane, for its part of one value; several of them are needed at once."""
_MOST_REGISTERS = 128
"""Of a lane, for its part of one value, beyond which waves had better share out what they have to exchange, too."""
_ACCESS_REGISTERS = 4
"""Of a lane, that a widest access fills: smaller parts leave memory waiting."""


class ChooseWaves(Pass):
    """Split the tile of a workgroup over waves where no ``wave`` constraint says how.

    Before: a workgroup has one wave, whatever its tiles.
    After:  with products, waves share out the dims of results that workgroups split, so that each has as little to
            multiply and to read as it can.  Without, they share out rows, and what is in a row last: a dim along which
            lanes exchange elements, as scans do, stays in one wave.  The distribution is ``chosen`` then.
    Example: results of 64 x 64 become four waves of 32 x 32.
    """

    name: ClassVar[str] = "choose-waves"
    requires = (products_have_three_operands,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        plan = kernel.distribution
        if plan.waves or plan.roles.producers:
            return kernel
        products = [op for op in kernel.walk() if op.is_(MMA)]
        tiles = _waves_of_products(kernel, machine, products) if products else _waves_of_rows(kernel, machine)
        spans = {split.dim: split.span for split in (*plan.loops, *plan.workgroup)}
        waves = tuple(Split(dim, tile, span=spans[dim]) for dim, tile in tiles.items())
        return replace(kernel, distribution=replace(plan, waves=waves, chosen=True)) if waves else kernel


def _extents(kernel: Kernel) -> dict[str, int]:
    """Elements along each dim that a workgroup has at once."""
    plan = kernel.distribution
    fixed = {dim: size.value for dim, size in kernel.all_sizes.items() if size.is_const}
    return fixed | {split.dim: split.tile for split in (*plan.loops, *plan.workgroup)}


def _registers(tile: TileType, extents: Mapping[str, int], lanes: int) -> int:
    """Of a lane of one wave, for its part of a value."""
    return prod(extents.get(dim, 1) for dim in tile.dims) * max(tile.dtype.bits, 16) // 32 // lanes


def _waves_of_products(kernel: Kernel, machine: Machine, products: Sequence[Op]) -> dict[str, int]:
    """What a wave has of the dims that it shares with others; nothing where one wave has all."""
    extents = _extents(kernel)
    summed = {dim for op in products for dim in _sides(op)[2]}
    results = {dim for op in products for dim in op.results[0].tile.dims}
    free = [s.dim for s in kernel.distribution.workgroup if s.dim in results - summed and s.tile > 1]
    best: tuple[tuple[bool, bool, int, int, int], dict[str, int]] | None = None
    for parts in product(*(_divisors(extents[dim]) for dim in free)):
        if not 1 < (count := prod(parts)) <= _MOST_WAVES:
            continue
        tiles = extents | {dim: extents[dim] // part for dim, part in zip(free, parts, strict=True)}
        if not all(_fits(op, tiles, kernel, machine) for op in products):
            continue
        sums = {op.operands[2].name: op.results[0].tile for op in products}
        registers = sum(_registers(tile, tiles, machine.lanes) for tile in sums.values())
        work = sum(prod(tiles.get(dim, 1) for dim in tile.dims) for tile in sums.values())
        read = sum(tiles.get(dim, 1) for op in products for dim in op.results[0].tile.dims)
        cost = (registers > _SUM_REGISTERS, count < _PARTS, max(count, _PARTS), work, read)
        if best is None or cost < best[0]:
            best = cost, {dim: tiles[dim] for dim, part in zip(free, parts, strict=True) if part > 1}
    return best[1] if best else {}


def _divisors(extent: int) -> list[int]:
    """Numbers of waves that can share out a dim evenly."""
    return [part for part in (1, 2, 4, 8, 16) if extent % part == 0]


def _sides(op: Op) -> tuple[list[str], list[str], list[str]]:
    """The rows, the columns and what a product sums over."""
    a, b, acc = (value.tile.dims for value in op.operands[:3])
    summed = [dim for dim in a if dim in b and dim not in acc]
    return [dim for dim in a if dim not in summed], [dim for dim in b if dim not in summed], summed


def _fits(op: Op, tiles: Mapping[str, int], kernel: Kernel, machine: Machine) -> bool:
    """Whether a matrix instruction of these types, that of the spec where it names one, takes the tiles of a wave, one
    way round or the other."""
    a, _, acc = (value.tile for value in op.operands[:3])
    named = machine.instruction(op.get("variant") or kernel.distribution.instruction)
    rows = [row for row in machine.instructions if row.auto] if named is None else [named]
    rows = [row for row in rows if not row.reads_shared and a.dtype in row.inputs]
    m, n = (prod(tiles.get(dim, 1) for dim in side) for side in _sides(op)[:2])
    ways = [(row.m, row.n) for row in rows if row.acc.dtype == acc.dtype]
    return any(m % x == 0 and n % y == 0 for way in ways for x, y in (way, way[::-1]))


def _waves_of_rows(kernel: Kernel, machine: Machine) -> dict[str, int]:
    """The same of a kernel without products: halves, as long as lanes have more than they should."""
    extents = _extents(kernel)
    plan = kernel.distribution
    exchanged = set(_exchanged(kernel))
    splits = {s.dim: s for s in (*plan.workgroup, *plan.loops) if s.dim not in exchanged}
    outer = {split.dim for split in plan.workgroup}
    rows = {memory.contiguous_dim for memory in kernel.memories if memory.dims}
    values = [value.tile for op in kernel.walk() for value in op.results]
    shared, count = dict(extents), 1

    def registers(tile: TileType) -> int:
        return _registers(tile, shared, machine.lanes)

    while count < _MOST_WAVES and (largest := max(values, key=registers, default=None)):
        most = registers(largest)
        if most <= _VALUE_REGISTERS and (count >= _PARTS or most < 2 * _ACCESS_REGISTERS):
            break
        free = [dim for dim in largest.dims if dim in splits and shared[dim] % 2 == 0]
        if most <= _MOST_REGISTERS:  # a row in one wave needs no exchange
            free = [dim for dim in free if dim in outer]
        if not free:
            break
        dim = min(free, key=lambda dim: (dim not in outer, dim in rows))
        shared[dim] //= 2
        count *= 2
    return {dim: shared[dim] for dim in splits if shared[dim] < extents[dim]}


def _exchanged(kernel: Kernel) -> Iterator[str]:
    """Dims along which lanes of one wave exchange elements, or that several of them make together."""
    for op in kernel.walk():
        if op.is_(TAKE):
            yield from moved_dims(op)
        elif op.is_(RANDOM):
            yield op.results[0].tile.dims[-1]
        elif op.is_(ACROSS) and not op.is_(REDUCE):
            yield op["dim"]
            yield from (value for value in [op.get("k")] if value)

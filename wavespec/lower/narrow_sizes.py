"""Tile kernel in, tile kernel out: sizes are known to be as large as they are wherever a workgroup runs."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr, ceildiv, symbol
from wavespec.ir.kernel import Kernel, Memory
from wavespec.ir.rewriting import substituted
from wavespec.lower.base import Pass
from wavespec.lower.empty_dims import dims_not_needed
from wavespec.lower.tile_properties import is_of_tiles
from wavespec.targets.machine import Machine


class NarrowSizes(Pass):
    """Raise the least size of the grid's dims to 1.

    Before: ``H`` of the grid has a size of 0 and more, as calls may bring it.
    After:  it has 1 and more, for a call without an H has no workgroup; so nothing guards a division by it, nor an
            access along it.  Dims stay that something is written without: they have a workgroup in every call.  So do
            dims of one tile at most: the grid, which follows from the sizes, would have that tile in every call.
    """

    name: ClassVar[str] = "narrow-sizes"
    requires = (is_of_tiles,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        plan, sizes, needed = kernel.distribution, kernel.all_sizes, dims_not_needed(kernel)
        tiles = {split.dim: split.tile for split in plan.workgroup if split.dim in sizes and split.dim not in needed}
        may_be_empty = ((sizes[dim], tile) for dim, tile in tiles.items() if sizes[dim].kind == "symbol")
        of_grid = {size.args[0]: (_not_empty(size), tile) for size, tile in may_be_empty if size.low == 0}
        narrowed = {name: size for name, (size, tile) in of_grid.items() if not ceildiv(size, tile).is_const}
        if not narrowed or plan.workers == 1:  # one workgroup stays in every call
            return kernel

        def of_memory(memory: Memory) -> Memory:
            return replace(memory, shape=tuple(size.substitute(narrowed) for size in memory.shape))

        return replace(
            kernel,
            symbols=tuple(narrowed.get(known.args[0], known) for known in kernel.symbols),
            memories=tuple(map(of_memory, kernel.memories)),
            sizes=tuple((dim, size.substitute(narrowed)) for dim, size in kernel.sizes),
            body=tuple(substituted(op, narrowed) for op in kernel.body),
        )


def _not_empty(size: Expr) -> Expr:
    name, _, high, divisor = size.args
    return symbol(name, divisor, high, divisor)

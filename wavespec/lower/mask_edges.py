"""Tile kernel in, tile kernel out: accesses to tensors know in which dims their tile can stick out."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from wavespec.ir.declarations import Kind
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Memory, Op, rewrite
from wavespec.ir.tile_ops import ITERATE, MMA, READ, TILE_OPS, WRITE
from wavespec.lower.base import Pass
from wavespec.lower.empty_dims import dims_found_empty
from wavespec.lower.tile_properties import accesses_are_masked, edges_are_masked, tiles_are_placed
from wavespec.ops.index_map import dims_of, index_of, windows_overlap
from wavespec.targets.machine import Machine


class MaskEdges(Pass):
    """Mark the dims whose last tile may be partial.

    Before: accesses to global memory have an origin.
    After:  ``read``, ``write`` and ``copy`` of global memory have ``masked``, the dims that need a bound check: those
            whose size is not known to be a multiple of the tile; with a mapping, dims of the tile.  A promise in the
            spec (``multiple_of``, a fixed size) removes it, unless workgroups find the dim empty.  A read in place has
            ``clamped`` too, dims of the result: beyond their edge it may read the last element again, because what is
            computed there is never stored, and needs no check; one with a mapping checks the places that it computes,
            and reads any element or 0.  So has what a lane reads of several rows in each step of a loop, where one
            lane has a whole tile.  ``reduce``, ``topk``, ``pad`` and ``join`` have
            ``masked`` where elements beyond the edge have to be left out.
    """

    name: ClassVar[str] = "mask-edges"
    requires = (tiles_are_placed,)
    ensures = (edges_are_masked, accesses_are_masked)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        plan, empty = kernel.distribution, dims_found_empty(kernel)
        tiles = {split.dim: split.tile for split in (*plan.workgroup, *plan.loops)}
        tiles |= {split.dim: split.tile * plan.cluster for split in plan.workgroup if split.axis == 0}

        def is_partial(dim: str, size: Expr) -> bool:
            return dim in tiles and (dim in empty or size.divisor % tiles[dim] != 0)

        def masked(memory: Memory) -> tuple[str, ...]:
            sizes = zip(memory.dims, memory.shape, strict=True)
            return tuple(dim for dim, size in sizes if is_partial(dim, size))

        products = [op for op in kernel.walk() if op.is_(MMA)]
        of_results = {split.dim for split in plan.workgroup} - {op["k"] for op in products} - empty

        def are_costly(op: Op) -> bool:
            """Where one lane has a whole tile every check is made for each of its accesses; a lane that has several
            windows reads once what these share, if it is checked by its place alone."""
            return machine.lanes == 1 or (not products and windows_overlap(op, kernel.all_sizes))

        loops = [op for op in kernel.walk() if op.is_(ITERATE)] if machine.lanes == 1 else []
        stepwise = {op.result.name for loop in loops for op in loop.body.ops if op.is_(READ)}

        def change(op: Op) -> tuple[Op, ...]:
            declared = TILE_OPS[op.name].attributes.get("masked")
            if declared is None:
                return (op,)
            if declared.kind is Kind.FLAG:
                dim, here = op["dim"], op.get("origin") is not None
                return (op.with_(masked=here and is_partial(dim, op["size"])),)
            name = op.get("source") or op["memory"]
            if kernel.memory(name).space != "global":
                return (op,)
            if op.get("at"):
                sizes = kernel.all_sizes
                edges = tuple(dim for dim in dims_of(op) if is_partial(dim, sizes[dim]))
                unchecked = of_results & _checked_by_places(op) if are_costly(op) else set[str]()
                unchecked |= of_results.intersection(op.get("clamped") or ())
                if op.is_(READ) and op.result.name in stepwise:
                    unchecked |= of_results & _rows_of_lane(op) & _own_places(op)
                beyond = tuple(dim for dim in edges if dim in unchecked)
                op = op.with_(masked=tuple(dim for dim in edges if dim not in beyond))
                return (op.with_(clamped=beyond) if beyond else op,)
            edges, clamped = masked(kernel.memory(name)), op.get("clamped")
            if clamped is None and op.is_(READ) and op.result.name in stepwise:
                clamped = of_results & _rows_of_lane(op) or None
            if clamped is None:
                return (op.with_(masked=edges),)
            beyond = tuple(dim for dim in edges if dim in clamped and dim not in empty)
            return (op.with_(masked=tuple(dim for dim in edges if dim not in beyond), clamped=beyond),)

        return replace(kernel, body=rewrite(kernel.body, change))


def _rows_of_lane(op: Op) -> set[str]:
    """Dims of a read of which a lane has several elements, each in accesses of its own."""
    layout = op.result.tile.layout
    if layout is None:
        return set()
    within = layout.axes[len(layout.repeats) :]
    several = {dim for axis in layout.repeats if axis.extent > 1 for dim, _ in axis.strides}
    return several - {dim for axis in within for dim, _ in axis.strides} - {*op.result.tile.dims[-1:]}


def _own_places(op: Op) -> set[str]:
    """Dims of a tile that is read with a mapping whose index is a place, and stands in no other."""
    places = [place for _, place in op["at"]]
    own = {dim for dim in op.result.tile.dims if any(place is index_of(dim) for place in places)}
    return {dim for dim in own if sum(not place.symbols.isdisjoint(index_of(dim).symbols) for place in places) == 1}


def _checked_by_places(op: Op) -> set[str]:
    """Dims of a tile that is read with a mapping whose indices stand in computed places alone, which are checked by
    themselves."""
    if op.is_(WRITE) or op.operands or op.get("through"):
        return set()
    return {*dims_of(op)} - {dim for dim, place in op["at"] if place is index_of(dim)}

"""Tile kernel in, the dims out along which a tile may have no elements though a workgroup, or a step, has the tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op
from wavespec.ir.tile_ops import ITERATE, WRITE


def dims_not_needed(kernel: Kernel) -> frozenset[str]:
    """Dims of the grid that something is written without: also where they have no elements, so that there has to be a
    workgroup along them in every call."""
    workgroup = {split.dim for split in kernel.distribution.workgroup}
    return frozenset(dim for op in kernel.walk() if op.is_(WRITE) for dim in workgroup - {*_dims_of(kernel, op)})


def is_needed_once(kernel: Kernel, loop: Op) -> bool:
    """Whether a loop over all tiles of a dim writes something without the dim: also where the dim has no elements."""
    writes = (op for op in loop.walk() if op.is_(WRITE))
    is_whole = not any(loop.get(key) is not None for key in ("lower", "stride", "goes_on", "extent"))
    return is_whole and any(loop["dim"] not in _dims_of(kernel, op) for op in writes)


def dims_found_empty(kernel: Kernel) -> frozenset[str]:
    """Dims that may have no elements where something of them is accessed: only a bound check keeps that inside.

    To ask from `AssignTiles` on, while the kernel is one of tiles: a workgroup has a tile of a dim of the grid in any
    call, a dim has one tile that no loop is around, or one for each workgroup of a cluster, or a loop takes a step in
    any call.
    """
    walked = {split.dim for split in kernel.distribution.loops}
    in_loops = {dim for op in kernel.walk() for dim in _of_loops(kernel, op) if dim in walked}
    return of_grid(kernel) | in_loops


def of_grid(kernel: Kernel) -> frozenset[str]:
    """Those of the grid among `dims_found_empty`; of a kernel of lanes too, before the grid is folded."""
    splits = kernel.distribution.workgroup
    return frozenset(s.dim for s in splits if kernel.size(s.dim).low == 0 and kernel.grid[s.axis].low != 0)


def may_be_empty(kernel: Kernel, tensor: Memory) -> bool:
    """Whether something of a tensor may be accessed in a call where it has no elements."""
    return not dims_found_empty(kernel).isdisjoint(tensor.dims)


def _of_loops(kernel: Kernel, op: Op) -> Iterator[str]:
    """Dims whose tile is there in calls in which it has no elements, as this operation shows."""
    starts = list[tuple[str, Expr]]()
    if op.is_(ITERATE) and op["dim"] and op["induction"] == f"at_{op['dim']}" and op["extent"].low:
        starts.append((op["dim"], const(0)))
    tensor = op.get("source") or op.get("memory")
    if tensor and kernel.memory(tensor).space == "global":
        starts += [(dim, start) for dim, start in op["origin"] if f"at_{dim}" not in start.symbols]
    for dim, start in starts:
        least = kernel.size(dim).low or 0
        if start.high is None or least <= start.high:
            yield dim


def _dims_of(kernel: Kernel, write: Op) -> Sequence[str]:
    """The dims of what is written as the spec has them, those included that the grid counts one by one."""
    return write["over"] if write.get("over") is not None else kernel.memory(write["memory"]).dims

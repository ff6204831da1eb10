"""Operations of a tile kernel go in; the same with the places of tiles in what they say of them come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from wavespec.ir.expr import Expr, const, minimum
from wavespec.ir.kernel import Op
from wavespec.ir.nodes import replace


def resolve_places(
    ops: Sequence[Op],
    sizes: Mapping[str, Expr],
    origins: Mapping[str, Expr],
    tiles: Mapping[str, int],
    around: frozenset[str],
) -> tuple[Op, ...]:
    """Replace ``DIM.start`` and ``DIM.end`` by what they are at each operation.

    Args:
        sizes: of every dim.
        origins: where the tile of each split dim starts, as long as it is split.
        tiles: elements of it.
        around: dims that workgroups split, and those of the loops around the operations; of others all is one tile.
    """
    places: dict[str, Expr] = {}
    for dim, size in sizes.items():
        start = origins[dim] if dim in around else const(0)
        places[f"{dim}.start"] = start
        places[f"{dim}.end"] = minimum(start + tiles[dim], size) if dim in around else size
    result: list[Op] = []
    for op in ops:
        attributes = tuple((key, _with(value, places)) for key, value in op.attributes)
        region = op.region
        if region:
            inside = around | {op["dim"]} if op["dim"] else around
            region = replace(region, ops=resolve_places(region.ops, sizes, origins, tiles, inside))
        result.append(replace(op, attributes=attributes, region=region))
    return tuple(result)


def _with(value: Any, places: Mapping[str, Expr]) -> Any:
    if isinstance(value, Expr):
        return value.substitute(places)
    if isinstance(value, tuple):
        return tuple(_with(item, places) for item in cast("tuple[Any, ...]", value))
    return value

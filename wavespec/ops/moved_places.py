"""Places of elements along a dim of a tensor go in; how a tile is moved there, and where it leaves the tensor, comes
out."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from wavespec.ir.expr import Expr, const
from wavespec.ops.index_map import index_of


class MovedPlace(NamedTuple):
    """A place that goes up with the index along one dim of a tile, or is the same for all of it.

    ``dim``: of the tile, empty where there is none; ``place``: of an element that is not left out; ``outside``: what is
    above 0 from some index on, whose elements the mapping moves out of the tensor.
    """

    dim: str
    place: Expr
    outside: tuple[Expr, ...]


def moved_place(place: Expr, dims: Collection[str]) -> MovedPlace | None:
    """How a mapping moves a tile of ``dims`` along one dim of a tensor; None where it does more."""
    moving = {index_of(dim).args[0]: dim for dim in dims}
    kept, outside = place, list[Expr]()
    for coefficient, term in place.terms():
        if term.kind != "symbol" and not moving.keys().isdisjoint(term.symbols):
            guard = _guard(term, moving)
            if guard is None:
                return None
            kept = kept - term * coefficient
            outside.append(guard)
    along = [moving[name] for name in sorted(kept.symbols & moving.keys())]
    steps = index_of(along[0]) if along else const(0)
    if len(along) > 1 or not moving.keys().isdisjoint((kept - steps).symbols):
        return None
    return MovedPlace(along[0] if along else "", kept, tuple(outside))


def rows_moved_together(places: Iterable[Expr], index: Expr, most: int) -> int:
    """How many rows quotients in places are the same for, where tiles start at multiples of ``most``; 0 where there are
    none."""
    nodes = [node for place in places for node in place.walk() if node.kind in ("floordiv", "mod")]
    divided = [node.args[1].divisor for node in nodes if _moves_with(index, node.args[0])]
    return math.gcd(most, *divided) if divided else 0


def _moves_with(index: Expr, place: Expr) -> bool:
    """Whether a place has an index outside of quotients, between whose multiples these stay."""
    if place.kind == "floordiv" or index.args[0] not in place.symbols:
        return False
    parts = [term for _, term in place.args[1]] if place.kind == "sum" else place.args
    return place == index or any(isinstance(part, Expr) and _moves_with(index, part) for part in parts)


def _guard(term: Expr, moving: Mapping[str, str]) -> Expr | None:
    """Of a part of a place that is 0 up to some index, ``max(index + ..., 0) * ...``: what is above 0 from there on."""
    factors = term.args if term.kind == "product" else (term,)
    (factor, *others) = [one for one in factors if not moving.keys().isdisjoint(one.symbols)]
    if others or factor.kind != "max" or const(0) not in factor.args:
        return None
    (rising,) = [one for one in factor.args if one != const(0)]
    steps = [(coefficient, one) for coefficient, one in rising.terms() if not moving.keys().isdisjoint(one.symbols)]
    return rising if len(steps) == 1 and steps[0][0] == 1 and steps[0][1].kind == "symbol" else None

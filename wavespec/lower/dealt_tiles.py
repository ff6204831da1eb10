"""Workers and the tiles of a grid go in; which tile a worker computes in which round comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from wavespec.ir.expr import Expr, ceildiv, maximum, minimum, symbol
from wavespec.lower.tile_walk import MOST_TILES, product

_PLANES, _PAIRED, _WHOLE = symbol("planes", 0, MOST_TILES), symbol("paired", 0, 1), symbol("whole", 0, MOST_TILES)
_PAIR, _SIDE = symbol("pair", 0, MOST_TILES), symbol("side", 0, 1)
_FEWEST_PAIRS = 3
"""Of a worker, where tiles come in pairs: pairs are shared out less evenly than tiles, but the more of them there are,
the less that matters, and the more there is that pairs find in a cache."""


@dataclass(frozen=True, slots=True)
class DealtTiles:
    """``rounds`` of ``worker``, and the ``number`` of its tile in round ``turn``; symbols of ``once`` have their values
    outside of the rounds, those of ``each`` in every round, before the number."""

    number: Expr
    rounds: Expr
    once: Mapping[str, Expr]
    each: Mapping[str, Expr]

    @classmethod
    def in_turn(cls, worker: Expr, workers: Expr, turn: Expr, tiles: Expr) -> Self:
        """One after another."""
        return cls(worker + turn * workers, _of_one(worker, workers, tiles), {}, {})

    @classmethod
    def back_and_forth(cls, worker: Expr, workers: Expr, turn: Expr, tiles: Expr) -> Self:
        """One after another, in every other turn from the last worker to the first, so that nobody always has the
        longer ones of tiles that get shorter."""
        whole = tiles // workers
        rounds = whole + minimum(1, maximum(0, tiles % workers - _turned(worker, workers, whole)))
        return cls(_turned(worker, workers, turn) + turn * workers, rounds, {}, {})

    def or_in_pairs(self, worker: Expr, workers: Expr, turn: Expr, grid: Mapping[str, Expr]) -> Self:
        """The same while tiles are few; many come in pairs, the longest with the shortest, the next with the next.

        Their length is that along the last axis of the grid.  A pair has tiles of two neighbours among its planes, the
        places along all other axes.  Pairs are equally long, so that tiles of one plane, which share what they read,
        are computed at the same time.
        """
        *others, along = grid.values()
        length = maximum(along, 1)  # nothing is divided by 0 where there is none
        pairs = ceildiv(_PLANES, 2) * along
        # Without a neighbour for the last plane, what a worker has of that comes behind its whole pairs, one by one.
        own = maximum(turn // 2, turn - _WHOLE)
        plane, place = _PAIR // length * 2 + _SIDE, _turned(_PAIR % length, length, _SIDE)
        number, rounds = place * _PLANES + plane, _of_one(worker, workers, pairs) + _WHOLE
        return replace(
            self,
            number=self.number + _PAIRED * (number - self.number),
            rounds=self.rounds + _PAIRED * (rounds - self.rounds),
            once={
                "planes": product(others),
                "paired": minimum(1, pairs // (workers * _FEWEST_PAIRS)),
                "whole": _of_one(worker, workers, _PLANES // 2 * along),
            },
            each={"pair": worker + own * workers, "side": turn - own - minimum(own, _WHOLE)},
        )

    @property
    def symbols(self) -> tuple[Expr, ...]:
        """Those of ``once`` and ``each``."""
        return (_PLANES, _PAIRED, _WHOLE, _PAIR, _SIDE) if self.each else ()


def _turned(place: Expr, count: Expr, turn: Expr) -> Expr:
    """A place among so many, in every other turn counted from the end."""
    return place + turn % 2 * (count - 1 - place * 2)


def _of_one(worker: Expr, workers: Expr, tiles: Expr) -> Expr:
    """How many of ``tiles``, dealt out one after another, a worker has."""
    return (tiles - worker + workers - 1) // workers

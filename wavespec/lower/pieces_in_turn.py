"""What is done for a tile goes in; loops come out in which workgroups that stay share out the steps of the last round's
tiles."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.lower.base import fresh_names
from wavespec.lower.carried_numbers import COUNT, Numbers, bind, computed, constant, loop_with
from wavespec.lower.ended_tiles import BEFORE, HERE, PART, EndedTiles
from wavespec.lower.last_round import SYMBOLS, LastRound
from wavespec.lower.tile_walk import MOST_TILES, Walk, let

ALL = symbol("tiles_of_all", 0, MOST_TILES)
"""Tiles of all parts, where values say how many each has."""


def pieces_in_turn(kernel: Kernel, worker: Expr, last: LastRound, ended: EndedTiles | None) -> Walk:
    """Pieces one after another, whatever part they are of.  Where values say how many tiles a part has, those of all
    are counted first."""
    turn, late = symbol("round", 0, MOST_TILES), symbol("late", 0, last.processors - 1)
    tile, each = last.at(worker + turn * last.processors)
    fresh, start = fresh_names(kernel), (let("late", const(last.processors - 1) - worker),)
    once = tuple(let(name, value) for name, value in last.once().items())

    def rounds(inside: Sequence[Op], first: Expr, end: Expr, **others: bool) -> Op:
        lower, upper = ((last.pieces_of(tiles) + late) // last.processors for tiles in (first, end))
        bounds = {"induction": turn.args[0], "lower": lower, "upper": upper, **others}
        return loop_with(bounds, {}, lambda _: (inside, {}), fresh)

    if ended is None:
        return Walk(
            tile,
            lambda inside: (*start, *once, rounds(inside, const(0), last.tiles)),
            (late, *SYMBOLS),
            each=each,
        )

    def loops(inside: Sequence[Op]) -> tuple[Op, ...]:
        def following(*ops: Op) -> tuple[Sequence[Op], Numbers]:
            tiles = Value(fresh("tiles"), COUNT)
            return (*ops, computed(tiles, BEFORE + HERE)), {BEFORE: tiles}

        none, first = (Value(fresh("tiles"), COUNT) for _ in range(2))
        counted = ended.around({BEFORE: none}, lambda _: following(), fresh, apart=True)
        shared = rounds(inside, BEFORE, BEFORE + HERE, counts_on=True)
        walk = ended.around({BEFORE: first}, lambda _: following(shared), fresh)
        known = (constant(none, 0), counted, bind(counted.results[0], ALL), *once)
        return (*start, *known, constant(first, 0), walk)

    return Walk(tile - BEFORE, loops, (late, ALL, PART, BEFORE, HERE, *SYMBOLS), each=each)

"""Tiles that are dealt out to workers: each is computed once, nobody has much more to do, neighbours share."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wavespec.ir.expr import Expr, symbol
from wavespec.lower.dealt_tiles import DealtTiles

WORKER, WORKERS, TURN = symbol("workgroup", 0, 4096), symbol("workers", 1, 4096), symbol("round", 0, None)
TILES, A, B, LAST = (symbol(name, 0, None) for name in ("tiles", "A", "B", "LAST"))


def dealt(way: DealtTiles, workers: int, sizes: Mapping[str, int]) -> list[list[int]]:
    """The numbers of the tiles of each worker, in order."""
    found: list[list[int]] = []
    for worker in range(workers):
        known = {**sizes, "workgroup": worker, "workers": workers}
        known = with_values(known, way.once)
        tiles: list[int] = []
        for turn in range(way.rounds.evaluate(known)):
            tiles.append(way.number.evaluate(with_values({**known, "round": turn}, way.each)))
        found.append(tiles)
    return found


def with_values(known: Mapping[str, int], values: Mapping[str, Expr]) -> dict[str, int]:
    """What is known and these symbols, each of what stands before it."""
    known = dict(known)
    for name, value in values.items():
        known[name] = value.evaluate(known)
    return known


def in_pairs(planes: tuple[int, int], length: int, workers: int) -> list[list[int]]:
    """Of a grid whose tiles get shorter along its last axis."""
    grid: dict[str, Expr] = {"wg0": A, "wg1": B, "wg2": LAST}
    way = DealtTiles.back_and_forth(WORKER, WORKERS, TURN, TILES).or_in_pairs(WORKER, WORKERS, TURN, grid)
    sizes = {"A": planes[0], "B": planes[1], "LAST": length}
    return dealt(way, workers, {**sizes, "tiles": planes[0] * planes[1] * length})


@pytest.mark.parametrize("way", [DealtTiles.in_turn, DealtTiles.back_and_forth], ids=lambda way: way.__name__)
@given(st.integers(0, 40), st.integers(1, 9))
def test_every_tile_is_computed_once(way: type, tiles: int, workers: int) -> None:
    found = dealt(way(WORKER, WORKERS, TURN, TILES), workers, {"tiles": tiles})
    assert sorted(number for own in found for number in own) == list(range(tiles))
    assert max(map(len, found)) - min(map(len, found)) <= 1


@given(st.tuples(st.integers(0, 6), st.integers(0, 5)), st.integers(0, 9), st.integers(1, 13))
@example((3, 1), 3, 1).via("a last plane without a neighbour, of more tiles than workers")
@example((3, 3), 9, 2)
@settings(max_examples=200)
def test_every_tile_is_computed_once_in_pairs_too(planes: tuple[int, int], length: int, workers: int) -> None:
    found = in_pairs(planes, length, min(workers, max(1, planes[0] * planes[1] * length)))
    assert sorted(number for own in found for number in own) == list(range(planes[0] * planes[1] * length))


@given(st.tuples(st.integers(1, 6), st.integers(1, 5)), st.integers(1, 9), st.integers(1, 13))
def test_nobody_has_more_than_a_pair_too_much(planes: tuple[int, int], length: int, workers: int) -> None:
    count = planes[0] * planes[1]
    found = in_pairs(planes, length, min(workers, count * length))
    work = [sum(length - number // count for number in own) for own in found]  # the first are the longest
    assert max(work) - min(work) <= length + 1


def test_few_tiles_are_not_paired() -> None:
    found = in_pairs((3, 1), 4, 12)
    assert [len(own) for own in found] == [1] * 12, "a pair would leave half of the workers idle"


def test_many_tiles_are_computed_beside_others_of_their_plane() -> None:
    planes, length, workers = 32, 8, 16
    found = in_pairs((8, 4), length, workers)
    for turn in range(len(found[0])):
        now = [own[turn] for own in found]
        assert len({number % planes for number in now}) == 2, "two planes of eight tiles each"
    lengths = [[length - number // planes for number in own] for own in found]
    assert all(sum(own[turn : turn + 2]) == length + 1 for own in lengths for turn in range(0, len(own), 2))

"""Workgroups that stay share out the last round: every part of every tile once, in rounds that are counted on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.lower.gemms import NVIDIA
from tests.lower.test_ended_tiles import BODY, PARTS, bind_all
from tests.lower.test_share_last_round import MOST, parts_of
from wavespec.ir.kernel import Kernel, Op
from wavespec.lower.persist_workgroups import PersistWorkgroups

Piece = tuple[int, ...]
"""Round, places along the axes, part of the steps, number of parts."""


def pieces_of(kernel: Kernel, known: dict[str, int], lengths: list[int]) -> list[Piece]:
    """What the workgroup of ``known`` takes, in order."""
    counting, walk = (op for op in kernel.body if op.name == "for")
    at = kernel.body.index(counting)
    bind_all(kernel.body[:at], known)
    for _ in over_parts(counting, known, lengths):
        pass
    known["tiles_of_all"] = known["tiles_before"]
    bind_all(kernel.body[at:], known)
    return [piece for _ in over_parts(walk, known, lengths) for piece in rounds_of(walk, known)]


def over_parts(loop: Op, known: dict[str, int], lengths: list[int]) -> Iterator[None]:
    """The steps of a loop over parts, which carries the number of tiles."""
    (following,) = (op["places"][0] for op in loop.body.ops if op.name == "coordinates")
    known["tiles_before"] = 0
    for known["part"], known["value_length"] in enumerate(lengths):
        bind_all(loop.body.ops, known)
        yield
        known["tiles_before"] = following.evaluate(known)


def rounds_of(walk: Op, known: dict[str, int]) -> Iterator[Piece]:
    (loop,) = (op for op in walk.body.ops if op.name == "for")
    first, end = (loop[bound].evaluate(known) for bound in ("lower", "upper"))
    for known["round"] in range(first, end):
        bind_all(loop.body.ops, known)
        yield tuple(known[name] for name in ("round", "wg0", "wg1", "wg2", "part_of_steps", "parts"))


@given(st.lists(st.integers(-70, 300), max_size=5), st.integers(1, 3), st.integers(1, 3), st.integers(2, 9))
def test_every_part_of_every_tile_has_one_workgroup(
    lengths: list[int], columns: int, group: int, processors: int
) -> None:
    text = PARTS.changed(("group 1 persistent", f"group {group} persistent last_round {MOST}"))
    kernel = PersistWorkgroups()(text.kernel(BODY), replace(NVIDIA, processors=processors))
    sizes = {"M": 320, "N": columns, "G": len(lengths)}
    taken = [pieces_of(kernel, {**sizes, "workgroup": number}, lengths) for number in range(processors)]
    for pieces in taken:
        assert [number for number, *_ in pieces] == [*range(len(pieces))], "one in each round, and none left out"
    assert max(map(len, taken)) - min(map(len, taken)) <= 1
    tiles = [(m, n, g) for g, length in enumerate(lengths) for m in range(-(-length // 64)) for n in range(columns)]
    parts = parts_of(len(tiles), processors)
    shared = len(tiles) % processors
    found = [piece for pieces in taken for _, *piece in pieces]
    assert sorted({tuple(place) for *place, _, _ in found}) == sorted(tiles)
    assert sorted(many for *_, many in found) == sorted([1] * (len(tiles) - shared) + [parts] * shared * parts)
    assert len({tuple(piece) for piece in found}) == len(found)

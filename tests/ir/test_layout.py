"""Layouts and arrangements: every element has one place; what passes ask is checked by brute force."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.layout import Arrangement, Digit, Layout, RegisterAxis, Swizzle, panels, row_major

LANE = symbol("lane", 0, 31)
FRAGMENT = Layout(
    (("m", LANE // 4), ("n", LANE % 4 * 2)), (RegisterAxis(2, (("m", 8),)), RegisterAxis(2, (("n", 1),))), 2
)


def elements(layout: Layout, dims: tuple[str, ...]) -> list[tuple[int, ...]]:
    return [
        tuple(int(coordinate[dim].evaluate({"lane": lane})) for dim in dims)
        for lane in range(32)
        for coordinate in layout.coordinates()
    ]


def test_fragment_questions() -> None:
    assert FRAGMENT.dims == ("m", "n")
    assert (FRAGMENT.elements, FRAGMENT.fragment_elements, FRAGMENT.repeats) == (4, 4, ())
    assert (FRAGMENT.run_length("n"), FRAGMENT.run_length("m")) == (2, 1)
    assert list(FRAGMENT.register_offsets()) == [{"m": m, "n": n} for m in (0, 8) for n in (0, 1)]
    assert sorted(elements(FRAGMENT, ("m", "n"))) == list(itertools.product(range(16), range(8)))


def test_repeats_cover_a_larger_tile() -> None:
    tile = FRAGMENT.repeated("m", 2, 16).repeated("n", 4, 8)
    assert (tile.elements, tile.fragment_elements, len(tile.repeats)) == (32, 4, 2)
    assert tile.axes[:2] == (RegisterAxis(2, (("m", 16),)), RegisterAxis(4, (("n", 8),)))
    assert sorted(elements(tile, ("m", "n"))) == list(itertools.product(range(32), range(32)))
    registers = list(tile.register_offsets())
    assert registers[4] == {"m": 0, "n": 8} and registers[16] == {"m": 16, "n": 0}


def test_shift_and_rename() -> None:
    moved = FRAGMENT.shifted({"m": 5, "n": LANE}).renamed({"m": "N", "n": "K"})
    assert moved.dims == ("N", "K")
    assert moved.base_of("N") is LANE // 4 + 5
    assert moved.base_of("K") is LANE % 4 * 2 + LANE
    assert moved.axes[0].stride("N") == 8 and moved.axes[0].stride("K") == 0


@pytest.mark.parametrize(
    ("axes", "run"),
    [
        ([(4, {"k": 1})], 4),
        ([(2, {"k": 4}), (4, {"k": 1})], 8),
        ([(2, {"k": 8}), (4, {"k": 1})], 4),
        ([(2, {"k": 4}), (1, {"m": 3}), (4, {"k": 1})], 8),
        ([(4, {"k": 1}), (2, {"m": 1})], 1),
        ([(4, {"k": 1, "m": 1})], 1),
        ([], 1),
    ],
)
def test_run_length(axes: list[tuple[int, dict[str, int]]], run: int) -> None:
    registers = tuple(RegisterAxis(extent, tuple(strides.items())) for extent, strides in axes)
    layout = Layout((("m", const(0)), ("k", const(0))), registers, len(registers))
    assert layout.run_length("k") == run
    offsets = list(layout.register_offsets())
    for start in range(0, len(offsets), run):
        for step in range(run):
            assert offsets[start + step] == {**offsets[start], "k": offsets[start]["k"] + step}


# ------------------------------------------------------------------------------------------------------- arrangements


def places(arrangement: Arrangement, dims: tuple[str, ...], extents: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    """The offset of every element, by one symbolic expression; checked to be inside the memory and injective."""
    symbols: dict[str, Expr] = {dim: symbol(dim, 0, extent - 1) for dim, extent in zip(dims, extents, strict=True)}
    offset = arrangement.offset(symbols)
    found = {
        index: int(offset.evaluate(dict(zip(dims, index, strict=True))))
        for index in itertools.product(*(range(extent) for extent in extents))
    }
    assert len(set(found.values())) == len(found), "two elements at one place"
    assert min(found.values()) >= 0 and max(found.values()) < arrangement.elements
    return found


def check_run(arrangement: Arrangement, dim: str, dims: tuple[str, ...], extents: tuple[int, ...]) -> None:
    run, position = arrangement.run(dim), dims.index(dim)
    found = places(arrangement, dims, extents)
    for index, offset in found.items():
        start = index[position] - index[position] % run
        first = (*index[:position], start, *index[position + 1 :])
        assert offset == found[first] + index[position] - start


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), st.integers(0, 5))
def test_row_major(extents: list[int], padding: int) -> None:
    dims = ("b", "m", "k")[: len(extents)]
    arrangement = row_major(dims, tuple(extents), padding)
    found = places(arrangement, dims, tuple(extents))
    row = extents[-1] + padding
    for index, offset in found.items():
        expected = 0
        for digit, extent in zip(index[:-1], extents[:-1], strict=True):
            expected = expected * extent + digit
        assert offset == expected * row + index[-1]
    assert arrangement.run(dims[-1]) == extents[-1]


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 5), st.sampled_from([1, 2, 4]))
def test_panels(blocks: int, block: int, depth_blocks: int, depth_block: int) -> None:
    extent, depth = blocks * block, depth_blocks * depth_block
    arrangement = panels("m", extent, block, "k", depth, depth_block)
    found = places(arrangement, ("m", "k"), (extent, depth))
    assert arrangement.elements == extent * depth
    order = sorted(
        found,
        key=lambda index: (
            index[0] // block,
            index[1] // depth_block,
            index[0] % block,
            index[1] % depth_block,
        ),
    )
    assert [found[index] for index in order] == list(range(extent * depth))
    check_run(arrangement, "k", ("m", "k"), (extent, depth))
    check_run(arrangement, "m", ("m", "k"), (extent, depth))


@pytest.mark.parametrize(
    ("columns", "chunk", "width", "period"),
    [(64, 8, 8, 1), (32, 8, 4, 2), (16, 8, 2, 4), (128, 8, 8, 1), (32, 4, 8, 1)],
)
def test_swizzle_is_a_bijection_and_spreads_rows(columns: int, chunk: int, width: int, period: int) -> None:
    rows = 32
    plain = row_major(("m", "k"), (rows, columns))
    swizzled = Arrangement(plain.digits, Swizzle("m", "k", chunk, width, period))
    before, after = (places(x, ("m", "k"), (rows, columns)) for x in (plain, swizzled))
    assert set(before.values()) == set(after.values())
    assert all(before[index] // columns == after[index] // columns for index in before), "elements stay in their row"
    check_run(swizzled, "k", ("m", "k"), (rows, columns))
    assert swizzled.run("k") == chunk and swizzled.run("m") == 1
    line = width * period * chunk
    for first in range(0, rows, 8):  # eight rows read at one column fall on eight different chunks of a line
        assert len({after[row, 0] % line // chunk for row in range(first, first + 8)}) == 8


def test_text() -> None:
    assert str(FRAGMENT) == "{m = lane//4, n = (lane%4)*2;  | 2 by m 8, 2 by n 1}"
    arrangement = Arrangement((Digit("m", 4, 1, 40), Digit("k", 32, 1, 1)), Swizzle("m", "k", 8, 4, 2))
    assert str(arrangement) == "[m/1: 4 by 40, k/1: 32 by 1; swizzle k 8 x 4 by m//2]"


@pytest.mark.parametrize(("columns", "width", "period"), [(64, 8, 1), (32, 4, 2)])
def test_folded_swizzle_spreads_eight_rows_over_half_a_pass_and_sixteen_over_a_whole_one(
    columns: int, width: int, period: int
) -> None:
    swizzled = Arrangement(row_major(("m", "k"), (32, columns)).digits, Swizzle("m", "k", 8, width, period, fold=2))
    found = places(swizzled, ("m", "k"), (32, columns))
    assert len(set(found.values())) == 32 * columns
    for rows, line in ((8, 64), (16, 128)):
        for first in range(0, 32, rows):
            assert len({found[row, 0] % line // 8 for row in range(first, first + rows)}) == rows


def test_projection_keeps_what_moves_along_its_dims() -> None:
    lane = symbol("lane", 0, 31)
    axes = (
        RegisterAxis(2, (("m", 16),)),
        RegisterAxis(4, (("n", 8),)),
        RegisterAxis(2, (("m", 8),)),
        RegisterAxis(2, (("m", 1), ("n", 1))),
    )
    layout = Layout((("m", lane // 4), ("n", lane % 4 * 2)), axes, 2)
    actual = layout.projected(("n",))
    assert actual == Layout((("n", lane % 4 * 2),), (RegisterAxis(4, (("n", 8),)), RegisterAxis(2, (("n", 1),))), 1)
    assert layout.projected(()) == Layout((), (), 0) and layout.projected(()).elements == 1

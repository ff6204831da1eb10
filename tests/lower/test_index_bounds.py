"""Up to where comparisons of indices hold for whole tiles: to the last element, and not one too far."""

from __future__ import annotations

import itertools

import pytest

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, symbol
from wavespec.ir.kernel import Op, TileType, Value, attribute_pairs
from wavespec.lower.index_bounds import fails_beyond, holds_from, holds_until

AT, GROUP, HEAD, SIZE = symbol("at_N", 0, 4096, 8), symbol("wg0", 0, 64), symbol("wg1", 0, 8), symbol("S", 0, 999)
EXTENTS = {"N": 8, "M": 4}


def value(name: str, dtype: str, *dims: str) -> Value:
    return Value(name, TileType(dims, tuple(EXTENTS[dim] for dim in dims), DTYPES[dtype]))


def index(dim: str, origin: Expr, *dims: str) -> Op:
    places = {"dim": dim, "origin": ((dim, origin),)}
    return Op("index", (), (value(dim.lower(), "i32", *dims),), attribute_pairs(places))


def elementwise(function: str, result: Value, *operands: Value) -> Op:
    return Op("elementwise", operands, (result,), attribute_pairs({"function": function}))


PLACES = [
    index("N", AT, "N"),
    index("M", GROUP * 4, "M"),
    index("H", HEAD),  # counted one by one: no tile has the dim
    Op("size", (), (value("s", "i32"),), attribute_pairs({"extent": SIZE})),
]
N, M, H, S = (op.result for op in PLACES)


@pytest.mark.parametrize(("function", "turned"), [("le", False), ("lt", False), ("ge", True), ("gt", True)])
@pytest.mark.parametrize("sign", ["add", "sub"])
def test_a_step_holds_up_to_the_bound_and_not_behind(function: str, turned: bool, sign: str) -> None:
    """N against S + H + M, or S + H - M."""
    sums, limit = value("sums", "i32"), value("limit", "i32", "M")
    flag = value("flag", "bool", "M", "N")
    sides = (limit, N) if turned else (N, limit)
    ops = [
        *PLACES,
        elementwise("add", sums, S, H),
        elementwise(sign, limit, sums, M),
        elementwise(function, flag, *sides),
    ]
    (bound,) = holds_until(ops, "N", "at_N", {}).values()
    least = 1 if function in ("lt", "gt") else 0
    for group, head, size in itertools.product((0, 3), (0, 2), (20, 41)):
        end = bound.evaluate({"wg0": group, "wg1": head, "S": size})

        def holds(start: int, rows: range, beyond: int) -> bool:
            return all(
                beyond + (row if sign == "add" else -row) - n >= least for row in rows for n in range(start, start + 8)
            )

        rows = range(group * 4, group * 4 + 4)
        assert holds(end - 8, rows, size + head) and not holds(end - 7, rows, size + head)


@pytest.mark.parametrize(("function", "least"), [("ge", 0), ("gt", 1)])
def test_what_holds_from_somewhere_on_does_from_that_step(function: str, least: int) -> None:
    """N against M - S: a window of S rows."""
    first, flag = value("first", "i32", "M"), value("flag", "bool", "M", "N")
    ops = [*PLACES, elementwise("sub", first, M, S), elementwise(function, flag, N, first)]
    assert holds_until(ops, "N", "at_N", {}) == {}
    (bound,) = holds_from(ops, "N", "at_N", {}).values()
    for group, size in itertools.product((0, 3), (2, 20)):
        start = bound.evaluate({"wg0": group, "S": size})
        last = group * 4 + 3  # of the rows, the one that needs most
        assert start - (last - size) == least


def test_numbers_from_outside_are_what_their_symbols_stand_for() -> None:
    """N below what was loaded: it holds up to there, whatever that is."""
    present, flag = value("present", "i32"), value("flag", "bool", "N")
    ops = [*PLACES, elementwise("lt", flag, N, present)]
    assert holds_until(ops, "N", "at_N", {}) == {}
    (bound,) = holds_until(ops, "N", "at_N", {"present": symbol("loaded", -(2**31), 2**31 - 1)}).values()
    assert bound.evaluate({"loaded": 77}) == 77


def test_beyond_the_edge_no_row_that_there_is_sees_anything() -> None:
    sizes = {"N": symbol("N", 0, 4096), "M": symbol("M", 0, 64)}
    sums, last, flag = value("sums", "i32", "M"), value("last", "i32", "M"), value("flag", "bool", "M", "N")
    extents = [Op("size", (), (value(f"{d}s", "i32"),), attribute_pairs({"extent": sizes[d]})) for d in "NM"]
    rows = [elementwise("add", sums, M, extents[0].result), elementwise("sub", last, sums, extents[1].result)]
    for function, fails in (("le", {"flag"}), ("lt", {"flag"}), ("ge", set[str]())):
        assert fails_beyond([*PLACES, *extents, *rows, elementwise(function, flag, N, last)], "N", sizes) == fails
    assert fails_beyond([*PLACES, *extents, rows[0], elementwise("le", flag, N, sums)], "N", sizes) == set()


def number(value_: int) -> Op:
    return Op("register", (), (value(f"n{value_}", "i32"),), attribute_pairs({"value": value_}))


@pytest.mark.parametrize("origin", [0, 1, 6])
def test_rows_that_are_blocks_of_others_bound_steps_by_their_least(origin: int) -> None:
    """N against M // 2 + M % 2, whose rows do not go up one by one."""
    rows, flag = index("M", GROUP * 2 + origin, "M"), value("flag", "bool", "M", "N")
    parts = [value(name, "i32", "M") for name in ("quotients", "remainders", "places")]
    ops = [
        PLACES[0],
        rows,
        number(2),
        elementwise("floor_divide", parts[0], rows.result, value("n2", "i32")),
        elementwise("remainder", parts[1], rows.result, value("n2", "i32")),
        elementwise("add", parts[2], *parts[:2]),
        elementwise("le", flag, N, parts[2]),
    ]
    (bound,) = holds_until(ops, "N", "at_N", {}).values()
    for group in (0, 3):
        end = bound.evaluate({"wg0": group})
        least = min(row // 2 + row % 2 for row in range(group * 2 + origin, group * 2 + origin + 4))
        assert end <= least + 1 and (end == least + 1 or origin % 2), "behind the last place that all rows see"


def test_products_that_may_be_larger_than_numbers_of_32_bits_say_nothing() -> None:
    flag, places = value("flag", "bool", "M", "N"), value("places", "i32", "M")
    ops = [
        *PLACES,
        number(3),
        elementwise("mul", places, M, value("n3", "i32")),
        elementwise("le", flag, N, places),
    ]
    assert not holds_until(ops, "N", "at_N", {})

"""Up to where comparisons of indices hold for whole tiles: to the last element, and not one too far."""

from __future__ import annotations

import itertools

import pytest

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, symbol
from wavespec.ir.kernel import Op, TileType, Value, attribute_pairs
from wavespec.lower.index_bounds import holds_until

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
    (bound,) = holds_until(ops, "N", "at_N").values()
    least = 1 if function in ("lt", "gt") else 0
    for group, head, size in itertools.product((0, 3), (0, 2), (20, 41)):
        end = bound.evaluate({"wg0": group, "wg1": head, "S": size})

        def holds(start: int, rows: range, beyond: int) -> bool:
            return all(
                beyond + (row if sign == "add" else -row) - n >= least for row in rows for n in range(start, start + 8)
            )

        rows = range(group * 4, group * 4 + 4)
        assert holds(end - 8, rows, size + head) and not holds(end - 7, rows, size + head)


def test_what_holds_from_somewhere_on_has_no_such_bound() -> None:
    flag = value("flag", "bool", "M", "N")
    assert holds_until([*PLACES, elementwise("ge", flag, N, M)], "N", "at_N") == {}

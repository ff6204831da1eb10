"""Whether an expression is a permutation for every count: what is said, held against trying counts one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavespec.schema.checking.permutations import Undecided, clash_of
from wavespec.schema.language.expression_parser import parse_expression

ALWAYS = (
    "index",
    "count - 1 - index",
    "index // 2 + index % 2 * (count - 1 - index // 2 * 2)",
    "index % 8 * (count // 8) + min(index % 8, count % 8) + index // 8",
    "ceildiv(index, 1)",
    "-index + count - max(1, 0)",
    "index // 2 // 3 * 6 + index % 6",
    "index * P // P",
)
NEVER_ALL = {
    "index // 2": 2,
    "index // 2 * 2 + 1 - index % 2": 1,
    "index % 8 * (count // 8) + index // 8": 2,
    "(index + 1) % 7": 1,
    "count - index": 1,
    "0": 2,
    "index + count // 10": 10,
}


@pytest.mark.parametrize("text", ALWAYS)
def test_permutations_are_seen(text: str) -> None:
    assert clash_of(parse_expression(text), {"P": 5}, None) is None


@pytest.mark.parametrize("text", NEVER_ALL)
def test_the_first_count_that_fails_is_found(text: str) -> None:
    clash = clash_of(parse_expression(text), {}, None)
    assert clash and clash.count == NEVER_ALL[text] and clash.missed not in clash.values


@pytest.mark.parametrize(
    "text",
    ["min(index, 5)", "index * index // count", "index % (count // 2)", "index * index", "index // 1000", "index // 0"],
)
def test_what_is_not_seen_is_said(text: str) -> None:
    with pytest.raises(Undecided):
        clash_of(parse_expression(text), {}, None)


def test_few_counts_are_tried_whatever_the_expression() -> None:
    halves = parse_expression("(index + count // 2) % count")
    assert clash_of(halves, {}, range(1, 100)) is None
    dealt = parse_expression("index % 8 * (count // 8) + index // 8")
    assert clash_of(dealt, {}, range(0, 200, 8)) is None
    assert clash_of(dealt, {}, range(0, 200, 4)) is not None


def test_as_many_counts_as_there_may_be_are_not_gone_through() -> None:
    backwards = parse_expression("count - 1 - index")
    assert clash_of(backwards, {}, range(0, 2**50, 3)) is None
    assert clash_of(backwards, {}, range(0)) is None


_LEAVES = st.sampled_from(["index", "count", "1", "2", "3"])


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    both = st.tuples(inner, st.sampled_from("+-"), inner).map(lambda part: f"({part[0]} {part[1]} {part[2]})")
    divided = st.tuples(inner, st.sampled_from(["//", "%"]), st.sampled_from("23")).map(" ".join).map("({})".format)
    mixed = st.tuples(st.sampled_from(["index % 2", "count % 2", "2"]), inner).map(
        lambda part: f"({part[0]}) * {part[1]}"
    )
    return both | divided | mixed


@given(st.recursive(_LEAVES, _larger, max_leaves=6))
def test_what_holds_up_to_the_limit_holds_beyond(text: str) -> None:
    expression = parse_expression(text)
    try:
        clash = clash_of(expression, {}, None)
    except Undecided:
        return
    for count in range(60) if clash is None else [clash.count]:
        values = sorted(int(expression.evaluate({"index": index, "count": count})) for index in range(count))
        assert (values == [*range(count)]) == (clash is None)

"""What a condition on the sizes of a call promises of a dim, and which conditions imply others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavespec.schema.language.conditions import are_implied, narrowed_dims
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.models import Dim

DIMS = {"M": Dim(), "K": Dim(multiple_of=8), "F": Dim(value=48)}
VALUES = {"BLOCK": 64, "F": 48}


def narrowed(*conditions: str) -> dict[str, Dim] | Expression:
    return narrowed_dims(DIMS, [*map(parse_expression, conditions)], VALUES)


@pytest.mark.parametrize(
    ("condition", "dim", "expected"),
    [
        ("K % 12 == 0", "K", Dim(multiple_of=24)),
        ("0 == M % BLOCK", "M", Dim(multiple_of=64)),
        ("M <= 64", "M", Dim(max=64)),
        ("M < 64", "M", Dim(max=63)),
        ("2 * BLOCK >= M", "M", Dim(max=128)),
        ("M >= 64", "M", Dim(min=64)),
        ("64 < M", "M", Dim(min=65)),
        ("M == 1", "M", Dim(value=1, min=1, max=1)),
        ("F % 16 == 0", "F", Dim(value=48)),
    ],
)
def test_condition_is_a_promise_of_its_dim(condition: str, dim: str, expected: Dim) -> None:
    assert narrowed(condition) == {**DIMS, dim: expected}


@pytest.mark.parametrize("condition", ["M != 1", "M % 8 == 4", "M * K <= 64", "M <= K", "K % M == 0", "K % 0 == 0"])
def test_other_conditions_are_for_the_call_alone(condition: str) -> None:
    assert narrowed(condition) == DIMS


@pytest.mark.parametrize(
    "conditions",
    [("M <= 8", "M > 8"), ("M == 3", "M % 2 == 0"), ("M >= 1", "M < 16", "M % 16 == 0"), ("F > 48",), ("BLOCK > 64",)],
)
def test_the_condition_that_leaves_no_size_is_named(conditions: tuple[str, ...]) -> None:
    assert narrowed(*conditions) == parse_expression(conditions[-1])


@pytest.mark.parametrize(
    "conditions",
    [
        ("K % 8 == 1",),
        ("1 == K % 8",),
        ("2 * 4 == K % 8",),
        ("K % 8 != 0",),
        ("K % 8 > 0",),
        ("K % 16 > 8",),
        ("8 < K % 16",),
        ("M % BLOCK == 64",),
        ("M % 4 == 1", "M % 8 == 2"),
        ("M % 8 == 0", "M % 4 == 1"),
        ("M % 4 == 1", "M % 8 == 0"),
        ("M % 16 == 9", "M < 9"),
        ("M >= 10", "M % 16 == 9", "M < 25"),
        ("M % 16 == 9", "M == 8"),
    ],
)
def test_remainders_that_no_size_has_are_named(conditions: tuple[str, ...]) -> None:
    assert narrowed(*conditions) == parse_expression(conditions[-1])


def test_condition_that_the_one_size_does_not_meet_is_named() -> None:
    assert narrowed("M % 3 != 0", "M == 9") == parse_expression("M % 3 != 0")
    assert narrowed("M == 9", "M * M <= 80") == parse_expression("M * M <= 80")


@pytest.mark.parametrize("condition", ["K % 16 != 0", "K % 16 == 8", "K % 16 >= 8", "K % 64 < 1", "M % 8 == 1"])
def test_remainders_that_some_size_has_are_allowed(condition: str) -> None:
    assert narrowed(condition) == DIMS


@pytest.mark.parametrize(
    ("conditions", "by", "expected"),
    [
        (["M <= 64"], ["M < 33", "K > 0"], True),
        (["M <= 64", "K % 16 == 0"], ["M == 1", "K % 32 == 0"], True),
        (["K % 8 == 0"], ["M >= 1"], True),  # K says so itself
        (["M * K <= 64"], ["M * K <= 64", "M >= 1"], True),
        (["M <= 64"], ["M <= 65"], False),
        (["M * K <= 64"], ["M * K <= 32"], False),
    ],
)
def test_implication(conditions: list[str], by: list[str], expected: bool) -> None:
    assert are_implied(map(parse_expression, conditions), [*map(parse_expression, by)], DIMS, VALUES) is expected


PARTS = st.builds(
    "M {} {}".format,
    st.sampled_from(["<", "<=", ">", ">=", "==", "% 3 ==", "% 4 ==", "% 4 !=", "% 6 >", "% 6 <"]),
    st.integers(0, 12),
)


@given(st.lists(PARTS, max_size=4), st.integers(0, 20))
def test_a_size_that_meets_all_conditions_keeps_all_promises(conditions: list[str], size: int) -> None:
    parsed = [parse_expression(condition) for condition in conditions]
    dims = narrowed_dims(DIMS, parsed, {})
    if not all(condition.evaluate({"M": size}) for condition in parsed):
        return
    assert isinstance(dims, dict)
    m = dims["M"]
    assert size % m.multiple_of == 0 and m.min <= size and (m.max is None or size <= m.max)
    assert m.value in (None, size)

"""What inputs are meant to hold: what is drawn holds it, and what does not is named by its first element."""

from __future__ import annotations

from dataclasses import asdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from wavespec.tune.held_numbers import Held, draw, problem

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def drawn(held: Held, shape: tuple[int, ...], dtype: torch.dtype, **how: bool) -> torch.Tensor:
    return draw(held, shape, dtype, torch.Generator().manual_seed(1), **how)


@settings(max_examples=60, deadline=None)
@given(some.data())
def test_what_is_drawn_is_held(data: some.DataObject) -> None:
    dtype = data.draw(some.sampled_from((*FLOATS, *WHOLE)))
    shape = tuple(data.draw(some.lists(some.integers(0, 5), min_size=1, max_size=3)))
    number = some.integers(0 if dtype is torch.uint8 else -100, 100)
    if dtype.is_floating_point:
        number = number | some.floats(-50, 50, width=32)
    ends = sorted(data.draw(some.lists(number, min_size=2, max_size=2)))
    least, most = data.draw(some.sampled_from(((*ends,), (ends[0], None), (None, ends[1]), (None, None))))
    order = data.draw(some.sampled_from(("", "sorted")))
    held = Held(least, most, order, data.draw(some.integers(0, len(shape) - 1)))
    found = drawn(held, shape, dtype)
    assert found.shape == shape and found.dtype == dtype
    assert problem(held, "x", found) is None
    if order and found.numel():
        ends_held = [found.select(held.axis, place).double() for place in (0, -1)]
        for end, (bound, held_there) in enumerate(zip(held.limits(dtype), ends_held, strict=True)):
            is_over = end == 0 and shape[held.axis] == 1 and most is not None
            assert bound is None or is_over or bool((held_there == bound).all())


def test_numbers_reach_from_bound_to_bound() -> None:
    assert set(drawn(Held(-1, 2), (200,), torch.int32).tolist()) == {-1, 0, 1, 2}
    even = drawn(Held(0.5, 2), (4000,), torch.float32)
    assert even.min() < 0.51 and even.max() > 1.99 and abs(even.mean() - 1.25) < 0.03
    assert set(drawn(Held(-1, 2), (200,), torch.float16, whole=True).tolist()) == {-1, 0, 1, 2}


@pytest.mark.parametrize("axis", [0, 1])
def test_permutations_have_every_place_once(axis: int) -> None:
    held = Held(order="permutation", axis=axis)
    found = drawn(held, (7, 5), torch.int64)
    places = torch.arange(found.shape[axis])
    assert bool((found.sort(axis).values.movedim(axis, -1) == places).all()) and problem(held, "p", found) is None


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE])
def test_distinct_numbers_are_there_once(dtype: torch.dtype, axis: int) -> None:
    """Also where normal numbers of a small type, or integers of a few, would be there several times."""
    for held in (Held(order="distinct", axis=axis), Held(0, 120, "distinct", axis), Held(None, 9, "distinct", axis)):
        shape = (60, 3) if axis == 0 else (3, 60)
        if dtype is torch.uint8 and held.most == 9:
            continue  # has ten numbers
        found = drawn(held, shape, dtype)
        assert found.dtype == dtype and found.shape == shape and problem(held, "x", found) is None
        ordered = found.movedim(axis, -1).double().sort(-1).values
        assert bool((ordered.diff() > 0).all()) and not torch.equal(ordered, found.movedim(axis, -1).double())


def test_numbers_that_are_not_distinct_are_told() -> None:
    held = Held(order="distinct", axis=1)
    assert problem(held, "x", torch.tensor([[1.5, 2.0], [0.0, -0.0]])) == (
        "x[1, 1] = -0, as x[1, 0] is, which makes them not distinct"
    )
    few = Held(0, 3, "distinct", 0)
    assert "are not from 0 to 3" in str(problem(few, "x", drawn(few, (9,), torch.int32)))
    assert drawn(Held(order="distinct"), (0,), torch.float32).shape == (0,)


def test_distinct_whole_numbers_are_whole() -> None:
    found = drawn(Held(order="distinct"), (50,), torch.float32, whole=True)
    assert torch.equal(found, found.round()) and len(found.unique()) == 50


@pytest.mark.parametrize("dtype", FLOATS[:4])
def test_matrices_are_positive_definite(dtype: torch.dtype) -> None:
    held = Held(matrix=(2, 0))
    found = drawn(held, (40, 3, 40), dtype)
    assert problem(held, "a", found) is None
    assert torch.linalg.eigvalsh(found.double().movedim((2, 0), (-2, -1))).min() > 0.5


@pytest.mark.parametrize(
    ("held", "numbers", "expected"),
    [
        (Held(0, 19), [3, -1, 20], "2 of 3 elements of 'x' are not from 0 to 19, the first is x[1] = -1"),
        (Held(least=0.5), [0.5, float("nan")], "1 of 2 elements of 'x' are not at least 0.5, the first is x[1] = nan"),
        (Held(most=2), [[1, 2], [3, 1]], "1 of 4 elements of 'x' are not at most 2, the first is x[1, 0] = 3"),
        (Held(order="sorted", axis=0), [[1, 5], [2, 4]], "x[1, 1] = 4, less than x[0, 1] = 5 before it"),
        (Held(order="permutation"), [0, 3, 1], "1 of 3 elements of 'x' are not from 0 to 2, the first is x[1] = 3"),
        (Held(order="permutation"), [2, 0, 2], "x[2] = 2, as x[0] is, which makes no permutation"),
        (Held(matrix=(0, 1)), [[1.0, 2], [3, 1]], "x[0, 1] = 2.0, and x[1, 0] = 3.0, which makes no symmetric matrix"),
        (Held(matrix=(0, 1)), [[1.0, 2], [2, 1]], "the matrix that ends at x[1, 1] is not positive definite"),
        (Held(matrix=(0, 2)), [[[1.0, 0]], [[0, -1]]], "the matrix that ends at x[1, 0, 1] is not positive definite"),
    ],
)
def test_the_first_element_that_is_something_else_is_named(held: Held, numbers: list[object], expected: str) -> None:
    assert problem(held, "x", torch.tensor(numbers)) == expected


def test_bounds_are_rounded_to_the_type() -> None:
    third = drawn(Held(1 / 3, 1 / 3), (5,), torch.bfloat16)
    assert problem(Held(1 / 3, 1 / 3), "x", third) is None and problem(Held(0.34, 1), "x", third) is not None


def test_bounds_that_nothing_is_between_are_told() -> None:
    found = drawn(Held(0, -1), (4,), torch.int32)
    assert problem(Held(0, -1), "x", found) == "4 of 4 elements of 'x' are not from 0 to -1, the first is x[0] = 0"


def test_plans_of_bundles_have_it_as_plain_data() -> None:
    held = Held(0, 4, "sorted", 1)
    assert Held(**asdict(held)) == held


def test_codes_that_may_be_any_are_not_looked_at() -> None:
    """`torch` has no conversion of pairs of codes of 4 bits, of which all are numbers."""
    codes = draw(Held(), (4, 8), torch.float4_e2m1fn_x2, torch.Generator())
    assert problem(Held(), "x", codes) is None

"""The case that a call belongs to is the one that its conditions say, tree by tree; what they share is computed once."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import pytest

from wavespec.runtime import first_case
from wavespec.runtime.first_case import FirstCase
from wavespec.runtime.size_expr import OPERATIONS, SizeExpr, evaluate

NAMES = ("M", "N", "K")


def drawn(numbers: random.Random, depth: int) -> SizeExpr:
    if depth == 0 or numbers.random() < 0.2:
        return numbers.choice((*NAMES, 0, 1, 2, 3, 64, 128))
    return (numbers.choice([*OPERATIONS]), drawn(numbers, depth - 1), drawn(numbers, depth - 1))


def by_trees(cases: Sequence[Sequence[SizeExpr]], sizes: Mapping[str, int]) -> int:
    def holds(condition: SizeExpr) -> bool:
        try:
            return bool(evaluate(condition, sizes))
        except ArithmeticError:
            return False

    return next((at for at, conditions in enumerate(cases) if all(map(holds, conditions))), len(cases))


@pytest.mark.parametrize("seed", range(40))
def test_the_case_is_that_of_trees_also_where_divisions_have_no_result(seed: int) -> None:
    numbers = random.Random(seed)
    shared = [drawn(numbers, 3) for _ in range(4)]

    def condition() -> SizeExpr:
        return (numbers.choice(("le", "eq", "ne", "mod", "div")), numbers.choice(shared), drawn(numbers, 2))

    cases = [[condition() for _ in range(numbers.randint(1, 3))] for _ in range(8)]
    first = FirstCase(cases)
    for _ in range(60):
        sizes = {name: numbers.choice((0, 1, 2, 7, 64, 1000)) for name in NAMES}
        assert first(sizes) == by_trees(cases, sizes), (cases, sizes)


def test_what_conditions_share_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[int, int]] = []

    def product(left: int, right: int) -> int:
        taken.append((left, right))
        return left * right

    operations: dict[str, Callable[[int, int], int]] = {**OPERATIONS, "mul": product}
    monkeypatch.setattr(first_case, "OPERATIONS", operations)
    time: SizeExpr = ("mul", ("mul", "M", "N"), 3)
    same: SizeExpr = ("mul", ("mul", "M", "N"), 3)
    first = FirstCase([[("le", time, 10)], [("le", same, 100)], [("le", ("mul", "K", "K"), 1)]])
    assert first({"M": 4, "N": 5, "K": 6}) == 1
    assert taken == [(4, 5), (20, 3)], "and nothing of later cases"


def test_a_name_without_a_size_is_an_error() -> None:
    with pytest.raises(KeyError):
        FirstCase([[("le", "M", 1)]])({"N": 3})


def test_no_case_is_the_kernel_for_all_sizes() -> None:
    assert FirstCase([])({}) == 0
    assert FirstCase([[0]])({}) == 1
    assert FirstCase([[]])({}) == 0


def test_conditions_that_neighbours_share_are_looked_at_once_and_count_for_each() -> None:
    """Where one does not hold, no case with it is taken; where it does, what comes behind it decides."""
    rows, columns, few = ("gt", "M", 0), ("gt", "N", 0), ("le", "M", 4)
    first = FirstCase([[rows, columns, few], [rows, columns], [rows, few], [rows], [columns, few], []])
    taken = {(m, n): first({"M": m, "N": n}) for m in (0, 3, 9) for n in (0, 5)}
    assert taken == {(0, 0): 5, (0, 5): 4, (3, 0): 2, (3, 5): 0, (9, 0): 3, (9, 5): 1}

"""What tests take decides when they run: quick ones every time, at least a case of most, nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from tests.rungs import SECONDS, main, mark_by_seconds, often, recorded_seconds

CASES = 40
Marked = Callable[..., list[set[str]]]


class Case:
    """As much of a `pytest.Item` as rungs look at."""

    def __init__(self, number: int, marks: Iterable[str]) -> None:
        self.nodeid, self.marks = f"tests/test_a.py::test_it[{number}]", {*marks}

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None

    def add_marker(self, name: str) -> None:
        self.marks.add(name)


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> Marked:
    """The marks of the cases of a test that take so many seconds each, in their order."""

    def of(seconds: float, *marks: str, cases: int = CASES) -> list[set[str]]:
        items = [Case(number, marks) for number in range(cases)]
        monkeypatch.setattr("tests.rungs.recorded_seconds", lambda: {"tests/test_a.py::test_it": seconds})
        mark_by_seconds(cast(list[pytest.Item], items))
        return [item.marks for item in items]

    return of


def count(marks: list[set[str]], name: str) -> int:
    return sum(name in one for one in marks)


def test_what_no_table_has_runs_every_time(marked: Marked) -> None:
    assert marked(0.0) == [set()] * CASES


@pytest.mark.parametrize(("seconds", "slow", "rare", "long"), [
    (0.01, 0, 0, 0),
    (0.1, 35, 33, 10),
    (0.5, 40, 39, 34),
    (3.0, 40, 40, 39),
    (30.0, 40, 40, 40),
])  # fmt: skip
def test_as_many_cases_run_as_there_is_time_for(
    marked: Marked, seconds: float, slow: int, rare: int, long: int
) -> None:
    marks = marked(seconds)
    assert (count(marks, "slow"), count(marks, "rare"), count(marks, "long")) == (slow, rare, long)


@pytest.mark.parametrize("seconds", [0.01, 0.1, 0.3, 0.5, 1.0, 3.0, 30.0])
def test_each_rung_has_what_the_one_before_has(marked: Marked, seconds: float) -> None:
    for one in marked(seconds):
        assert "rare" in one or "long" not in one
        assert "slow" in one or "rare" not in one


def test_cases_that_run_are_from_everywhere(marked: Marked) -> None:
    runs = [place for place, one in enumerate(marked(0.1)) if "rare" not in one]
    assert runs[0] == 0 and runs[-1] > CASES * 3 / 4
    assert max(after - before for before, after in pairwise(runs)) <= CASES / 4


def test_a_single_case_that_is_asked_for_is_there(marked: Marked) -> None:
    assert marked(1.0, cases=1) == [{"slow"}]


def test_what_is_marked_rare_comes_behind_the_others(marked: Marked) -> None:
    marks = marked(0.3, "rare")
    assert count(marks, "rare") == CASES
    assert count(marks, "long") == CASES - 10


def test_always_means_each_case(marked: Marked) -> None:
    assert marked(3.0, "always") == [{"always", "slow"}] * CASES


def test_always_may_be_where_rare_tests_run(marked: Marked) -> None:
    assert marked(3.0, "always", "rare") == [{"always", "rare", "slow"}] * CASES


def test_cases_that_are_chosen_have_the_marks() -> None:
    chosen, other = often([1, (2, "two")], {1}, pytest.mark.always)
    assert [mark.name for mark in chosen.marks] == ["always"]
    assert (other.values, [mark.name for mark in other.marks]) == ((2, "two"), ["rare"])


def test_the_table_is_written_of_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.rungs.SECONDS", tmp_path / "seconds.txt")
    case = '<testcase classname="tests.cpu.test_a" name="{}" time="{}">{}</testcase>'
    first = [("test_b[x]", 1.0, ""), ("test_b[y]", 3.0, ""), ("test_c", 0.001, ""), ("test_d", 9.0, "<skipped/>")]
    for name, rows in (("1.xml", first), ("2.xml", [("test_b[x]", 5.0, ""), ("test_e", 0.5, "")])):
        (tmp_path / name).write_text(f"<testsuites>{''.join(case.format(*row) for row in rows)}</testsuites>")
    main([str(tmp_path / "1.xml"), str(tmp_path / "2.xml")])
    assert recorded_seconds() == {"tests/cpu/test_a.py::test_b": 2.0, "tests/cpu/test_a.py::test_e": 0.5}


def test_files_of_the_table_are_there() -> None:
    root = SECONDS.parents[1]
    assert not [test for test in recorded_seconds() if not (root / test.partition("::")[0]).is_file()], (
        "write it anew: CONTRIBUTING.md says how"
    )

"""Which cases of a test run when: by what they take, which `seconds.txt` remembers.

    every time      what takes moments, up to a second of each test; every kernel on every target
    rare            up to some seconds of each test; CI runs them, the README's command does not
    long            everything

A test that the table does not have takes no time, so that new ones run every time.

``python -m tests.rungs REPORT...`` writes the table anew, of what ``pytest --junitxml`` reported on a machine with
nothing else to do.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

SECONDS = Path(__file__).with_name("seconds.txt")

QUICK, QUICK_IN_ALL = 0.12, 0.6
"""Seconds of a case, and of all cases of a test, that are not `slow`; the first case counts for nothing."""
OFTEN, OFTEN_IN_ALL = 1.0, 0.75
"""Of what runs every time; else it is `rare`."""
RARE, RARE_IN_ALL = 20.0, 3.0
"""Of what CI runs; else it is `long`."""
_WORTH_A_LINE = 0.05


def often(
    values: Iterable[Any], chosen: Container[Any] | Callable[[Any], bool], *marks: pytest.MarkDecorator
) -> list[Any]:
    """The values as parameters, those that are not chosen for rare tests; a tuple is one for each name.

    Args:
        marks: of those that are chosen.
    """
    is_chosen: Callable[[Any], bool] = chosen if callable(chosen) else chosen.__contains__
    return [_parameters(value, marks if is_chosen(value) else (pytest.mark.rare,)) for value in values]


def _parameters(value: Any, marks: tuple[pytest.MarkDecorator, ...]) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=marks)


def mark_by_seconds(items: Iterable[pytest.Item]) -> None:
    """Mark what is `slow`, `rare` and `long`; what is marked `always` is rare only where it says so, and never long."""
    seconds = recorded_seconds()
    tests = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        tests[_test_of(item.nodeid)].append(item)
    for test, cases in tests.items():
        for number, item in enumerate(_spread(cases)):
            for mark in _marks(item, number, seconds.get(test, 0.0)):
                item.add_marker(mark)


def _marks(item: pytest.Item, before: int, seconds: float) -> Iterator[str]:
    """The marks of a case that takes so many seconds, with so many of its test before it."""

    def fits(one: float, in_all: float) -> bool:
        return seconds <= one and (before == 0 or (before + 1) * seconds <= in_all)

    if not fits(QUICK, QUICK_IN_ALL):
        yield "slow"
    if item.get_closest_marker("always") is not None:
        return
    is_rare = item.get_closest_marker("rare") is not None
    if not is_rare and not fits(OFTEN, OFTEN_IN_ALL):
        is_rare = True
        yield "rare"
    if is_rare and not fits(RARE, RARE_IN_ALL):
        yield "long"


def _spread(cases: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The same cases, any few of the first from everywhere in the list; those marked `rare` come last."""
    golden = (5**0.5 - 1) / 2
    places = sorted(range(len(cases)), key=lambda place: place * golden % 1)
    return sorted((cases[place] for place in places), key=lambda item: item.get_closest_marker("rare") is not None)


def _test_of(node: str) -> str:
    return node.partition("[")[0]


def recorded_seconds() -> dict[str, float]:
    """By test, what one case of it takes."""
    lines = SECONDS.read_text().splitlines()
    return {test: float(seconds) for seconds, _, test in (line.partition(" ") for line in lines)}


def _reported(files: Iterable[Path]) -> dict[str, float]:
    """The same, by reports; the least of several, as what comes first in a process pays for what others use too."""
    found: dict[str, float] = {}
    for file in files:
        total, count = Counter[str](), Counter[str]()
        for case in ElementTree.parse(file).getroot().iter("testcase"):
            if case.find("skipped") is None and case.get("classname"):
                test = _test_of(f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}")
                total[test] += float(case.attrib["time"])
                count[test] += 1
        found |= {test: min(total[test] / count[test], found.get(test, math.inf)) for test in total}
    return found


def main(reports: Sequence[str]) -> None:
    """Write the table."""
    found = _reported(map(Path, reports))
    rows = sorted(test for test, seconds in found.items() if seconds >= _WORTH_A_LINE)
    SECONDS.write_text("".join(f"{found[test]:.2f} {test}\n" for test in rows))


if __name__ == "__main__":
    main(sys.argv[1:])

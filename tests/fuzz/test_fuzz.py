"""Short searches: random specs are computed right everywhere, broken ones give diagnostics; same seeds every time."""

from __future__ import annotations

from tests.fuzz.search import search


def test_random_specs_are_computed_right() -> None:
    outcomes = search(2026, lambda number: number < 20)
    assert outcomes.failures == []
    assert outcomes.counts["right"] > 14, str(outcomes)


def test_broken_texts_give_diagnostics() -> None:
    outcomes = search(2026, lambda number: number < 600, broken=True)
    assert outcomes.failures == []
    assert outcomes.counts["accepted"] > 10 and outcomes.counts["diagnosed"] > 300, str(outcomes)

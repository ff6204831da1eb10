"""Short searches: random specs are computed right everywhere, broken ones give diagnostics; same seeds every time."""

from __future__ import annotations

import resource
from random import Random

import pytest

from tests.fuzz.broken_texts import FOLDER
from tests.fuzz.judge_planned import failure
from tests.fuzz.mutations import mutated_spec
from tests.fuzz.planned import planned_spec
from tests.fuzz.search import search, search_mutations
from tests.fuzz.search_variations import search_variations
from tests.rungs import often
from wavespec.cache import CompileCache
from wavespec.check_builds import check_builds
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import best_variant, build
from wavespec.schema import KernelSpec, loads
from wavespec.schema.resolve import targets_of


@pytest.mark.parametrize("count", often((8, 20), [8]))
def test_random_specs_are_computed_right(count: int) -> None:
    outcomes = search(2026, lambda number: number < count)
    assert outcomes.failures == []
    assert outcomes.counts["right"] > count * 2 // 3, str(outcomes)


@pytest.mark.parametrize("count", often((150, 600), [150]))
def test_broken_texts_give_diagnostics(count: int) -> None:
    outcomes = search(2026, lambda number: number < count, broken=True)
    assert outcomes.failures == []
    assert outcomes.counts["accepted"] >= count // 60 and outcomes.counts["diagnosed"] > count // 2, str(outcomes)


@pytest.mark.parametrize("count", often((25, 100), [25]))
def test_specs_with_nodes_changed_build_or_give_diagnostics(count: int) -> None:
    limit = resource.getrlimit(resource.RLIMIT_AS)
    outcomes, found = search_mutations(2026, lambda number: number < count, chunk=count)
    assert resource.getrlimit(resource.RLIMIT_AS) == limit, "tests behind this one get less memory"
    assert not found.texts, found.texts
    assert outcomes.counts["builds"] >= count // 20 and outcomes.counts["diagnosed"] > count // 5, str(outcomes)


@pytest.mark.rare
def test_valid_variations_are_computed_right() -> None:
    """On a CPU and a simulated GPU alike; the second one also as machine code of AMD, where its emulator is there."""
    summary = search_variations(2028, lambda number: number < 2)
    assert summary.findings == []
    assert summary.compared == 2 and summary.calls.total() >= 12, str(summary)


@pytest.mark.rare
def test_what_check_passes_builds() -> None:
    """Configurations that the language accepts: of those without a finding, some are compiled."""
    drawn = [spec for number in range(150) if (spec := _accepted(mutated_spec(Random(number)))) is not None]
    found = check_builds(drawn, cache=CompileCache(enabled=False))
    passed = [spec for spec, problems in zip(drawn, found, strict=True) if not problems]
    assert len(passed) > 8
    for spec in passed[::4]:
        if "cpu" in targets_of(spec):
            assert build(spec, "cpu", only=best_variant("cpu")).binaries


def _accepted(text: str) -> KernelSpec | None:
    try:
        return loads(text, "drawn", directory=FOLDER)
    except WavespecError:
        return None


@pytest.mark.parametrize("count", often((2, 12), [2]))
def test_specs_without_tiles_build_and_are_right(count: int) -> None:
    """All cases of the plans for each target build; calls are right in the simulator of GPUs."""
    failures = [failure(planned_spec(Random(7000 + number))) for number in range(count)]
    assert not any(failures), "\n".join(filter(None, failures))

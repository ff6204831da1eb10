"""From measurements to the tuned file: what wins, what stays of an earlier file, whose results are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import SMALL
from wavespec.diagnostics import WavespecError
from wavespec.schema import KernelSpec, load, loads
from wavespec.schema.cases import cases_for_target
from wavespec.schema.load import load_untuned
from wavespec.tune.results import Results
from wavespec.tune.winners import ResultsOfAnother, check_results, tuned_text, winners

SPEC = loads(SMALL)
FEW, MANY = ["M > 0", "M <= 16"], ["M > 16", "M <= 512"]


def settings(block: int) -> dict[str, Any]:
    return {"params": {"BLOCK_M": block}}


def results(*measured: dict[str, list[float]], when: tuple[list[str], ...] = (FEW, MANY)) -> Results:
    """Per workload: candidate "cN" has tiles of 12 * N; its times are those of rounds 0, 1, 2 ..."""
    workloads: list[dict[str, Any]] = []
    measurements: list[dict[str, Any]] = []
    for index, times in enumerate(measured):
        candidates = [
            {"name": name, "words": name, "settings": None if name == "untuned" else settings(12 * int(name[1:]))}
            for name in times
        ]
        sizes = {"M": 8 ** (index + 1), "N": 64, "K": 64}
        workloads.append({"sizes": sizes, "when": when[index], "candidates": candidates})
        measurements += [
            {"workload": index, "candidate": name, "round": number, "microseconds": time}
            for name, rounds in times.items()
            for number, time in enumerate(rounds)
        ]
    data = {"kernel": "small", "target": "cpu", "digest": "d", "machine": "a machine", "workloads": workloads}
    return Results(Path("results.json"), {**data, "measurements": measurements})


def blocks(text: str, folder: Path) -> list[str]:
    """BLOCK_M of every case that the spec has with this tuned file."""
    (folder / "pyproject.toml").touch()
    (folder / "small.wave.yaml").write_text(SMALL)
    (folder / "small.tuned.yaml").write_text(text)
    return [str(case.spec.params["BLOCK_M"]) for case in cases_for_target(load(folder / "small.wave.yaml"), "cpu")]


def written(found: Results, spec: KernelSpec = SPEC) -> str:
    text = tuned_text(spec, "cpu", winners(found), None)
    assert text is not None
    return text


def test_smallest_median_of_the_final_rounds_wins(tmp_path: Path) -> None:
    found = results({"untuned": [50, 50], "c1": [10, 31, 30], "c2": [12, 29, 28], "c3": [5]})
    assert [(w.words, w.microseconds, w.untuned) for w in winners(found)] == [("c3", 5, 50)]
    found = results({"untuned": [50, 50], "c1": [10, 31, 30], "c2": [12, 29, 28]})
    assert [(w.words, w.microseconds) for w in winners(found)] == [("c2", 28)]
    assert blocks(written(found), tmp_path) == ["24", "24"]


def test_candidate_with_a_problem_does_not_win() -> None:
    found = results({"untuned": [50], "c1": [10]})
    found.data["measurements"].append({"workload": 0, "candidate": "c1", "problem": "wrong result"})
    assert [w.words for w in winners(found)] == ["untuned"]


def test_little_gain_is_no_case() -> None:
    found = results({"untuned": [50.5], "c1": [50]}, {"untuned": [50], "c1": [40]})
    assert [w.entry is None for w in winners(found)] == [True, False]
    assert "M <= 16" not in written(found) and "M <= 512" in written(found)


def test_nothing_gained_anywhere_is_no_file() -> None:
    assert tuned_text(SPEC, "cpu", winners(results({"untuned": [50], "c1": [60]})), None) is None


def test_file_says_what_was_measured(tmp_path: Path) -> None:
    text = written(results({"untuned": [50], "c1": [40]}))
    assert blocks(text, tmp_path) == ["12", "24"]
    _, tuned = load_untuned(tmp_path / "small.wave.yaml")
    assert tuned is not None
    measured = tuned.targets["cpu"][0].measured
    timing = measured.timings[0]
    assert (measured.machine, timing.sizes["M"], timing.tuned, timing.untuned) == ("a machine", 8, 40, 50)


def test_earlier_entries_stay_for_their_own_sizes_and_targets(tmp_path: Path) -> None:
    blocks(written(results({"untuned": [50], "c1": [40]}, {"untuned": [50], "c3": [40]})), tmp_path)
    _, earlier = load_untuned(tmp_path / "small.wave.yaml")
    found = results({"untuned": [50], "c4": [40]}, when=(MANY,))
    text = tuned_text(SPEC, "cpu", winners(found), earlier)
    assert text is not None and blocks(text, tmp_path) == ["48", "12", "24"]
    other = tuned_text(SPEC, "gfx942", winners(found), earlier)
    assert other is not None and blocks(other, tmp_path) == ["12", "36", "24"]


def test_range_in_which_the_spec_wins_loses_its_entry(tmp_path: Path) -> None:
    blocks(written(results({"untuned": [50], "c1": [40]})), tmp_path)
    _, earlier = load_untuned(tmp_path / "small.wave.yaml")
    assert tuned_text(SPEC, "cpu", winners(results({"untuned": [30], "c1": [40]})), earlier) is None


def test_edited_results_are_checked_like_a_file_of_a_user() -> None:
    found = results({"untuned": [50], "c1": [40]})
    found.data["workloads"][0]["candidates"][1]["settings"] = {"parms": {}}
    with pytest.raises(WavespecError, match="unknown-field"):
        tuned_text(SPEC, "cpu", winners(found), None)


@pytest.mark.parametrize(
    ("kernel", "target", "digest", "problem"),
    [
        ("big", "cpu", "d", "results for the kernel 'small', not 'big'"),
        ("small", "sm_90", "d", "results for the target 'cpu', not 'sm_90'"),
        ("small", "cpu", "e", "another version of small"),
    ],
)
def test_results_of_something_else_are_refused(kernel: str, target: str, digest: str, problem: str) -> None:
    with pytest.raises(ResultsOfAnother, match=problem):
        check_results(results({"untuned": [1]}), kernel, target, digest)

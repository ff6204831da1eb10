"""Measuring in one process: rounds, what counts as right, and going on after an interruption."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.tune.bundles import write_bundle
from wavespec.tune import bench
from wavespec.tune.judge import accuracy_of
from wavespec.tune.results import FINAL_ROUNDS, Results, load_results


@pytest.fixture(autouse=True)
def _kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "Kernel", bench.Kernel)  # the bundles of these tests replace it


def measured(folder: Path, seconds: float = 60) -> Results:
    bench.bench(folder, seconds)
    return load_results(folder / "results.json")


def test_candidate_may_round_as_the_spec_itself_does(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path, ["untuned", "c1", "wrong"])
    reference = (folder / "reference.py").read_text()
    # As if torch did not round at all: no kernel can be within twice of that.
    (folder / "reference.py").write_text(reference.replace("return a @ b.T", "return exact_0(a, b)"))
    results = measured(folder)
    assert set(results.finalists(0)) == {"untuned", "c1"} and results.problem(0, "wrong")


def test_torch_is_taken_to_err_by_one_unit_in_the_last_place() -> None:
    """Where few numbers are compared, torch is often exact by luck: docs/decisions/0007."""
    truth = torch.tensor([1.0, 1.5], dtype=torch.float64)
    rounded, unit = truth.float(), 2.0**-23
    for error, ok in ((0.0, True), (2.0, True), (4.0, False)):
        output = rounded + torch.tensor([error * unit, 0])
        assert accuracy_of([output], [truth], [rounded]).ok is ok
    whole = torch.tensor([3])
    assert not accuracy_of([whole], [whole + 1], [whole + 1]).ok


def test_best_are_measured_again_in_turns(tmp_path: Path) -> None:
    results = measured(write_bundle(tmp_path, ["untuned", "c1"]))
    finals = [entry["round"] for entry in results.data["measurements"] if entry["round"]]
    assert finals == [number for number in range(1, FINAL_ROUNDS + 1) for _ in range(2)]
    assert "threads" in results.data["machine"]


def test_second_run_goes_on_where_the_first_stopped(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path, ["untuned", "c1"])
    first = measured(folder)
    kept = first.data["measurements"][:3]
    (folder / "results.json").write_text(json.dumps({**first.data, "measurements": kept}))
    second = measured(folder)
    assert second.data["measurements"][:3] == kept
    assert len(second.data["measurements"]) == len(first.data["measurements"])
    assert measured(folder).data["measurements"] == second.data["measurements"]  # nothing is left to do


def test_without_time_nothing_is_measured(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path, ["untuned", "c1"])
    bench.bench(folder, 0)
    assert not (folder / "results.json").exists()


def test_what_is_not_finite_has_to_be_the_same() -> None:
    nan, inf = torch.nan, torch.inf
    truth = torch.tensor([1.0, nan, inf, -inf, 1e300], dtype=torch.float64)
    rounded = truth.float()  # the last is too large
    assert accuracy_of([torch.tensor([1.0, nan, inf, -inf, 3.0])], [truth], [rounded]).error == 0
    for wrong in ([nan, nan, inf, -inf], [1.0, 2.0, inf, -inf], [1.0, nan, -inf, -inf], [1.0, nan, inf, 0.0]):
        found = accuracy_of([torch.tensor([*wrong, inf])], [truth], [rounded])
        assert found.error == inf and not found.ok

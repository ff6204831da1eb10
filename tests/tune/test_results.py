"""The file of results: taken over for the same plan, refused where it is something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tune.bundles import write_bundle
from wavespec.tune.results import ResultsError, load_results, start_or_resume


def test_results_of_another_plan_are_not_taken_over(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path, ["untuned"])
    other = json.loads((folder / "plan.json").read_text())
    other["measurements"] = [{"workload": 0, "candidate": "untuned", "round": 0, "microseconds": 1.0}]
    (folder / "results.json").write_text(json.dumps({**other, "key": "another"}))
    assert start_or_resume(folder).data["measurements"] == []
    (folder / "results.json").write_text(json.dumps(other))
    assert start_or_resume(folder).data["measurements"] == other["measurements"]


CHANGES: list[dict[str, Any]] = [
    {"format": 1},
    {"kernel": 3},
    {"workloads": [{}]},
    {"measurements": [{"workload": 1, "candidate": "untuned", "problem": ""}]},
    {"measurements": [{"workload": 0, "candidate": "c9", "round": 0, "microseconds": 1.0}]},
    {"measurements": [{"workload": 0, "candidate": "untuned", "round": 0, "microseconds": "fast"}]},
]


@pytest.mark.parametrize("change", CHANGES)
def test_file_that_is_no_results_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = write_bundle(tmp_path, ["untuned"])
    plan = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps(plan | change))
    with pytest.raises(ResultsError):
        load_results(folder / "plan.json")

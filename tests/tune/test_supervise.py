"""Processes that measure: each candidate gets its figure or its problem, whatever it does to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tune.bundles import write_bundle
from wavespec.tune.supervise import BenchFailed, main, supervise


def test_problems_are_kept_and_the_others_are_timed(tmp_path: Path) -> None:
    lines: list[str] = []
    results = supervise(write_bundle(tmp_path, ["untuned", "dies", "wrong", "raises", "c1"]), 60, lines.append)
    assert results.problem(0, "dies") == "the process died (SIGSEGV)"
    assert results.problem(0, "raises") == "RuntimeError: out of paper"
    assert (results.problem(0, "wrong") or "").startswith("wrong result: error 1")
    assert all((results.best(0, name) or 0) > 0 for name in ("untuned", "c1"))
    assert set(results.finalists(0)) == {"untuned", "c1"}
    assert any(line.startswith("M=8 N=16 K=24, settings c1: ") and line.endswith(" us") for line in lines)


def test_bundle_that_cannot_start_says_why(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path, ["untuned"])
    (folder / "reference.py").write_text("raise ImportError('no torch here')\n")
    with pytest.raises(BenchFailed, match="no torch here"):
        supervise(folder, 60, print)


def test_command_of_a_bundle_reports_a_missing_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--folder", str(tmp_path)]) == 1
    assert "plan.json cannot be read" in capsys.readouterr().err

"""Compiling candidates in processes: problems are kept, dead workers are replaced, finished work is left alone."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.cli.command import SMALL
from wavespec.tune import compile_pool
from wavespec.tune.compile_pool import CompileJob, CompilePool

FAKE_WORKER = """\
import json, sys, pathlib
for line in sys.stdin:
    job = json.loads(line)
    if job["spec"] == "die":
        sys.exit(3)
    if job["spec"] == "hang":
        import time
        time.sleep(60)
    pathlib.Path(job["output"]).write_text(job["spec"])
    print(json.dumps({"problem": None}), flush=True)
"""


def jobs(folder: Path, *specs: str) -> list[CompileJob]:
    return [CompileJob(spec, "cpu", ("x86_64_v3",), folder / f"{index}.wavespec") for index, spec in enumerate(specs)]


def run(todo: list[CompileJob], seconds: float = 60, seconds_per_job: float = 60) -> dict[str, str | None]:
    found: dict[str, str | None] = {}

    def done(job: CompileJob, problem: str | None) -> None:
        found[job.output.stem] = problem

    CompilePool(2, seconds_per_job=seconds_per_job).run(todo, time.monotonic() + seconds, done)
    return found


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "worker.py"
    script.write_text(FAKE_WORKER)
    monkeypatch.setattr(compile_pool, "_COMMAND", (sys.executable, str(script)))


def test_kernel_or_its_problem_is_left_in_a_file(tmp_path: Path) -> None:
    good, bad = jobs(tmp_path, SMALL, SMALL.replace("tile: 32, axis: 1", "tile: 0, axis: 1"))
    found = run([good, bad])
    assert found["0"] is None and good.output.exists()
    assert (found["1"] or "").startswith("tile-out-of-range: ") and bad.problem_file.read_text() == found["1"]


@pytest.mark.usefixtures("fake")
def test_dead_worker_costs_one_candidate(tmp_path: Path) -> None:
    found = run(jobs(tmp_path, "a", "die", "b", "c", "die"))
    assert [found[name] for name in "023"] == [None] * 3
    assert all("the compiler ended with code 3" in (found[name] or "") for name in "14")


@pytest.mark.usefixtures("fake")
def test_worker_that_hangs_is_ended(tmp_path: Path) -> None:
    found = run(jobs(tmp_path, "hang", "a"), seconds_per_job=0.5)
    assert found["1"] is None and "compiler-died" in (found["0"] or "")


@pytest.mark.usefixtures("fake")
def test_finished_work_is_left_alone_and_none_begins_after_the_end(tmp_path: Path) -> None:
    first, second, third = jobs(tmp_path, "a", "b", "c")
    first.output.write_text("kept")
    second.problem_file.write_text("kept")
    assert run([first, second, third]) == {"2": None}
    assert first.output.read_text() == "kept" and not second.output.exists()
    third.output.unlink()
    assert run([third], seconds=-1) == {}

"""`wavespec tune`: here, on another machine and back, interrupted, and what it says to mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.cli.command import Command
from tests.ops.mapped_kernels import product
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.tune import bundle
from wavespec.tune.bench import bench
from wavespec.tune.results import PLAN
from wavespec.tune.supervise import BenchFailed

SIZES = "M=8,N=48,K=32"

# Everything of the compiler, and wavespec outside of the bundle, is as good as not installed.
BARE = """\
import sys
class Bare:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pydantic", "pydantic_core", "yaml", "sympy", "typer", "rich") or name == "iree.compiler":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Bare())
"""


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "_MOST_CANDIDATES", 2)


def figures(path: Path, times: dict[str, float]) -> None:
    """Put a time for each candidate into a file of results."""
    data = json.loads(path.read_text())
    data["machine"] = "another machine"
    data["measurements"] = [
        {"workload": 0, "candidate": name, "round": 0, "microseconds": time} for name, time in times.items()
    ]
    path.write_text(json.dumps(data))


def test_bundle_runs_with_torch_alone_and_its_results_come_back(wavespec: Command, small: Path, tmp_path: Path) -> None:
    made = wavespec("tune", small, "--workload", SIZES, "--bundle", "packed")
    assert made.code == 0 and "run 'python run.py' in it" in made.out
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "sitecustomize.py").write_text(BARE)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "bare")}
    moved = Path("packed").rename(tmp_path / "elsewhere")
    ran = subprocess.run(
        [sys.executable, moved / "run.py", "--budget", "60"], env=environment, cwd="/", capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == str(moved / "results.json") and " us" in ran.stderr
    measured = json.loads((moved / "results.json").read_text())["measurements"]
    assert {entry["candidate"] for entry in measured} == {"untuned", "c1", "c2"}
    assert not [entry for entry in measured if "problem" in entry and "wrong" not in entry["problem"]]

    figures(moved / "results.json", {"untuned": 30.0, "c1": 20.0, "c2": 15.0})
    back = wavespec("tune", small, "--results", moved / "results.json")
    assert back.code == 0 and "15.0 us" in back.out and "2.00 x as fast as untuned" in back.out
    assert "another machine" in small.with_name("small.tuned.yaml").read_text()
    assert wavespec("check", small).code == 0
    assert "symbol M in 5..16 by 1\nsymbol N in 25..96 by 16" in wavespec("show", small, "--case", "0").out

    small.write_text(small.read_text().replace("BLOCK_M: 24", "BLOCK_M: 48"))
    late = wavespec("tune", small, "--results", moved / "results.json")
    assert late.code == 2 and "error[results-of-another]" in late.err


def test_interrupted_run_says_how_to_go_on_and_does(
    wavespec: Command, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("wavespec.tune.supervise.supervise", interrupted)
        first = wavespec("tune", small, "--workload", SIZES, "--budget", "90")
    assert first.code == 130 and "compiled 3 candidates" in first.err
    assert "the same command with --resume goes on" in first.err
    second = wavespec("tune", small, "--workload", SIZES, "--budget", "60", "--resume", "--json")
    assert second.code == 0 and "compiled 0 candidates" in second.err and " us" in second.err
    assert second.data["results"][0]["sizes"] == {"M": 8, "N": 48, "K": 32}


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["--target", "tpu"], 2, "unknown-target"),
        (["--workload", "M=8"], 2, "missing-size"),
        (["--workload", "M=8,N=8,K=9"], 2, "bad-size"),
        (["--workload", "M=8,N=8,L=8"], 2, "unknown-dim"),
        (["--workload", SIZES, "--workload", "M=0,N=8,K=8"], 2, "empty-workload"),
        (["--bundle", "x", "--results", "y"], 2, "conflicting-options"),
        (["--results", "missing.json"], 2, "bad-results"),
        (["--target", "sm_90"], 1, "no-device"),
        (["--bundle", "."], 2, "conflicting-options"),
    ],
)
def test_mistake_is_an_error(wavespec: Command, small: Path, arguments: list[str], code: int, problem: str) -> None:
    result = wavespec("tune", small, *arguments)
    assert (result.code, f"error[{problem}]" in result.err) == (code, True), result.err
    assert list(Path().glob("*.tuned.yaml")) == []


def test_empty_workloads_of_the_spec_are_left_out(wavespec: Command, small: Path) -> None:
    text = small.read_text()
    small.write_text(text.replace("{M: 40, N: 24, K: 64}", "{M: 0, N: 24, K: 64}"))
    result = wavespec("tune", small, "--bundle", "packed")
    assert result.code == 2
    assert "small.wave.yaml:28:" in result.err and "error[empty-workload]: With 'M' of 0" in result.err
    small.write_text(text + "  - {M: 40, N: 24, K: 0}\n")
    result = wavespec("tune", small, "--bundle", "packed", "--json")
    assert result.code == 0 and "note: 1 workload with a size of 0 left out" in result.err
    plan = json.loads((Path("packed") / PLAN).read_text())
    assert [workload["sizes"] for workload in plan["workloads"]] == [{"M": 40, "N": 24, "K": 64}]


def test_what_does_not_compile_or_start_is_an_error(
    wavespec: Command, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(bundle.CompilePool, "run", nothing)
    result = wavespec("tune", small, "--workload", SIZES)
    assert result.code == 1 and "error[nothing-compiles]: There was no time to compile" in result.err

    def fails(*_: object) -> None:
        raise BenchFailed("no torch here")

    monkeypatch.setattr("wavespec.tune.bundle.write_bundle", nothing)
    monkeypatch.setattr("wavespec.tune.supervise.supervise", fails)
    result = wavespec("tune", small, "--workload", SIZES)
    assert result.code == 1 and "error[measuring-failed]: small: no torch here." in result.err


def test_file_that_is_not_called_like_a_spec_is_refused(wavespec: Command, small: Path) -> None:
    other = small.rename("small.yaml")
    result = wavespec("tune", other, "--workload", SIZES)
    assert result.code == 2 and "error[no-tuned-file]" in result.err


def test_integers_that_are_places_are_drawn_as_places(wavespec: Command) -> None:
    Path("rows.wave.yaml").write_text(dump_yaml(product("{T: row}", "{}")))
    made = wavespec("tune", "rows.wave.yaml", "--workload", "M=40,N=32,K=32,T=300", "--bundle", "packed")
    assert made.code == 0, made.err
    reference = Path("packed", "reference.py")
    keeping = "def exact_0(*inputs, plain=exact_0):\n    torch.save(inputs[1], 'rows.pt')\n    return plain(*inputs)\n"
    reference.write_text(reference.read_text() + keeping)
    bench(Path("packed"), 60)
    rows = torch.load("rows.pt")
    assert rows.min() >= 0 and 127 < rows.max() < 300

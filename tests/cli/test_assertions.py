"""`wavespec run` and `--simulate` of a graph with `assert`: what does not hold, where, and the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.schema.test_assertions import GATHER
from wavespec.targets.names import TARGETS

WRONG, RIGHT = ("values: {min: 0, max: V}", "values: {min: 0, max: V - 1}")


def spec(folder: Path, values: str) -> Path:
    path = folder / "gather.wave.yaml"
    text = GATHER.replace("dtype: i32}", f"dtype: i32, {values}}}") + "workloads: [{T: 64, V: 10, D: 32}]\n"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("target", TARGETS)
def test_the_simulator_looks_at_them_on_every_target(wavespec: Command, tmp_path: Path, target: str) -> None:
    result = wavespec("run", spec(tmp_path, WRONG), "--simulate", "--target", target)
    assert result.code == 1 and "simulated, T=64 V=10 D=32: UNSAFE" in result.out
    assert "gather.wave.yaml:15:14: error[assertion-failed]: 'inside' does not hold for" in result.err
    assert "Its message: 'tokens are rows of the table'." in result.err and "failed_1" not in result.out + result.err
    result = wavespec("run", spec(tmp_path, RIGHT), "--simulate", "--target", target)
    assert result.code == 0 and result.out.endswith("found          nothing\n")


@pytest.mark.compiles
def test_a_run_on_this_machine_looks_at_them(wavespec: Command, tmp_path: Path) -> None:
    result = wavespec("run", spec(tmp_path, WRONG), "--repeats", "1")
    assert result.code == 1 and "gather on cpu, T=64 V=10 D=32: FAILED" in result.out
    assert "'inside' does not hold for" in result.err and "of 64 elements, the first at T = " in result.err
    data = wavespec("run", spec(tmp_path, WRONG), "--repeats", "1", "--json").data
    (row,) = data["results"]
    assert not data["ok"] and row["verdict"] == "FAILED" and row["assertions"][0]["code"] == "assertion-failed"
    result = wavespec("run", spec(tmp_path, RIGHT), "--repeats", "1")
    assert result.code == 0 and "gather on cpu, T=64 V=10 D=32: ok" in result.out

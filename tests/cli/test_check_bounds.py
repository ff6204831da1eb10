"""`wavespec run --check-bounds`: which access is outside of which tensor, where, and the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Command
from wavespec.targets.names import TARGETS

LOOKUP = """\
apiVersion: wavespec/v1
kind: Kernel
name: lookup
dims: {T: {}, V: {}, D: {}}
tensors:
  token: {shape: [T], dtype: i32, values: {min: 0, max: V}}
  table: {shape: [V, D], dtype: f32}
  y: {shape: [T, D], dtype: f32, role: output}
constraints:
  - {workgroup: T, tile: 8, axis: 0}
  - {workgroup: D, tile: 64, axis: 1}
graph:
  - row: {read: token}
  - values: {read: table, dims: [T, D], at: {V: row}}
  - {write: values, to: y}
workloads: [{T: 64, V: 10, D: 32}]
"""


def spec(folder: Path, text: str = LOOKUP) -> Path:
    path = folder / "lookup.wave.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("target", TARGETS)
def test_the_simulator_tells_for_every_target(wavespec: Command, tmp_path: Path, target: str) -> None:
    result = wavespec("run", spec(tmp_path), "--simulate", "--target", target, "--check-bounds")
    assert result.code == 1 and "simulated, T=64 V=10 D=32: UNSAFE" in result.out
    assert "lookup.wave.yaml:14:49: error[outside-of-tensor]: 'table' is read outside of 'V' for 11 of" in result.err
    assert "the first at T = 0: 'row' is 10, and there are 10." in result.err
    assert "1 checked, 1 of them outside" in result.out
    result = wavespec("run", spec(tmp_path), "--simulate", "--target", target)
    assert result.code == 0 and "outside" not in result.out + result.err


def test_places_of_indices_alone_may_be_padding(wavespec: Command, tmp_path: Path) -> None:
    text = LOOKUP.replace("at: {V: row}", "at: {V: T + row * 0}").replace("row * 0", "1")
    result = wavespec(
        "run", spec(tmp_path, text), "--simulate", "--check-bounds", "--dim", "T=8", "--dim", "V=8", "--dim", "D=4"
    )
    assert result.code == 0 and "warning[outside-of-tensor]: 'table' is read outside of 'V' for 1 of 8" in result.err
    assert "the first at T = 7: 'T + 1' is 8, and there are 8." in result.err
    assert "padding, if that is meant." in result.err


@pytest.mark.compiles
def test_a_run_on_this_machine_tells(wavespec: Command, tmp_path: Path) -> None:
    result = wavespec("run", spec(tmp_path), "--repeats", "1", "--check-bounds")
    assert result.code == 1 and "lookup on cpu, T=64 V=10 D=32: FAILED" in result.out
    assert "the first at T = 0: 'row' is 10, and there are 10." in result.err
    right = spec(tmp_path, LOOKUP.replace("max: V}", "max: V - 1}"))
    data = wavespec("run", right, "--repeats", "1", "--check-bounds", "--json").data
    (row,) = data["results"]
    assert data["ok"] and row["bounds"] == {"checked": 1, "outside": 0, "unchecked": 0}

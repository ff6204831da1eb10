"""Workgroups that send each other something in every round have two places for it, and two signals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wavespec.ir.kernel import Kernel
from wavespec.lower import sends_in_turn
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.findings import SimulationReport
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

FEW = replace(machines("sm_90")[0], processors=2, clusters={2: 1})
SPEC = """\
apiVersion: wavespec/v1
kind: Kernel
name: scaled
dims: {M: {}, N: {multiple_of: 4}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 1, axis: 0}
  - {tiling: N, tile: 256}
  - {wave: N, tile: 128}
graph:
  - none: {register: [M], dtype: f32, value: 0}
  - rows:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - total: {sum: part, dim: N, init: total}
  - results:
      iterate: N
      carry: {}
      body:
        - again: {read: x}
        - result: again * rows.total
        - {write: result, to: y}
schedule: {workgroups: {split: 2, PERSISTENT}}
"""
X = np.arange(5 * 512, dtype=np.float32).reshape(5, 512) % 7


def kernel(persistent: str = "persistent: true") -> Kernel:
    return lower(loads(SPEC.replace("PERSISTENT", persistent), "scaled.wave.yaml"), FEW)


def report(of: Kernel) -> SimulationReport:
    return simulate(of, FEW, {"x": X}, {"M": 5, "N": 512})


def test_five_rows_by_one_cluster_are_right_without_a_race() -> None:
    found = report(kernel())
    assert found.ok, found.render()
    np.testing.assert_allclose(found.tensors["y"], X * X.sum(1, keepdims=True), rtol=1e-6)


def test_there_are_two_places_and_two_signals_where_there_was_one() -> None:
    once, staying = kernel("resident: 1"), kernel()
    signals = [one.name for one in once.memories if one.space == "signal"]
    (received,) = {op["memory"] for op in once.walk() if op.name == "send"}
    assert signals and all(staying.memory(one).buffers == 2 * once.memory(one).buffers for one in signals)
    assert staying.memory(received).elements.value == 2 * once.memory(received).elements.value


def test_one_place_would_be_written_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sends_in_turn, "_PLACES", 1)
    assert not report(kernel()).ok


def test_workgroups_that_send_nothing_stay_as_they_are() -> None:
    alone = kernel("resident: 1")
    assert sends_in_turn.sends_in_turn(replace(alone, body=()), alone.symbols[0]).memories is alone.memories

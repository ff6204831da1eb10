"""An output that a schedule lays out: a kernel behind puts it where it belongs, here and in the simulator."""

from __future__ import annotations

import pytest
import torch

from wavespec.cli.simulate import Simulator
from wavespec.pipeline import compile
from wavespec.schema import loads

SPEC = """apiVersion: wavespec/v1
kind: Kernel
name: doubled
dims: {N: {}, O: {}, H: {min: 1}, W: {min: 1}}
tensors:
  x: {shape: [N, O, H, W], dtype: f32}
  y: {shape: [N, O, H, W], dtype: f32, role: output}
constraints:
  - {workgroup: W, tile: 16, axis: 0}
  - {workgroup: H, tile: 4, axis: 1}
  - {workgroup: O, tile: 8, axis: 2}
  - {workgroup: N, tile: 1, axis: 3}
graph:
  - one: {read: x}
  - both: "one + one"
  - {write: both, to: y}
targets:
  cpu:
    cases:
      - when: [N >= 1]
        schedule: {materialize: {y: [N, H, W, O]}}
"""
SIZES = [(2, 24, 3, 11), (1, 5, 1, 1), (3, 40, 9, 16)]


@pytest.mark.parametrize("sizes", SIZES)
def test_an_output_is_where_it_belongs(sizes: tuple[int, int, int, int]) -> None:
    x = torch.arange(float(torch.tensor(sizes).prod())).reshape(sizes)
    assert torch.equal(compile(loads(SPEC, "doubled.wave.yaml"))(x), 2 * x)


def test_the_simulator_has_it_there_too() -> None:
    sizes, x = {"N": 1, "O": 9, "H": 2, "W": 5}, torch.arange(90.0).reshape(1, 9, 2, 5)
    (y,), found = Simulator(loads(SPEC, "doubled.wave.yaml"), "cpu", {}).call(sizes, [x])
    assert torch.equal(y, 2 * x) and not found

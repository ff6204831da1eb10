"""Elements of tensors as numbers: `dims: []` with places that are written out, sizes, and values."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import tensors_of
from wavespec.pipeline import compile, emit
from wavespec.schema import loads
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.targets.machine import machines

SPEC = """\
apiVersion: wavespec/v1
kind: Kernel
name: elements
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M], dtype: f32}
  n: {shape: [N], dtype: i64}
  y: {shape: [M], dtype: f32, role: output}
  last: {shape: [], dtype: i64, role: output}
constraints: [{workgroup: M, tile: 64, axis: 0}]
graph:
  - start: {read: x}
  - many: {read: n, dims: [], at: {N: 1}}
  - end: {read: n, dims: [], at: {N: size(N) - 1}}
  - there: {read: n, dims: [], at: {N: many}}
  - steps:
      repeat: many
      carry: {acc: start}
      body:
        - one: {read: n, dims: [], at: {N: many}}
        - acc: acc + f32(one)
  - {write: steps.acc, to: y}
  - both: there + end
  - {write: both, to: last}
"""


def test_an_element_is_a_number() -> None:
    spec = loads(SPEC, "elements.wave.yaml")
    assert loads(dump_yaml(spec)) == spec
    x, n = torch.arange(100).float(), torch.tensor([5, 2, 7, 2**40])
    y, last = tensors_of(compile(spec)(x, n))
    assert torch.equal(y, x + 14)
    assert last == 7 + 2**40


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_an_element_is_a_number_on_gpus(target: str) -> None:
    assert "@elements" in emit(loads(SPEC, "elements.wave.yaml"), machines(target)[0]).text

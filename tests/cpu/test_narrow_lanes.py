"""Products by lanes whose waves have fewer columns than a vector has elements: an instruction of as many is taken."""

from __future__ import annotations

import pytest
import torch

from wavespec.pipeline import best_variant, build
from wavespec.runtime import KernelArtifact
from wavespec.runtime.kernel import Kernel
from wavespec.schema import loads
from wavespec.targets.machine import Machine, variants

SPEC = """
apiVersion: wavespec/v1
kind: Kernel
name: narrow
dims: {M: {}, N: {}, K: {}}
tensors:
  a: {shape: [M, K], dtype: bf16, space: global}
  b: {shape: [K, N], dtype: bf16, space: global}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 8, axis: 1}
  - {workgroup: N, tile: 8, axis: 0}
  - {tiling: K, tile: 16}
  - {wave: N, tile: 8}
  - {hardware: {mma: lanes}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
  - {write: k_loop.acc, to: c}
"""


MACHINES = [machine for machine in variants("cpu") if any(row.name == "lanes_bf16" for row in machine.instructions)]
HERE = best_variant("cpu")


def kernel_of(columns: int, machine: Machine) -> KernelArtifact:
    return build(loads(SPEC.replace("N, tile: 8", f"N, tile: {columns}"), "narrow.wave.yaml"), "cpu", only=machine)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.variant)
def test_waves_of_few_columns_are_built(machine: Machine) -> None:
    """Whatever machine this is."""
    assert kernel_of(8, machine).binaries


@pytest.mark.skipif(HERE not in MACHINES, reason="this processor multiplies no bf16 by lanes")
@pytest.mark.parametrize("columns", [4, 8, 32])
def test_waves_of_few_columns_multiply_bf16_by_lanes(columns: int) -> None:
    kernel = Kernel(kernel_of(columns, HERE))
    for m, n, k in ((7, 9, 33), (8, 64, 64), (1, 5, 2)):
        a, b = (torch.randint(-3, 4, shape).bfloat16() for shape in ((m, k), (k, n)))
        assert torch.equal(kernel(a, b), a.float() @ b.float())

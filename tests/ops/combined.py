"""Small kernels that combine values with what tensors hold, and their runs in the simulator and on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tests.kernels import tensor_to_array
from wavespec.pipeline import lower
from wavespec.runtime.checks import DTYPES
from wavespec.schema import KernelSpec, loads
from wavespec.sim.findings import SimulationReport
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

SIZES = {"M": 11, "N": 70, "V": 3}


@dataclass(frozen=True, slots=True)
class Combined:
    """Four ways to meet: rows go where a value says, several to one; a row of values, a number, and the sum of the rows
    are in more workgroups, waves and lanes than one."""

    combine: str = "add"
    dtype: str = "f32"
    index: str = "i32"
    workgroups: str = "[{workgroup: M, tile: 4, axis: 0}, {workgroup: N, tile: 32, axis: 1}, {wave: M, tile: 1}]"

    @property
    def spec(self) -> KernelSpec:
        """The checked spec."""
        return loads(self.text, "combined.wave.yaml")

    @property
    def text(self) -> str:
        """The spec."""
        return f"""apiVersion: wavespec/v1
kind: Kernel
name: combined
dims: {{M: {{}}, N: {{}}, V: {{}}, O: {{value: 1}}}}
tensors:
  y: {{shape: [V, N], dtype: {self.dtype}, role: inout}}
  each: {{shape: [M], dtype: {self.dtype}, role: inout}}
  count: {{shape: [], dtype: {self.dtype}, role: inout}}
  every: {{shape: [O], dtype: {self.dtype}, role: inout}}
  x: {{shape: [M, N], dtype: {self.dtype}}}
  row: {{shape: [M], dtype: {self.index}}}
  more: {{shape: [M], dtype: {self.dtype}}}
  number: {{shape: [], dtype: {self.dtype}}}
constraints: {self.workgroups}
graph:
  - place: {{read: row}}
  - values: {{read: x}}
  - part: {{read: more}}
  - one: {{read: number}}
  - {{write: values, to: y, at: {{V: place}}, combine: {self.combine}}}
  - {{write: part, to: each, combine: {self.combine}}}
  - {{write: one, to: count, combine: {self.combine}}}
  - {{write: part, to: every, at: {{O: 0}}, combine: {self.combine}}}
"""


def inputs_of(spec: KernelSpec, sizes: Mapping[str, int]) -> list[Tensor]:
    """Whole numbers; places from one in front of the tensor to one behind it."""
    random, sizes = torch.Generator().manual_seed(sum(sizes.values())), {**sizes, "O": 1}
    made: list[Tensor] = []
    for name, tensor in spec.tensors.items():
        low, high = (-1, sizes["V"] + 1) if name == "row" else (-9, 10)
        shape = [sizes[dim] for dim in tensor.shape]
        made.append(torch.randint(low, high, shape, generator=random).to(DTYPES[tensor.dtype]))
    return made


def expected(spec: KernelSpec, inputs: Sequence[Tensor]) -> list[Tensor]:
    """What the tensors that are changed hold behind the call, in their types."""
    found = reference(spec, *inputs)
    updated = [tensor for tensor in spec.tensors.values() if tensor.role == "inout"]
    return [one.to(DTYPES[tensor.dtype]) for one, tensor in zip(found, updated, strict=True)]


def simulated(
    spec: KernelSpec, machine: Machine, inputs: Sequence[Tensor], sizes: Mapping[str, int]
) -> SimulationReport:
    arrays = {
        name: tensor_to_array(tensor, spec.tensors[name].dtype)
        for name, tensor in zip(spec.tensors, inputs, strict=True)
    }
    return simulate(lower(spec, machine), machine, arrays, {**sizes, "O": 1})


def assert_exact(spec: KernelSpec, machine: Machine, sizes: Mapping[str, int] = SIZES) -> None:
    """The simulator finds nothing wrong, and what the reference has."""
    inputs = inputs_of(spec, sizes)
    report = simulated(spec, machine, inputs, sizes)
    assert report.ok, report.render()
    updated = [name for name, tensor in spec.tensors.items() if tensor.role == "inout"]
    for name, exact in zip(updated, expected(spec, inputs), strict=True):
        np.testing.assert_array_equal(report.tensors[name], tensor_to_array(exact, spec.tensors[name].dtype), name)

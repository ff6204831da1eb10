"""Small kernels with `atomic`, what a call of them writes, and whether some order of the elements explains that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.kernels import array_to_tensor, tensor_to_array
from wavespec.pipeline import lower
from wavespec.runtime.checks import DTYPES
from wavespec.schema import KernelSpec, loads
from wavespec.schema.old_values import Observed, with_old_values
from wavespec.sim.findings import SimulationReport
from wavespec.sim.reference import explain
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

SIZES = {"M": 11, "N": 70, "V": 3}
ROWS = "[{workgroup: M, tile: 4, axis: 0}, {tiling: N, tile: 32}, {wave: M, tile: 1}]"
WORKGROUPS = {
    "rows": ROWS,
    "alone": "[{workgroup: M, tile: 16, axis: 0}, {tiling: N, tile: 8}]",
    "columns": "[{workgroup: M, tile: 2, axis: 0}, {tiling: N, tile: 64}, {wave: N, tile: 16}]",
}


@dataclass(frozen=True, slots=True)
class OldValues:
    """Rows that take a place from a counter, one of V, and go there with what their row has; elements of a matrix whose
    places several of them share."""

    combine: str = "add"
    dtype: str = "i32"
    workgroups: str = ROWS

    @property
    def observed(self) -> Observed:
        return with_old_values(self.spec)

    @property
    def spec(self) -> KernelSpec:
        return loads(self.text, "old_values.wave.yaml")

    @property
    def text(self) -> str:
        swap = self.combine == "compare_and_swap"
        expected, each = (", expected: guess", ", expected: guesses") if swap else ("", "")
        return f"""apiVersion: wavespec/v1
kind: Kernel
name: old_values
dims: {{M: {{}}, N: {{max: 128}}, V: {{}}, P: {{}}}}
tensors:
  counts: {{shape: [V], dtype: {self.dtype}, role: inout}}
  table: {{shape: [V, N], dtype: {self.dtype}, role: inout}}
  more: {{shape: [M], dtype: {self.dtype}}}
  known: {{shape: [M], dtype: {self.dtype}}}
  x: {{shape: [M, N], dtype: {self.dtype}}}
  row: {{shape: [M], dtype: i32}}
  places: {{shape: [P], dtype: i32, role: inout}}
  ticket: {{shape: [M], dtype: {self.dtype}, role: output}}
  before: {{shape: [M, N], dtype: {self.dtype}, role: output}}
constraints: {self.workgroups}
graph:
  - into: {{read: row}}
  - part: {{read: more}}
  - guess: {{read: known}}
  - drawn: {{atomic: part, to: counts, at: {{V: into}}, combine: {self.combine}{expected}}}
  - {{write: drawn, to: ticket}}
  - place: i32(drawn)
  - number: {{index: M}}
  - {{write: number, to: places, at: {{P: place}}, combine: max}}
""" + self._matrix(each)

    def _matrix(self, expected: str) -> str:
        body = f"""- values: {{read: x}}
- guesses: {{take: guess, dims: [M, N]}}
- was: {{atomic: values, to: table, at: {{V: into}}, combine: {self.combine}{expected}}}
- {{write: was, to: before}}"""
        if "tiling" not in self.workgroups:
            return "\n".join("  " + line for line in body.split("\n")) + "\n"
        inside = "\n".join("        " + line for line in body.split("\n"))
        return f"  - walk:\n      iterate: N\n      body:\n{inside}\n"


def inputs_of(spec: KernelSpec, sizes: Mapping[str, int]) -> list[Tensor]:
    """Small whole numbers, so that some are expected; places from one in front of the tensor to one behind it."""
    random, sizes = torch.Generator().manual_seed(sum(sizes.values())), {**sizes, "P": 40}
    made: list[Tensor] = []
    for name, tensor in spec.tensors.items():
        if tensor.role != "output":
            low, high = (-1, sizes["V"] + 1) if name == "row" else (0, 4)
            shape = [sizes[dim] for dim in tensor.shape]
            made.append(torch.randint(low, high, shape, generator=random).to(DTYPES[tensor.dtype]))
    return made


def assert_explained(observed: Observed, inputs: Sequence[Tensor], written: Sequence[Tensor]) -> None:
    """Some order of the elements finds what was found, and everything else follows from that."""
    context = explain(observed, inputs, written, {})
    assert not context.impossible, context.impossible
    for name, one in zip(context.computation.written, written, strict=True):
        exact = context.output(name).to(one.dtype)
        torch.testing.assert_close(one, exact, rtol=0, atol=0, msg=lambda text, name=name: f"{name}: {text}")


def simulated(
    spec: KernelSpec, machine: Machine, inputs: Sequence[Tensor], sizes: Mapping[str, int]
) -> tuple[SimulationReport, list[Tensor]]:
    """The report, and what a call writes, in its order."""
    given = [name for name, tensor in spec.tensors.items() if tensor.role != "output"]
    arrays = {
        name: tensor_to_array(tensor, spec.tensors[name].dtype) for name, tensor in zip(given, inputs, strict=True)
    }
    report = simulate(lower(spec, machine), machine, arrays, dict(sizes))
    written = [name for role in ("inout", "output") for name, one in spec.tensors.items() if one.role == role]
    return report, [array_to_tensor(report.tensors[name], spec.tensors[name].dtype) for name in written]

"""Small kernels of index mappings: a graph in, the kernel around it out, and its run in the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from wavespec.ir.dtype import DTYPES
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads, spec_for_target
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.elements import numpy_dtype
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

HEAD = """apiVersion: wavespec/v1
kind: Kernel
name: mapped
"""

COPY = """dims: {{M: {{}}, N: {{}}, V: {{}}}}
params: {{P: 3}}
tensors:
  x: {{shape: [{shape}], dtype: f32}}
  i: {{shape: [M], dtype: {index}}}
  v: {{shape: [V], dtype: f32}}
  y: {{shape: [{result}], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 8, axis: 0}}
  - {{workgroup: N, tile: 32, axis: 1}}
  - {{wave: M, tile: 4}}
graph:
  - row: {{read: i}}
  - value: {{read: x, dims: [M, N], at: {at}}}
  - more: {{read: v, dims: [N], at: {{V: N}}}}
  - result: "value + more + f32(row) * 0"
  - {{write: result, to: y, at: {to}}}
"""

PRODUCT = """dims: {{M: {{}}, N: {{}}, K: {{multiple_of: 8}}, T: {{}}}}
tensors:
  x: {{shape: [T, K], dtype: f16, space: shared}}
  rows: {{shape: [M], dtype: i32}}
  w: {{shape: [K, N], dtype: f16, space: shared}}
  c: {{shape: [M, N], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 64, axis: 0}}
  - {{workgroup: N, tile: 64, axis: 1}}
  - {{tiling: K, tile: 32}}
  - {{wave: M, tile: 32}}
  - {{wave: N, tile: 32}}
graph:
  - zero: {{register: [M, N], dtype: f32, value: 0}}
  - row: {{read: rows}}
  - k_loop:
      iterate: K
      carry: {{acc: zero}}
      body:
        - a: {{read: x, dims: [M, K], at: {at}}}
        - b: {{read: w, dims: [N, K], at: {of_w}}}
        - acc: {{mma: [a, b, acc]}}
  - {{write: k_loop.acc, to: c}}
"""


def copy(at: str, to: str = "{M: M}", *, shape: str = "M, N", result: str = "M, N", index: str = "i32") -> KernelSpec:
    return loads(HEAD + COPY.format(at=at, to=to, shape=shape, result=result, index=index), "mapped.wave.yaml")


def product(at: str, of_w: str) -> KernelSpec:
    return loads(HEAD + PRODUCT.format(at=at, of_w=of_w), "mapped.wave.yaml")


def whole_numbers(spec: KernelSpec, sizes: Mapping[str, int], low: int = -4, high: int = 5) -> list[Tensor]:
    random, sizes = torch.Generator().manual_seed(sum(sizes.values())), complete_sizes(spec, sizes)
    kinds = [tensor for tensor in spec.tensors.values() if tensor.role == "input"]
    shapes = [[sizes[dim] for dim in kind.shape] for kind in kinds]
    made = [torch.randint(low, high, shape, generator=random) for shape in shapes]
    dtypes = {"f32": torch.float32, "f16": torch.float16, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8}
    dtypes["bool"] = torch.bool
    return [tensor.to(dtypes[kind.dtype]) for tensor, kind in zip(made, kinds, strict=True)]


def arrays_of(spec: KernelSpec, tensors: Sequence[Tensor]) -> dict[str, np.ndarray]:
    """What the simulator takes of the inputs of a kernel, by name."""
    names = [name for name, tensor in spec.tensors.items() if tensor.role == "input"]
    return {
        name: tensor.numpy().astype(numpy_dtype(DTYPES[spec.tensors[name].dtype]))
        for name, tensor in zip(names, tensors, strict=True)
    }


def assert_exact(spec: KernelSpec, machine: Machine, sizes: Mapping[str, int], low: int = -4, high: int = 5) -> None:
    """The simulator finds what the reference has, and nothing wrong but for elements that no place reaches."""
    plain, inputs = spec_for_target(spec, machine.target), whole_numbers(spec, sizes, low, high)
    report = simulate(lower(plain, machine), machine, arrays_of(spec, inputs), complete_sizes(spec, sizes))
    wrong = {finding.kind for finding in report.findings}
    assert wrong <= {"unwritten-output"}, report.render()
    (output,) = (name for name, tensor in spec.tensors.items() if tensor.role == "output")
    expected = np.asarray(reference(spec, *inputs))
    written = ~np.isnan(report.tensors[output].astype(np.float64))  # what nothing writes stays as it was made
    np.testing.assert_array_equal(report.tensors[output][written], expected[written])

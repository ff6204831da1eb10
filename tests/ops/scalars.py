"""Kernels with scalars, calls of them, and what each target makes of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from tests.kernels import array_to_tensor, check_error, tensor_to_elements, tensors_of
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.reference import numbers_of_scalars, reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

_HEAD = "apiVersion: wavespec/v1\nkind: Kernel\n"

ADDMM = f"""{_HEAD}
name: addmm_of_test
doc: y = alpha * a · bᵀ + beta * c; torch.addmm.
dims: {{M: {{}}, N: {{}}, K: {{multiple_of: 8}}}}
tensors:
  a: {{shape: [M, K], dtype: f16, space: shared}}
  b: {{shape: [N, K], dtype: f16, space: shared}}
  c: {{shape: [M, N], dtype: f32}}
  y: {{shape: [M, N], dtype: f32, role: output}}
scalars:
  beta: {{dtype: f32, default: 1}}
  alpha: {{dtype: f32, default: 1}}
constraints:
  - {{workgroup: M, tile: 64, axis: 0}}
  - {{workgroup: N, tile: 64, axis: 1}}
  - {{tiling: K, tile: 32}}
  - {{wave: M, tile: 32}}
  - {{wave: N, tile: 32}}
  - {{hardware: {{mma: auto}}}}
graph:
  - zero: {{register: [M, N], dtype: f32, value: 0}}
  - steps:
      iterate: K
      carry: {{acc: zero}}
      body:
        - a_tile: {{read: a}}
        - b_tile: {{read: b}}
        - acc: {{mma: [a_tile, b_tile, acc]}}
  - added: {{read: c}}
  - result: "added * beta + steps.acc * alpha"
  - {{write: result, to: y}}
"""

ATTENTION = f"""{_HEAD}
name: attention_of_test
doc: Attention to the last `window` keys, whose scores are capped.
dims: {{H: {{}}, M: {{}}, N: {{}}, D: {{max: 64}}, E: {{max: 64}}}}
tensors:
  q: {{shape: [H, M, D], dtype: f16, space: shared}}
  k: {{shape: [H, N, D], dtype: f16, space: shared}}
  v: {{shape: [H, N, E], dtype: f16, space: shared}}
  o: {{shape: [H, M, E], dtype: f32, role: output}}
scalars:
  scale: {{dtype: f32, default: "1 / sqrt(max(D, 1))", min: 1e-30, max: 1e+30}}
  soft_cap: {{dtype: f32, default: 30, min: 1e-3}}
  window: {{dtype: i32, default: 64, min: 1, max: 65536}}
  causal: {{dtype: bool, default: true}}
constraints:
  - {{workgroup: M, tile: 64, axis: 0}}
  - {{workgroup: H, tile: 1, axis: 1}}
  - {{workgroup: E, tile: 64, axis: 2}}
  - {{wave: M, tile: 16}}
  - {{tiling: N, tile: 32}}
  - {{tiling: D, tile: 64}}
  - {{hardware: {{mma: auto}}}}
graph:
  - q_tile: {{read: q}}
  - lowest: {{register: [H, M], dtype: f32, value: -.inf}}
  - none: {{register: [H, M], dtype: f32, value: 0}}
  - nothing: {{register: [H, M, E], dtype: f32, value: 0}}
  - keys:
      iterate: N
      start: start(M) - window + 1
      end: N - causal * max(N - end(M), 0)
      carry: {{largest: lowest, total: none, acc: nothing}}
      body:
        - k_tile: {{read: k}}
        - v_tile: {{read: v}}
        - no_scores: {{register: [H, M, N], dtype: f32, value: 0}}
        - products: {{mma: [q_tile, k_tile, no_scores]}}
        - capped: "tanh(products * scale / soft_cap) * soft_cap"
        - behind: "index(M) - index(N)"
        - ahead: {{lt: [behind, 0]}}
        - near: "where(behind < window, capped, -inf)"
        - scores: "where(causal & ahead, -inf, near)"
        - top: {{max: scores, dim: N}}
        - highest: "maximum(maximum(largest, top), -1e30)"
        - shrink: "exp(largest - highest)"
        - power: "exp(scores - highest)"
        - largest: highest
        - part: {{sum: power, dim: N}}
        - total: "total * shrink + part"
        - weight: {{cast: power, dtype: f16}}
        - scaled: "acc * shrink"
        - acc: {{mma: [weight, v_tile, scaled]}}
  - result: "keys.acc / where(keys.total > 0, keys.total, 1)"
  - {{write: result, to: o}}
"""

WINDOW = f"""{_HEAD}
name: window_of_test
doc: y[M, L] = x[M, start + STEP * L] of those that are there, and numbers of every type beside.
dims: {{M: {{}}, N: {{}}, L: {{equals: "max(ceildiv(min(N, stop) - start, step), 0)"}}}}
tensors:
  x: {{shape: [M, N], dtype: f32}}
  y: {{shape: [M, L], dtype: f32, role: output}}
  z: {{shape: [M, L], dtype: f64, role: output}}
scalars:
  start: {{dtype: i32, default: 0, min: 0, max: 1000}}
  stop: {{dtype: i64, default: 9223372036854775807, min: 0}}
  step: {{dtype: i32, default: 1, min: 1, max: 16}}
  wide: {{dtype: f64, default: 0.1}}
  half: {{dtype: f16, default: 0.1}}
  brain: {{dtype: bf16, default: 0.1}}
  large: {{dtype: i64, default: 0}}
  turned: {{dtype: bool, default: false}}
constraints:
  - {{workgroup: M, tile: 4, axis: 1}}
  - {{workgroup: L, tile: 64, axis: 0}}
graph:
  - taken: {{read: x, dims: [M, L], at: {{N: "start + step * L"}}}}
  - result: "where(turned, -taken, taken) + f32(half) + f32(brain)"
  - {{write: result, to: y}}
  - far: "f64(taken) * wide + f64(large)"
  - chosen: {{register: [M, L], dtype: f64, value: 0}}
  - either: {{if: turned == 1, carry: {{it: chosen}}, body: [it: far]}}
  - {{write: either.it, to: z}}
targets:
  cpu: {{cases: [{{when: [step == 1, turned == 0]}}]}}
"""


@dataclass(frozen=True)
class Called:
    """A kernel, sizes of a call, and the scalars that it passes."""

    text: str
    sizes: Mapping[str, int]
    scalars: Mapping[str, bool | int | float] = field(default_factory=dict[str, Any])

    @property
    def spec(self) -> KernelSpec:
        return _spec(self.text)

    @property
    def numbers(self) -> dict[str, bool | int | float]:
        """Of all scalars."""
        return numbers_of_scalars(self.spec, self.sizes, self.scalars)

    @property
    def every_size(self) -> dict[str, int]:
        """With the sizes that follow from others, and with the scalars that some do."""
        whole = {name: int(one) for name, one in self.numbers.items() if not self.spec.scalars[name].is_float}
        return complete_sizes(self.spec, {**whole, **self.sizes})

    def inputs(self) -> tuple[Tensor, ...]:
        """The same every time."""
        random, types = torch.Generator().manual_seed(1), {"f16": torch.float16, "f32": torch.float32}
        tensors = [one for one in self.spec.tensors.values() if one.role == "input"]
        shapes = [tuple(self.sizes[dim] for dim in one.shape) for one in tensors]
        draws = (torch.randn(shape, generator=random) for shape in shapes)
        return tuple(draw.to(types[one.dtype]) for draw, one in zip(draws, tensors, strict=True))

    def simulated(self, machine: Machine) -> tuple[Tensor, ...]:
        """What the lanes of a machine write; asserts that there is no race."""
        case = case_for_sizes(cases_for_target(self.spec, machine.target), self.every_size)
        names = [name for name, tensor in self.spec.tensors.items() if tensor.role == "input"]
        dtypes = [self.spec.tensors[name].dtype for name in names]
        arrays = {n: tensor_to_elements(x, d) for n, d, x in zip(names, dtypes, self.inputs(), strict=True)}
        sizes = {name: self.every_size[name] for name in self.spec.dims}
        report = simulate(lower(case.spec, machine), machine, arrays, sizes, scalars=self.numbers)
        assert not report.findings, report.findings
        outputs = [name for name, tensor in self.spec.tensors.items() if tensor.role == "output"]
        return tuple(array_to_tensor(report.tensors[name], self.spec.tensors[name].dtype) for name in outputs)

    def check(self, results: Sequence[Tensor]) -> None:
        """Assert that `results` are right: at most twice as far off as torch."""
        exact, own = (
            tensors_of(reference(self.spec, *self.inputs(), compute=compute, **self.scalars))
            for compute in (torch.float64, None)
        )
        names = [name for name, tensor in self.spec.tensors.items() if tensor.role == "output"]
        for name, result, right, theirs in zip(names, results, exact, own, strict=True):
            assert result.shape == right.shape, f"{name}: {result.shape}, not {right.shape}"
            check_error(f"{name} of {dict(self.scalars)}", result, right, theirs)


@cache
def _spec(text: str) -> KernelSpec:
    return loads(text, "scalars.wave.yaml")


_PRODUCT, _KEYS, _ROW = {"M": 70, "N": 65, "K": 40}, {"H": 1, "M": 66, "N": 70, "D": 24, "E": 20}, {"M": 5, "N": 70}
CALLS = {
    "addmm": Called(ADDMM, _PRODUCT),
    "addmm of alpha": Called(ADDMM, _PRODUCT, {"alpha": -2.5, "beta": 0.0}),
    "addmm of both": Called(ADDMM, _PRODUCT, {"alpha": 1e-3, "beta": -0.3}),
    "attention": Called(ATTENTION, _KEYS, {"scale": 0.2}),
    "attention by its size": Called(ATTENTION, _KEYS),
    "attention of no size": Called(ATTENTION, {**_KEYS, "D": 0}),
    "attention of few": Called(ATTENTION, _KEYS, {"scale": 0.2, "window": 3, "soft_cap": 0.5}),
    "attention of all": Called(ATTENTION, _KEYS, {"scale": 1.0, "window": 65536, "causal": False}),
    "window": Called(WINDOW, _ROW),
    "window of some": Called(WINDOW, _ROW, {"start": 3, "stop": 50, "step": 4, "half": 6e-8, "turned": True}),
    "window of large": Called(WINDOW, _ROW, {"start": 60, "large": -(2**53), "wide": -1e300, "turned": True}),
    "window of none": Called(WINDOW, _ROW, {"start": 71}),
    "window of signs": Called(WINDOW, _ROW, {"half": -0.0, "brain": -3e38, "wide": float("inf"), "turned": True}),
}

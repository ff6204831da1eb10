"""Products without a word about tiles, by the types and the layouts of their operands."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from wavespec.runtime.checks import DTYPES
from wavespec.schema import KernelSpec, loads
from wavespec.schema.language.dtypes import ACCUMULATORS

LAYOUTS = [(left, right) for left in ("M, K", "K, M") for right in ("N, K", "K, N")]
"""Of the left and the right operand."""


def product(
    dtype: str, left: str = "M, K", right: str = "N, K", result: str = "M, N", *, fixed: Mapping[str, int] | None = None
) -> KernelSpec:
    """``c[m, n] = sum of a[m, k] * b[n, k]``, as it is or with rows for columns; ``fixed``: dims of one size."""
    acc = ACCUMULATORS[dtype]
    turned = "steps.acc" if result == "M, N" else f"{{take: steps.acc, dims: [{result}]}}"
    sizes = fixed or {}
    dims = ", ".join(f"{dim}: {{value: {sizes[dim]}}}" if dim in sizes else f"{dim}: {{}}" for dim in "MNK")
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: product
dims: {{{dims}}}
tensors:
  a: {{shape: [{left}], dtype: {dtype}}}
  b: {{shape: [{right}], dtype: {dtype}}}
  c: {{shape: [{result}], dtype: {acc}, role: output}}
graph:
  - zero: {{register: [M, N], dtype: {acc}, value: 0}}
  - steps:
      iterate: K
      carry: {{acc: zero}}
      body:
        - rows: {{read: a, dims: [M, K]}}
        - columns: {{read: b, dims: [N, K]}}
        - acc: {{mma: [rows, columns, acc]}}
  - made: {turned}
  - {{write: made, to: c}}
"""
    )


def gated(left: str, right: str) -> KernelSpec:
    """Two products of bf16 beside each other."""
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: gated
dims: {{M: {{}}, N: {{}}, K: {{}}}}
tensors:
  a: {{shape: [{left}], dtype: bf16}}
  gate: {{shape: [{right}], dtype: bf16}}
  up: {{shape: [{right}], dtype: bf16}}
  c: {{shape: [M, N], dtype: bf16, role: output}}
graph:
  - zero: {{register: [M, N], dtype: f32, value: 0}}
  - steps:
      iterate: K
      carry: {{first: zero, second: zero}}
      body:
        - rows: {{read: a, dims: [M, K]}}
        - left: {{read: gate, dims: [N, K]}}
        - right: {{read: up, dims: [N, K]}}
        - first: {{mma: [rows, left, first]}}
        - second: {{mma: [rows, right, second]}}
  - made: bf16(steps.first / (1 + exp(-steps.first)) * steps.second)
  - {{write: made, to: c}}
"""
    )


def weights(left: str, right: str) -> KernelSpec:
    """f16 times i8, of which each column has a scale."""
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: weights
dims: {{M: {{}}, N: {{}}, K: {{}}}}
tensors:
  a: {{shape: [{left}], dtype: f16}}
  b: {{shape: [{right}], dtype: i8}}
  scale: {{shape: [N], dtype: f16}}
  c: {{shape: [M, N], dtype: f32, role: output}}
graph:
  - zero: {{register: [M, N], dtype: f32, value: 0}}
  - steps:
      iterate: K
      carry: {{acc: zero}}
      body:
        - rows: {{read: a, dims: [M, K]}}
        - codes: {{read: b, dims: [N, K]}}
        - factor: {{read: scale}}
        - columns: f16(codes) * factor
        - acc: {{mma: [rows, columns, acc]}}
  - {{write: steps.acc, to: c}}
"""
    )


def whole_numbers(spec: KernelSpec, sizes: Mapping[str, int]) -> dict[str, Tensor]:
    """Small ones for every input, so that all sums are exact."""
    random = torch.Generator().manual_seed(0)
    found = dict[str, Tensor]()
    for name, tensor in spec.tensors.items():
        if tensor.role == "input":
            low = 0 if tensor.dtype == "u8" else -4
            made = torch.randint(low, 5, [sizes[dim] for dim in tensor.shape], generator=random)
            found[name] = made.to(DTYPES[tensor.dtype])
    return found


def multiplied(spec: KernelSpec, inputs: Mapping[str, Tensor]) -> Tensor:
    """The results of `product`, as f64."""
    a, b = (inputs[name].double() for name in ("a", "b"))
    a, b = (one if spec.tensors[name].shape[-1] == "K" else one.T for name, one in (("a", a), ("b", b)))
    return a @ b.T if spec.tensors["c"].shape[0] == "M" else b @ a.T

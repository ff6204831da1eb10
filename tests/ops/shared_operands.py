"""Kernels in which products and other operations read the same tile, or products of several instructions do."""

from __future__ import annotations

import torch
from torch import Tensor

from wavespec.schema import KernelSpec, loads


def sums_beside_a_product(space: str) -> KernelSpec:
    """``c = a · bᵀ`` and ``s``, the sums of the rows of a."""
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: both
dims: {{M: {{}}, N: {{}}, K: {{multiple_of: 8}}}}
tensors:
  a: {{shape: [M, K], dtype: f16, space: {space}}}
  b: {{shape: [N, K], dtype: f16, space: {space}}}
  c: {{shape: [M, N], dtype: f32, role: output}}
  s: {{shape: [M], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 64, axis: 0}}
  - {{workgroup: N, tile: 64, axis: 1}}
  - {{tiling: K, tile: 32}}
  - {{wave: M, tile: 32}}
  - {{wave: N, tile: 64}}
graph:
  - zero: {{register: [M, N], dtype: f32, value: 0}}
  - none: {{register: [M], dtype: f32, value: 0}}
  - k_loop:
      iterate: K
      carry: {{acc: zero, sums: none}}
      body:
        - a_tile: {{read: a}}
        - b_tile: {{read: b}}
        - wide: {{cast: a_tile, dtype: f32}}
        - unused: {{cast: b_tile, dtype: bf16}}
        - acc: {{mma: [a_tile, b_tile, acc]}}
        - sums: {{sum: wide, dim: K, init: sums}}
  - {{write: k_loop.acc, to: c}}
  - {{write: k_loop.sums, to: s}}
""",
        "both.wave.yaml",
    )


def operands(m: int, n: int, k: int) -> tuple[Tensor, Tensor]:
    """Small whole numbers."""
    random = torch.Generator().manual_seed(m)
    a, b = (torch.randint(-3, 4, (rows, k), generator=random).half() for rows in (m, n))
    return a, b


def chunked_attention() -> KernelSpec:
    """Causal linear attention in chunks of 32: what came before is carried as the sum of outer products.

    On CPUs the products want q and k as different types; their places are counted by a carried value.
    """
    return loads(
        """apiVersion: wavespec/v1
kind: Kernel
name: linear_attention
dims: {B: {}, T: {}, D: {value: 32}, E: {value: 48}, C: {equals: "ceildiv(T, 32)"}, I: {value: 32}, J: {value: 32}}
tensors:
  q: {shape: [B, T, D], dtype: bf16}
  k: {shape: [B, T, D], dtype: bf16}
  v: {shape: [B, T, E], dtype: bf16}
  o: {shape: [B, T, E], dtype: f32, role: output}
constraints:
  - {workgroup: B, tile: 1, axis: 0}
  - {tiling: C, tile: 1}
graph:
  - nothing: {register: [B, D, E], dtype: f32, value: 0}
  - first: {register: [], dtype: i32, value: 0}
  - chunks:
      iterate: C
      carry: {state: nothing, c: first}
      body:
        - q_tile: {read: q, dims: [B, I, D], at: {T: c * 32 + I}}
        - k_tile: {read: k, dims: [B, J, D], at: {T: c * 32 + J}}
        - v_tile: {read: v, dims: [B, J, E], at: {T: c * 32 + J}}
        - no_scores: {register: [B, I, J], dtype: f32, value: 0}
        - scores: {mma: [q_tile, k_tile, no_scores]}
        - causal: "bf16(where(index(J) <= index(I), scores, 0))"
        - before: bf16(state)
        - no_result: {register: [B, I, E], dtype: f32, value: 0}
        - inside: {mma: [causal, v_tile, no_result]}
        - result: {mma: [q_tile, before, inside]}
        - state: {mma: [k_tile, v_tile, state]}
        - {write: result, to: o, at: {T: c * 32 + I}}
        - c: c + 1
""",
        "linear_attention.wave.yaml",
    )


def queries_keys_values(batches: int, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """-1, 0 and 1, of which all sums are small enough for bf16."""
    random = torch.Generator().manual_seed(steps)
    q, k, v = (torch.randint(-1, 2, (batches, steps, size), generator=random).bfloat16() for size in (32, 32, 48))
    return q, k, v


def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """What `chunked_attention` has to give."""
    return ((q.double() @ k.double().mT).tril() @ v.double()).float()

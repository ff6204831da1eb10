"""Kernels whose shapes have expressions, inputs of every size, and what they are to compute."""

from __future__ import annotations

import torch

UNPACK = """\
apiVersion: wavespec/v1
kind: Kernel
name: unpack
dims: {M: {}, K: {}}
tensors:
  like: {shape: [M, K], dtype: f32}
  w: {shape: [M, K // 2], dtype: i8}
  starts: {shape: [M + 1], dtype: i32}
  y: {shape: [M, K], dtype: f32, role: output}
  z: {shape: [M, "ceildiv(K, 3)"], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
  - {workgroup: K, tile: 32, axis: 1}
graph:
  - scale: {read: like}
  - byte: {read: w, dims: [M, K], at: {K // 2: K // 2}}
  - start: {read: starts, dims: [M], at: {M + 1: M}}
  - end: {read: starts, dims: [M], at: {M + 1: M + 1}}
  - y_tile: "scale * f32(byte) + f32(end - start) + f32(size(K // 2))"
  - {write: y_tile, to: y}
  - z_tile: scale * 2
  - {write: z_tile, to: z, at: {"ceildiv(K, 3)": K // 3 + K % 3 * size(K)}}
"""
"""A dim of an expression is read and written at places."""

HALVES = """\
apiVersion: wavespec/v1
kind: Kernel
name: halves
dims: {M: {}, K: {multiple_of: 2}}
tensors:
  x: {shape: [M, K], dtype: f32}
  w: {shape: [K // 2], dtype: f32}
  p: {shape: [(K + 1) // 2, M], dtype: f32, strides: any}
  y: {shape: [M, K // 2], dtype: f32, role: output}
  z: {shape: [M], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
  - {tiling: K // 2, tile: 8}
graph:
  - zero: {register: [M], dtype: f32, value: 0}
  - steps:
      iterate: K // 2
      carry: {total: zero}
      body:
        - low: {read: x, dims: [M, K // 2], at: {K: size(K // 2) - 1}}
        - weight: {read: w}
        - last: {read: p, dims: [M], at: {(K + 1) // 2: "size((K + 1) // 2) - 1"}}
        - y_tile: "low * weight + f32(index(K // 2)) + last"
        - {write: y_tile, to: y}
        - part: {sum: y_tile, dim: K // 2}
        - total: total + part
  - {write: steps.total, to: z}
targets:
  sm_90: {cases: [{when: ["K // 2 % 4 == 0", "stride(p, (K + 1) // 2) % 4 == 0"]}]}
  gfx942: {cases: [{when: ["K // 2 % 4 == 0", "stride(p, (K + 1) // 2) % 4 == 0"]}]}
"""
"""A dim of an expression is one of tiles, of a loop, and of conditions on sizes and strides."""

SPECS = {"unpack": UNPACK, "halves": HALVES}
SIZES = [(5, 26), (8, 64), (1, 2), (3, 0)]


def inputs(name: str, m: int, k: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(m + k)
    if name == "unpack":
        like, starts = torch.randn(m, k, generator=generator), torch.randint(0, 9, (m + 1,), generator=generator)
        return like, torch.randint(-8, 8, (m, k // 2), generator=generator).to(torch.int8), starts.int()
    x, w = torch.randn(m, k, generator=generator), torch.randn(k // 2, generator=generator)
    return x, w, torch.randn((k + 1) // 2, m, generator=generator)


def expected(name: str, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    m, k = given[0].shape
    if name == "unpack":
        like, w, starts = given
        y = like * w.repeat_interleave(2, dim=1) + (starts[1:] - starts[:-1])[:, None] + k // 2
        return y, like[:, ::3] * 2
    x, w, p = given
    last = p[-1] if len(p) else torch.zeros(m)
    y = x[:, k // 2 - 1 : k // 2] * w + torch.arange(k // 2) + last[:, None]
    return y, y.sum(dim=1)

"""A kernel in several element types for tests: rows times a weight, of any number of leading dims."""

from __future__ import annotations

SCALED = """\
apiVersion: wavespec/v1
kind: Kernel
name: scaled
doc: y[M, N] = x[M, N] * weight[N], and the largest of each row.
dtypes:
  T: [f32, bf16]
  S: accumulator(T)
dims: {M: {fold: leading}, N: {}}
params: {COLUMNS: 4096 // bits(T)}
tensors:
  x: {shape: [M, N], dtype: T}
  weight: {shape: [N], dtype: T}
  bias: {shape: [M], dtype: S}
  y: {shape: [M, N], dtype: T, role: output}
  most: {shape: [M], dtype: T, role: output}
constraints:
  - {workgroup: M, tile: 8, axis: 0}
  - {tiling: N, tile: COLUMNS}
graph:
  - lowest: {register: [M], dtype: T, value: -.inf}
  - offset: {read: bias}
  - rows:
      iterate: N
      carry: {largest: lowest}
      body:
        - part: {read: x}
        - factor: {read: weight}
        - result: "T(S(part) * S(factor) + offset)"
        - largest: {max: part, dim: N, init: largest}
        - {write: result, to: y}
  - {write: rows.largest, to: most}
targets:
  cpu:
    cases:
      - {when: [N % (128 // bits(T)) == 0]}
workloads:
  - {M: 4, N: 128}
"""

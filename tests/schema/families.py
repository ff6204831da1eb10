"""A family for tests: products in two dtypes and two layouts, made of small tiles."""

from __future__ import annotations

PRODUCT = """\
apiVersion: wavespec/v1
kind: Family
name: product
doc: C = A · B, in two layouts.

parameters: {DTYPE: [f16, bf16], LAYOUT: [nt, nn]}
when:
  - DTYPE == 'f16' or LAYOUT == 'nt'
pick: {DTYPE: dtype(a), LAYOUT: keyword(layout)}

template: |
  # Comments of a template stay.
  {% set B = 'N, K' if LAYOUT == 'nt' else 'K, N' %}
  dims: {M: {}, N: {}, K: {multiple_of: 8}}
  tensors:
    a: {shape: [M, K], dtype: {{ DTYPE }}, space: shared}
    b: {shape: [{{ B }}], dtype: {{ DTYPE }}, space: shared}
    c: {shape: [M, N], dtype: f32, role: output}
  constraints:
    {% for dim in ['M', 'N'] %}
    - {workgroup: {{ dim }}, tile: {{ 48 * loop.index }}, axis: {{ loop.index0 }}}
    {% endfor %}
    - {tiling: K, tile: 64}
    - {hardware: {mma: auto}}
  graph:
    - zero: {register: [M, N], dtype: f32, value: 0}
    - loop:
        iterate: K
        carry: {acc: zero}
        body:
          - x: {read: a}
          - y: {read: b}
          - acc: {mma: [x, y, acc]}
    - {write: loop.acc, to: c}
  only: [cpu, gfx942]
  workloads:
    - {M: 50, N: 30, K: 72}
"""

SCORES = """\
apiVersion: wavespec/v1
kind: Family
name: scores
parameters: {HEAD: [64, 128], HALF: [0, 1]}
pick: {HEAD: size(D), HALF: keyword(half)}
template: |
  dims: {M: {}, N: {}, D: {value: {{ HEAD }}}}
  tensors:
    q: {shape: [M, D], dtype: f16, space: shared}
    k: {shape: [N, D], dtype: f16, space: shared}
    s: {shape: [M, N], dtype: f32, role: output}
    t: {shape: [M, N], dtype: {{ 'f16' if HALF == 1 else 'f32' }}, role: output}
  constraints:
    - {workgroup: M, tile: 48, axis: 0}
    - {workgroup: N, tile: 96, axis: 1}
    - {tiling: D, tile: {{ HEAD }}}
    - {hardware: {mma: auto}}
  only: [cpu]
  graph:
    - zero: {register: [M, N], dtype: f32, value: 0}
    - loop:
        iterate: D
        carry: {acc: zero}
        body:
          - x: {read: q}
          - y: {read: k}
          - acc: {mma: [x, y, acc]}
    - {write: loop.acc, to: s}
    {% if HALF == 1 %}
    - half: {cast: loop.acc, dtype: f16}
    - {write: half, to: t}
    {% else %}
    - {write: loop.acc, to: t}
    {% endif %}
"""

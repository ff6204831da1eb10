"""A kernel whose places are divided by the size of a dim that may be empty."""

from __future__ import annotations

from wavespec.schema import KernelSpec, loads


def divided_by_empty(place: str) -> KernelSpec:
    return loads(
        f"""\
apiVersion: wavespec/v1
kind: Kernel
name: divided
dims: {{M: {{}}, K: {{}}}}
tensors:
  d: {{shape: [M], dtype: f32}}
  x: {{shape: [K], dtype: f32}}
  y: {{shape: [K], dtype: f32, role: output}}
constraints:
  - {{workgroup: K, tile: 16, axis: 0}}
  - {{tiling: M, tile: 16}}
graph:
  - value: {{read: x, dims: [K], at: {{K: {place}}}}}
  - zero: {{register: [], dtype: f32, value: 0}}
  - loop:
      iterate: M
      carry: {{total: zero}}
      body:
        - part: {{read: d}}
        - total: {{sum: part, dim: M, init: total}}
  - shifted: value + loop.total
  - {{write: shifted, to: y}}
""",
        "divided.wave.yaml",
    )

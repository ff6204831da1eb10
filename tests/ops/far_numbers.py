"""Numbers of a call that say where elements are, and where loops begin and end, and that may be anything: multiplied,
they are still outside."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from wavespec.schema import KernelSpec, loads

NUMBERS = (1, 3, -2, 2**29, 2**40, 2**60 + 1, 2**61, 2**63 - 1, -(2**63))

_PLACES = """  x: {{shape: [M, N], dtype: f32}}
  y: {{shape: [M, R], dtype: f32, role: output}}
constraints: [{{workgroup: M, tile: 4, axis: 0}}, {{workgroup: R, tile: 32, axis: 1}}]
graph:
  - values: {{read: x, dims: [M, R], at: {{N: {place}}}}}
  - {{write: values, to: y}}
"""
_SUMS = """  x: {{shape: [M, N], dtype: f32}}
  y: {{shape: [M], dtype: f32, role: output}}
constraints: [{{workgroup: M, tile: 4, axis: 0}}, {{tiling: N, tile: 16{tiling}}}]
graph:
  - zero: {{register: [M], dtype: f32, value: 0}}
  - steps:
      iterate: N
{loop}      carry: {{total: zero}}
      body:
        - values: {{read: x}}
        - counted: "where({condition}, values, 0)"
        - total: {{sum: counted, dim: N, init: total}}
  - {{write: steps.total, to: y}}
"""
_WITHIN = "f64(index(N)) < f64(far) * 8"
KERNELS: Mapping[str, str] = {
    "R + far * 8": _PLACES.format(place="R + far * 8"),
    "R * far": _PLACES.format(place="R * far"),
    "far * far + R": _PLACES.format(place="far * far + R"),
    "(R - far) * 4": _PLACES.format(place="(R - far) * 4"),
    "end": _SUMS.format(tiling="", loop="      end: far * 8\n", condition=_WITHIN),
    "start": _SUMS.format(tiling="", loop="      start: far * 8\n", condition="f64(index(N)) >= f64(far) * 8"),
    "count": _SUMS.format(tiling=', count: "max(far, 5)"', loop="", condition="values == values"),
}
"""What makes ``y`` of ``x[M, N]`` and ``far``."""
SIZES = {"M": 5, "N": 70, "R": 70}


def spec_of(name: str) -> KernelSpec:
    dims = "{M: {}, N: {}, R: {equals: N}}" if "R" in name else "{M: {}, N: {}}"
    text = "apiVersion: wavespec/v1\nkind: Kernel\nname: outside\nscalars: {far: {dtype: i64}}\n"
    return loads(f"{text}dims: {dims}\ntensors:\n{KERNELS[name]}", "far.wave.yaml")


def numbers() -> Tensor:
    return torch.arange(1.0, 1 + SIZES["M"] * SIZES["N"]).view(SIZES["M"], SIZES["N"])


def expected(name: str, x: Tensor, far: int) -> Tensor:
    """By whole numbers of Python, which do not wrap."""
    n = x.shape[1]
    places = {
        "R + far * 8": [r + far * 8 for r in range(n)],
        "R * far": [r * far for r in range(n)],
        "far * far + R": [far * far + r for r in range(n)],
        "(R - far) * 4": [(r - far) * 4 for r in range(n)],
    }
    if name in places:
        return torch.stack([x[:, place] if 0 <= place < n else torch.zeros(len(x)) for place in places[name]], 1)
    kept = {"end": range(max(0, min(far * 8, n))), "start": range(max(0, min(far * 8, n)), n), "count": range(n)}[name]
    return x[:, list(kept)].sum(1)

"""Element types of 8 bits and less as results: a spec that writes tensors of one of them, and what it has to give for
every number of the type, those half way between two, and what is next to these."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from wavespec.runtime.artifact import PACKED
from wavespec.runtime.checks import DTYPES
from wavespec.schema import KernelSpec, loads
from wavespec.sim.elements import Array
from wavespec.sim.packed import packed

TYPES = {
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "f6e2m3fn": ml_dtypes.float6_e2m3fn,
    "f6e3m2fn": ml_dtypes.float6_e3m2fn,
    "f4e2m1fn": ml_dtypes.float4_e2m1fn,
    "i4": ml_dtypes.int4,
}
"""With another implementation of each."""
LARGEST = {"f6e2m3fn": 0x1F, "f6e3m2fn": 0x1F, "f4e2m1fn": 0x07}
"""What NaN becomes where there is none."""
_ROW = 24


def small_results(dtype: str) -> KernelSpec:
    """``y = T(x)``, and ``z[0, m, n]``, the same by a write with a mapping."""
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: small_results
dims: {{M: {{}}, N: {{multiple_of: 4}}, C: {{value: 1}}}}
tensors:
  x: {{shape: [M, N], dtype: f32}}
  y: {{shape: [M, N], dtype: {dtype}, role: output}}
  z: {{shape: [C, M, N], dtype: {dtype}, role: output}}
constraints:
  - {{workgroup: M, tile: 8, axis: 0}}
  - {{workgroup: N, tile: 64, axis: 1}}
  - {{wave: M, tile: 4}}
graph:
  - x_tile: {{read: x}}
  - small: {dtype}(x_tile)
  - {{write: small, to: y}}
  - {{write: small, to: z, at: {{C: 0}}}}
""",
        "small_results.wave.yaml",
    )


def hard_numbers(dtype: str) -> Tensor:
    """Rows of them, with both signs, zeros, infinities and NaN."""
    if dtype == "i4":
        return torch.arange(-8, 8).repeat(3).float().view(-1, _ROW)
    codes = np.arange(2 ** {"f4": 4, "f6": 6, "f8": 8}[dtype[:2]], dtype=np.uint8)
    numbers = codes.view(TYPES[dtype]).astype(np.float64)
    numbers = np.sort(np.unique(np.abs(numbers[np.isfinite(numbers)])))
    steps = np.diff(numbers, append=2 * numbers[-1] - numbers[-2])
    halves = (numbers + steps / 2).astype(np.float32)
    few = np.array([0, 1e-30, 3e38, np.inf, np.nan, 1e-10, min(2 * numbers[-1], 1e38), 100], np.float32)
    few = np.concatenate([few, halves, np.nextafter(halves, np.float32(0)), np.nextafter(halves, np.float32(np.inf))])
    few = np.concatenate([few, numbers.astype(np.float32)])
    both = np.concatenate([few, -few])
    return torch.from_numpy(np.resize(both, (-(-both.size // _ROW), _ROW)))


def right_codes(x: Tensor, dtype: str) -> Array:
    """The bits of every element, by another implementation; of f8 it is torch's."""
    if dtype == "i4":
        return (x.to(torch.int8).numpy() & 15).astype(np.uint8)
    if dtype in LARGEST:
        codes = x.numpy().astype(TYPES[dtype]).view(np.uint8)
        return np.where(x.isnan().numpy(), np.uint8(LARGEST[dtype]), codes)
    return x.to(DTYPES[dtype]).view(torch.uint8).numpy()


def right_bytes(x: Tensor, dtype: str) -> Array:
    """What `small_results` has to give: `y`, and the one part of `z`."""
    codes = right_codes(x, dtype)
    return packed(torch.from_numpy(codes), dtype).numpy() if dtype in PACKED else codes

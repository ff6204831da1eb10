"""Element types of 8 bits and less: a spec that reads tensors of one of them, and what it has to give for every code."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from wavespec.runtime.checks import DTYPES
from wavespec.schema import KernelSpec, loads
from wavespec.sim.elements import Array
from wavespec.sim.packed import unpacked_codes

TYPES = {
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "f6e2m3fn": ml_dtypes.float6_e2m3fn,
    "f6e3m2fn": ml_dtypes.float6_e3m2fn,
    "f4e2m1fn": ml_dtypes.float4_e2m1fn,
    "i4": ml_dtypes.int4,
}
"""With another implementation of each."""
OUTPUTS = ("whole", "turned", "staged")
_ROWS, _BYTES = 4, 96


def small_types(dtype: str) -> KernelSpec:
    """``whole[M, N] = f32(x)``, ``turned[M, N] = f32(x[m, (n + 1) % N])``, which reads element by element, and
    ``staged`` is ``whole`` by way of shared memory."""
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: small_types
dims: {{M: {{}}, N: {{multiple_of: 4}}}}
tensors:
  x: {{shape: [M, N], dtype: {dtype}}}
  y: {{shape: [M, N], dtype: {dtype}, space: shared}}
  whole: {{shape: [M, N], dtype: f32, role: output}}
  turned: {{shape: [M, N], dtype: f32, role: output}}
  staged: {{shape: [M, N], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 8, axis: 0}}
  - {{workgroup: N, tile: 64, axis: 1}}
  - {{wave: M, tile: 4}}
graph:
  - x_tile: {{read: x}}
  - next_tile: {{read: x, dims: [M, N], at: {{N: (N + 1) % size(N)}}}}
  - y_tile: {{read: y}}
  - of_whole: f32(x_tile)
  - of_next: f32(next_tile)
  - of_staged: f32(y_tile)
  - {{write: of_whole, to: whole}}
  - {{write: of_next, to: turned}}
  - {{write: of_staged, to: staged}}
""",
        "small_types.wave.yaml",
    )


def every_code(dtype: str) -> Tensor:
    """Rows of all bytes, in an order that brings each code to every place of a byte."""
    order = torch.arange(_ROWS * _BYTES) * 89 % 256
    return order.to(torch.uint8).view(_ROWS, _BYTES).view(DTYPES[dtype])


def expected(x: Tensor, dtype: str) -> dict[str, Array]:
    codes = unpacked_codes(x, dtype) if dtype.startswith(("f4", "f6", "i4")) else x.view(torch.uint8)
    numbers = codes.to(torch.uint8).numpy().view(TYPES[dtype]).astype(np.float32)
    return {"whole": numbers, "turned": np.roll(numbers, -1, axis=1), "staged": numbers}


def check(found: Array, right: Array) -> None:
    """The same numbers, zeros with their signs, and NaN."""
    np.testing.assert_array_equal(found, right)
    number = ~np.isnan(right)
    np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(right[number]))

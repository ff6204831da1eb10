"""Divisions with a rest, of numbers of any exponent: what C makes of them, a kernel that computes them."""

from __future__ import annotations

import numpy as np
import torch

RESTS = ("fmod", "remainder", "floor_divide")
TORCH = {"f32": torch.float32, "f64": torch.float64}
DIGITS = {torch.float32: 23, torch.float64: 52}

SPEC = """apiVersion: wavespec/v1
kind: Kernel
name: rests
dims: {M: {}, N: {value: 64}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, N], dtype: f32}
  a: {shape: [M, N], dtype: f32, role: output}
  b: {shape: [M, N], dtype: f32, role: output}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
graph:
  - left: {read: x}
  - right: {read: y}
  - rest: {fmod: [left, right]}
  - {write: rest, to: a}
  - modulus: {remainder: [left, right]}
  - {write: modulus, to: b}
  - quotient: {floor_divide: [left, right]}
  - {write: quotient, to: c}
"""


def by_c(word: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """What torch computes of the exact rest that C has; torch's vectors have NaN where a quotient is huge."""
    with np.errstate(all="ignore"):
        rest, whole = (torch.tensor(f(x.numpy(), y.numpy())) for f in (np.fmod, np.floor_divide))
    if word == "floor_divide":
        return whole
    return torch.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest) if word == "remainder" else rest


def of_any_exponent(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Random bits: all exponents alike, numbers without a leading digit, infinities and NaNs among them."""
    whole = {torch.float32: torch.int32, torch.float64: torch.int64}[dtype]
    limits = torch.iinfo(whole)
    bits = torch.randint(limits.min, limits.max, (count,), dtype=whole)
    bits[: count // 8] %= 2 ** DIGITS[dtype]
    return bits.view(dtype)


def operands(rows: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers of which no rest is without a leading digit: machines may take those for 0."""
    x, y = of_any_exponent(64 * rows, dtype), of_any_exponent(64 * rows, dtype)
    least = torch.finfo(dtype).tiny * 2.0 ** (DIGITS[dtype] + 1)
    x, y = torch.where(x.abs() < least, 3.0, x), torch.where(y.abs() < least, 3.0, y)
    return x.reshape(rows, 64), y.reshape(rows, 64)


def assert_exact(results: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> None:
    for word, result in results.items():
        torch.testing.assert_close(result, by_c(word, x, y), rtol=0, atol=0, equal_nan=True, msg=word)

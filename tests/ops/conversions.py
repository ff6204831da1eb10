"""Element types in, a spec that converts tensors of one of them, scaled by a number, to all the others out."""

from __future__ import annotations

import torch
from torch import Tensor

from wavespec.runtime.checks import DTYPES
from wavespec.schema import KernelSpec, loads

COMPUTED = ("f64", "f32", "bf16", "f16", "i64", "i32", "i16", "i8", "u8", "bool")
"""Element types that ops on single elements take."""

_NEXT_TENSOR, _NEXT_STATEMENT = "\n  ", "\n  - "


def conversions(dtype: str) -> KernelSpec:
    """``y_T[M, N] = T(x[M, N])`` for every type, the same type by a plain copy; ``only`` as its one number in ``y``."""
    others = [other for other in COMPUTED if other != dtype]
    tensors = [f"y_{other}: {{shape: [M, N], dtype: {other}, role: output}}" for other in COMPUTED]
    statements = [f"c_{other}: {other}(x_tile)" for other in others]
    statements += [f"{{write: c_{other}, to: y_{other}}}" for other in others]
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: conversions
dims: {{M: {{}}, N: {{}}}}
tensors:
  x: {{shape: [M, N], dtype: {dtype}}}
  only: {{shape: [], dtype: {dtype}}}
  y: {{shape: [M, N], dtype: {dtype}, role: output}}
  {_NEXT_TENSOR.join(tensors)}
constraints:
  - {{workgroup: M, tile: 8, axis: 0}}
  - {{workgroup: N, tile: 64, axis: 1}}
  - {{wave: M, tile: 4}}
graph:
  - x_tile: {{read: x}}
  - number: {{read: only}}
  - none: {{register: [M, N], dtype: {dtype}, value: 0}}
  - everywhere: "where(x_tile == none, x_tile, number)"
  - {{write: everywhere, to: y}}
  - {{write: x_tile, to: y_{dtype}}}
  - {_NEXT_STATEMENT.join(statements)}
""",
        "conversions.wave.yaml",
    )


def numbers(dtype: str) -> tuple[Tensor, Tensor]:
    """``x``, with numbers that are in the range of every type, and ``only``."""
    x = torch.randn((9, 70), generator=torch.Generator().manual_seed(3), dtype=torch.float64).abs() * 20
    return x.clamp(max=100).round(decimals=1).to(DTYPES[dtype]), torch.tensor(1).to(DTYPES[dtype])


def expected(x: Tensor, only: Tensor) -> list[Tensor]:
    """The outputs in order."""
    return [torch.where(x == 0, x, only), *(x.to(DTYPES[other]) for other in COMPUTED)]

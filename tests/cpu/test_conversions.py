"""Every element type is read, converted to every other and written on this machine's CPU; single numbers are read."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import TORCH, tensors_of
from tests.ops.conversions import COMPUTED, conversions, expected, numbers
from tests.rungs import often
from wavespec.pipeline import compile
from wavespec.schema import loads


@pytest.mark.parametrize("dtype", often(COMPUTED, ["f32", "bf16", "i32"]))
def test_numbers_are_converted_as_torch_does(dtype: str) -> None:
    x, only = numbers(dtype)
    for got, right in zip(compile(conversions(dtype))(x, only), expected(x, only), strict=True):
        assert got.dtype == right.dtype
        assert torch.equal(got, right), right.dtype


@pytest.mark.parametrize("dtypes", [("i64", "f64"), ("f64", "i64"), ("i32", "f32"), ("bf16", "i16"), ("u8", "i8")])
def test_bits_are_kept(dtypes: tuple[str, str]) -> None:
    before, after = dtypes
    spec = loads(
        "apiVersion: wavespec/v1\nkind: Kernel\nname: bits\ndims: {M: {}}\n"
        f"tensors:\n  x: {{shape: [M], dtype: {before}}}\n  y: {{shape: [M], dtype: {after}, role: output}}\n"
        "constraints: [{workgroup: M, tile: 64, axis: 0}]\n"
        f"graph:\n  - one: {{read: x}}\n  - other: {{bitcast: one, dtype: {after}}}\n  - {{write: other, to: y}}\n",
        "bits.wave.yaml",
    )
    x = torch.arange(99).to(TORCH[before]) - 7 if before == "u8" else (torch.randn(99) * 99).to(TORCH[before])
    assert torch.equal(tensors_of(compile(spec)(x))[0].view(x.dtype), x)

"""Products with scales become products of three operands, whose results are those of the numbers that the blocks stand for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from tests.kernels import tensor_to_elements
from tests.lower.gemms import AMD
from wavespec.pipeline import lower
from wavespec.runtime.artifact import stored_shape
from wavespec.runtime.checks import DTYPES
from wavespec.schema import KernelSpec, loads
from wavespec.sim.packed import unpacked
from wavespec.sim.simt import simulate

ELEMENTS = ("f8e4m3fn", "f8e5m2", "f6e2m3fn", "f6e3m2fn", "f4e2m1fn")
SIZES = {"M": 20, "N": 17, "K": 96, "G": 6}


def scaled(left: str, right: str) -> KernelSpec:
    """``c = (a * a_scale) · (b * b_scale)ᵀ`` in blocks of 16."""
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: scaled
dims: {{M: {{}}, N: {{}}, K: {{multiple_of: 16}}, G: {{equals: K / 16}}}}
tensors:
  a: {{shape: [M, K], dtype: {left}}}
  b: {{shape: [N, K], dtype: {right}}}
  a_scale: {{shape: [M, G], dtype: f8e8m0fnu}}
  b_scale: {{shape: [N, G], dtype: f8e8m0fnu}}
  c: {{shape: [M, N], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 32, axis: 0}}
  - {{workgroup: N, tile: 32, axis: 1}}
  - {{tiling: K, tile: 32}}
  - {{wave: M, tile: 16}}
graph:
  - zero: {{register: [M, N], dtype: f32, value: 0}}
  - k_loop:
      iterate: K
      carry: {{acc: zero}}
      body:
        - a_tile: {{read: a}}
        - b_tile: {{read: b}}
        - a_factor: {{read: a_scale, dims: [M, K], at: {{G: K // 16}}}}
        - b_factor: {{read: b_scale, dims: [N, K], at: {{G: K // 16}}}}
        - acc: {{mma: [a_tile, b_tile, acc], scales: [a_factor, b_factor]}}
  - {{write: k_loop.acc, to: c}}
""",
        "scaled.wave.yaml",
    )


def test_every_product_has_three_operands() -> None:
    before, after = (
        lower(scaled("f4e2m1fn", "f8e5m2"), AMD, after=name) for name in ("spec-to-tile", "scale-operands")
    )
    assert [len(op.operands) for op in before.walk() if op.name == "mma"] == [5]
    (op,) = (op for op in after.walk() if op.name == "mma")
    assert [str(value.tile.dtype) for value in op.operands] == ["bf16", "bf16", "f32"]


@pytest.mark.parametrize(("left", "right"), list(product(ELEMENTS, repeat=2))[::3])
def test_blocks_of_any_size_and_operands_of_different_types(left: str, right: str) -> None:
    spec, random = scaled(left, right), torch.Generator().manual_seed(1)
    inputs: list[torch.Tensor] = []
    for name, tensor in list(spec.tensors.items())[:4]:
        shape = stored_shape(tensor.dtype, tuple(SIZES[dim] for dim in tensor.shape))
        # Scales from 1/2 to 2; of f8 those codes that are from 2^-3 to 2^3, so that sums are exact.
        low, high = (
            (126, 129)
            if name.endswith("scale")
            else {"f8e4m3fn": (32, 80), "f8e5m2": (48, 72)}.get(tensor.dtype, (0, 256))
        )
        inputs.append(torch.randint(low, high, shape, generator=random).to(torch.uint8).view(DTYPES[tensor.dtype]))
    arrays = {
        name: tensor_to_elements(one, spec.tensors[name].dtype) for name, one in zip(spec.tensors, inputs, strict=False)
    }
    report = simulate(lower(spec, AMD), AMD, arrays, SIZES)
    assert report.ok, report.render()
    a, b, a_scale, b_scale = (
        unpacked(one, spec.tensors[name].dtype).double() for name, one in zip(spec.tensors, inputs, strict=False)
    )
    right_one = (a * a_scale.repeat_interleave(16, 1)) @ (b * b_scale.repeat_interleave(16, 1)).T
    np.testing.assert_array_equal(report.tensors["c"], right_one.numpy())

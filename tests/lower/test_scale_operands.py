"""Products with scales become products of three operands, whose results are those of the numbers that the blocks stand for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from tests.kernels import tensor_to_elements
from tests.lower.gemms import AMD
from tests.lower.ir_text import Text, lines
from wavespec.lower.scale_operands import ScaleOperands
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


SCALED = Text("""
    tile kernel @scaled target gfx942 lanes 1
    plan "auto" stages 1 group 0
""")
OPERANDS = """
    %a = register {value = 1.0} : tile<M, K, f4e2m1fn>
    %b = register {value = 1.0} : tile<N, K, f8e5m2>
    %left = register {value = 1.0} : tile<M, K, f8e8m0fnu>
    %right = register {value = 1.0} : tile<N, K, f8e8m0fnu>
    %acc = register {value = 0.0} : tile<M, N, f32>
"""


def test_factors_are_multiplied_by_their_scales() -> None:
    product = "    %c = mma %a, %b, %acc, %left, %right : tile<M, N, f32>\n"
    assert SCALED.after(ScaleOperands(), AMD, OPERANDS + product) == lines(
        OPERANDS
        + """
    %a.1 = cast %a : tile<M, K, f32>
    %a.2 = cast %left : tile<M, K, f32>
    %a.3 = elementwise %a.1, %a.2 {function = "mul"} : tile<M, K, f32>
    %a.4 = cast %a.3 : tile<M, K, bf16>
    %b.1 = cast %b : tile<N, K, f32>
    %b.2 = cast %right : tile<N, K, f32>
    %b.3 = elementwise %b.1, %b.2 {function = "mul"} : tile<N, K, f32>
    %b.4 = cast %b.3 : tile<N, K, bf16>
    %c = mma %a.4, %b.4, %acc : tile<M, N, f32>
""".lstrip("\n")
    )


def test_products_without_scales_stay() -> None:
    kernel = SCALED.kernel(OPERANDS + "    %c = mma %a, %b, %acc : tile<M, N, f32>")
    assert ScaleOperands()(kernel, AMD) is kernel


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

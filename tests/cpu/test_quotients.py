"""Quotients by one number of a row, which its reciprocal makes where it may: those of a division, to the bit."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from wavespec.pipeline import best_variant, build, emit
from wavespec.runtime.kernel import Kernel
from wavespec.schema import loads

SPEC = """\
apiVersion: wavespec/v1
kind: Kernel
name: quotients
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: f32}
  d: {shape: [M], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 1, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
graph:
  - part: {read: x}
  - divisor: {read: d}
  - result: part / divisor
  - {write: result, to: y}
"""
INF, NAN = float("inf"), float("nan")


@cache
def kernel() -> Kernel:
    return Kernel(build(loads(SPEC, "quotients.wave.yaml"), "cpu", only=best_variant("cpu")))


def check(x: torch.Tensor, d: torch.Tensor) -> None:
    result, expected = kernel()(x, d), x / d[:, None]
    assert isinstance(result, torch.Tensor)
    same = (result.view(torch.int32) == expected.view(torch.int32)) | (result.isnan() & expected.isnan())
    assert same.all(), f"{x[~same]} by some of {d}: {result[~same]}, not {expected[~same]}"


def test_there_are_two_forms() -> None:
    text = emit(loads(SPEC, "quotients.wave.yaml"), best_variant("cpu")).text
    assert text.count("math.fma") == 2 * text.count("arith.mulf") > 0


@pytest.mark.parametrize("columns", [64, 200])
def test_quotients_are_rounded_as_divisions_are(columns: int) -> None:
    torch.manual_seed(0)
    powers = torch.randint(-20, 90, (400,)).float().exp2()
    check(torch.randn(400, columns) * 1e3, (torch.rand(400) + 1) * powers)


def test_quotients_of_nothing_infinity_and_nan() -> None:
    x = torch.tensor([0.0, -0.0, 1.0, -3.0, INF, -INF, NAN, 1e38, 1e-30]).repeat(8)
    d = torch.tensor([1.0, 2.0, 3.0, 1e30, 2.0**100, 1e36, INF, 0.5, 0.0, -0.0, -3.0, -INF, NAN])
    check(x.expand(len(d), -1).contiguous(), d)


@pytest.mark.parametrize(
    ("power", "units"), [(-90, 0), (-98, 0), (-104, 0), (-110, 1), (-126, 1), (-140, 1), (-149, 1)]
)
def test_quotients_of_small_numbers_are_next_to_those_of_divisions(power: int, units: int) -> None:
    random = torch.Generator().manual_seed(1)
    x = torch.randn(400, 64, generator=random) * 2.0**power
    d = (torch.rand(400, generator=random) + 1) * torch.randint(0, 12, (400,), generator=random).float().exp2()
    result = kernel()(x, d)
    assert isinstance(result, torch.Tensor)
    apart = result.view(torch.int32).long() - (x / d[:, None]).view(torch.int32)
    assert apart.abs().max() <= units

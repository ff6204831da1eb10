"""What processors without F16C and FMA do by the bits of numbers, this one does by instructions: both are the same."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import TORCH
from wavespec.pipeline import build, emit
from wavespec.runtime.cpu_features import cpu_features
from wavespec.runtime.kernel import Kernel
from wavespec.schema import loads
from wavespec.targets.machine import variants

MACHINES = {machine.variant: machine for machine in variants("cpu")}
pytestmark = pytest.mark.skipif(
    not cpu_features().issuperset(MACHINES["x86_64_v3"].requires), reason="needs a CPU with AVX2"
)
HEAD = "apiVersion: wavespec/v1\nkind: Kernel\nname: bits\ndims: {N: {}}\nconstraints: [{workgroup: N, tile: 64, axis: 0}]\n"
CONVERTED = """
tensors:
  x: {shape: [N], dtype: BEFORE}
  y: {shape: [N], dtype: AFTER, role: output}
graph:
  - one: {read: x}
  - other: "AFTER(one)"
  - {write: other, to: y}
"""
MULTIPLIED = """
tensors:
  x: {shape: [N], dtype: T}
  y: {shape: [N], dtype: T}
  z: {shape: [N], dtype: T}
  o: {shape: [N], dtype: T, role: output}
graph:
  - one: {read: x}
  - other: {read: y}
  - more: {read: z}
  - result: "fma(one, other, more)"
  - {write: result, to: o}
"""


def kernel(text: str, variant: str) -> Kernel:
    return Kernel(build(loads(HEAD + text, "bits.wave.yaml"), "cpu", only=MACHINES[variant]))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_every_f16_is_the_number_that_it_was(dtype: str) -> None:
    x = torch.arange(1 << 16).to(torch.uint16).view(torch.float16)
    text, right = CONVERTED.replace("BEFORE", "f16").replace("AFTER", dtype), x.to(TORCH[dtype])
    lines = emit(loads(HEAD + text, "bits.wave.yaml"), MACHINES["x86_64_v2"]).text.splitlines()
    assert not [line for line in lines if "arith.extf" in line and "f16" in line]  # LLVM calls a library for each
    found = kernel(text, "x86_64_v2")(x)
    torch.testing.assert_close(found, right, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(found.signbit(), right.signbit())


def test_f32_are_rounded_to_f16_as_torch_does() -> None:
    halves = torch.arange(1 << 16).to(torch.uint16).view(torch.float16).float().view(torch.int32)
    near = torch.cat([halves + step for step in (-1, 0, 1, 1 << 12, (1 << 12) - 1, (1 << 12) + 1)])
    random = torch.randint(-(1 << 31), 1 << 31, (1 << 16,), generator=torch.Generator().manual_seed(0))
    x = torch.cat([near, random.to(torch.int32)]).view(torch.float32)
    found = kernel(CONVERTED.replace("BEFORE", "f32").replace("AFTER", "f16"), "x86_64_v2")(x)
    right = x.half()
    torch.testing.assert_close(found, right, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(found.signbit(), right.signbit())


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_fused_step_rounds_once(dtype: str) -> None:
    """Sums that cancel, those of any sizes, those just beside the middle of two neighbours, and infinite ones."""
    random, kind, count = torch.Generator().manual_seed(0), TORCH[dtype], 40000
    epsilon = torch.finfo(kind).eps
    x, y, z = (torch.randn(count, generator=random, dtype=kind) for _ in range(3))
    scales = torch.randint(-130 if dtype == "f32" else -200, 60, (count,), generator=random)
    z = torch.where(torch.arange(count) % 2 == 0, -(x * y), torch.ldexp(z, scales).to(kind))
    x[:512] = 1 + torch.arange(512, dtype=kind) * epsilon
    y[:512], z[:512] = 1 + epsilon * 2 ** (torch.arange(512) % 20), torch.tensor([1e-30, -1e-30]).repeat(256).to(kind)
    largest = torch.finfo(kind).max if dtype == "f32" else 2.0**400
    ends = torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0, -0.0, largest, 1.0], dtype=kind)
    grid = torch.cartesian_prod(ends, ends, ends)
    given = [torch.cat([one, grid[:, at]]) for at, one in enumerate((x, y, z))]
    text = MULTIPLIED.replace("dtype: T", f"dtype: {dtype}")
    found, right = (kernel(text, variant)(*given) for variant in ("x86_64_v2", "x86_64_v3"))
    assert (found != (given[0] * given[1] + given[2])).sum() > count // 4  # it matters
    torch.testing.assert_close(found, right, rtol=0, atol=0, equal_nan=True)
    numbers = ~right.isnan()
    assert torch.equal(found.signbit()[numbers], right.signbit()[numbers])

"""Kernels without tiles from where ``specs/`` has none, as whoever reads the documentation alone would write them."""

from __future__ import annotations

import pytest
import torch

from tests.cpu.kernels_of_cases import KernelsOfCases
from wavespec.check_builds import check_builds
from wavespec.pipeline import best_variant
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.load import loads

HEAD = "apiVersion: wavespec/v1\nkind: Kernel\nname: one\n"
_ELEMENTS = "".join(
    f"  - m{i}{j}: {{read: a, dims: [B], at: {{I: {i}, J: {j}}}}}\n" for i in range(3) for j in range(3)
)
INVERSE = f"""{HEAD}
dims: {{B: {{}}, I: {{value: 3}}, J: {{value: 3}}}}
tensors:
  a: {{shape: [B, I, J], dtype: f32}}
  y: {{shape: [B, I, J], dtype: f32, role: output}}
graph:
{_ELEMENTS}  - c00: m11 * m22 - m12 * m21
  - c10: m12 * m20 - m10 * m22
  - c20: m10 * m21 - m11 * m20
  - d: 1 / (m00 * c00 + m01 * c10 + m02 * c20)
  - row0: where(index(J) == 0, c00, where(index(J) == 1, m02 * m21 - m01 * m22, m01 * m12 - m02 * m11))
  - row1: where(index(J) == 0, c10, where(index(J) == 1, m00 * m22 - m02 * m20, m02 * m10 - m00 * m12))
  - row2: where(index(J) == 0, c20, where(index(J) == 1, m01 * m20 - m00 * m21, m00 * m11 - m01 * m10))
  - r: d * where(index(I) == 0, row0, where(index(I) == 1, row1, row2))
  - turned: {{take: r, dims: [B, I, J]}}
  - {{write: turned, to: y}}
"""
EVERY_NTH = f"""{HEAD}
dims: {{B: {{}}, T: {{}}, S: {{}}}}
tensors:
  x: {{shape: [B, S], dtype: f32}}
  z: {{shape: [B, T], dtype: f32}}
  y: {{shape: [B, T], dtype: f32, role: output}}
graph:
  - v: {{read: x, dims: [B, T], at: {{S: size(S) // (1 + T)}}}}
  - w: {{read: z}}
  - sums: v + w
  - {{write: sums, to: y}}
"""
COLOURS = f"""{HEAD}
dims: {{H: {{}}, W: {{}}, C: {{value: 3}}}}
tensors:
  x: {{shape: [H, W, C], dtype: f32}}
  gain: {{shape: [C], dtype: f32}}
  y: {{shape: [H, W, C], dtype: f32, role: output}}
graph:
  - a: {{read: x}}
  - b: {{read: gain}}
  - r: a * b
  - {{write: r, to: y}}
"""
COVARIANCE = f"""{HEAD}
dims: {{N: {{min: 2}}, P: {{}}, Q: {{equals: P}}}}
tensors:
  x: {{shape: [N, P], dtype: f32}}
  mean: {{shape: [P], dtype: f32}}
  c: {{shape: [P, Q], dtype: f32, role: output}}
graph:
  - zero: {{register: [P, Q], dtype: f32, value: 0}}
  - mean_p: {{read: mean}}
  - mean_q: {{read: mean, dims: [Q], at: {{P: Q}}}}
  - rows:
      iterate: N
      carry: {{acc: zero}}
      body:
        - a: {{read: x}}
        - b: {{read: x, dims: [N, Q], at: {{P: Q}}}}
        - a0: a - mean_p
        - b0: b - mean_q
        - acc: {{mma: [a0, b0, acc]}}
  - result: rows.acc / f32(size(N) - 1)
  - {{write: result, to: c}}
"""
_BODIES = f"""{HEAD}
dims: {{N: {{}}, J: {{equals: N}}, P: {{value: 3}}}}
tensors:
  position: {{shape: [P, N], dtype: f32}}
  mass: {{shape: [N], dtype: f32}}
  force: {{shape: [P, N], dtype: f32, role: output}}
graph:
  - mine: {{read: position}}
  - zero: {{register: [P, N], dtype: f32, value: 0}}
  - bodies:
      iterate: J
      carry: {{total: zero}}
      body:
        - other: {{read: position, dims: [P, J], at: {{N: J}}}}
        - m: {{read: mass, dims: [J], at: {{N: J}}}}
        - d: other - mine
        - squares: d * d
        - distance: {{sum: squares, dim: P}}
        - inverse: rsqrt(distance + 0.01)
        - part: d * (m * inverse * inverse * inverse)
        - total: {{sum: part, dim: J, init: total}}
  - {{write: bodies.total, to: force}}
"""
_SMOOTHED = f"""{HEAD}
dims: {{N: {{}}, C: {{}}}}
tensors:
  logits: {{shape: [N, C], dtype: f32}}
  loss: {{shape: [N], dtype: f32, role: output}}
graph:
  - low: {{register: [N], dtype: f32, value: -.inf}}
  - zero: {{register: [N], dtype: f32, value: 0}}
  - walk:
      iterate: C
      carry: {{top: low, total: zero, plain: zero}}
      body:
        - x: {{read: logits}}
        - next_top: {{max: x, dim: C, init: top}}
        - shrink: where(top == next_top, 1, exp(top - next_top))
        - power: exp(x - next_top)
        - before: total * shrink
        - total: {{sum: power, dim: C, init: before}}
        - plain: {{sum: x, dim: C, init: plain}}
        - top: next_top
  - result: walk.top + log(walk.total) - walk.plain / size(C)
  - {{write: result, to: loss}}
"""


def compiled(spec: KernelSpec) -> KernelsOfCases:
    return KernelsOfCases(spec, best_variant("cpu"))


@pytest.mark.parametrize("count", [0, 1, 33, 70_000])
def test_batches_of_small_matrices_are_as_many_as_there_are(count: int) -> None:
    """Not one workgroup for each, of which a launch has no more than 65,535 along an axis."""
    a = torch.randn(count, 3, 3, generator=torch.Generator().manual_seed(0)) + 4 * torch.eye(3)
    wanted = torch.inverse(a.double()).float()
    torch.testing.assert_close(compiled(loads(INVERSE))(a), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sizes", [(0, 3), (1, 1), (5, 77)])
def test_colours_beside_each_other_are_scaled(sizes: tuple[int, int]) -> None:
    x, gain = torch.randn(*sizes, 3), torch.randn(3)
    assert torch.equal(compiled(loads(COLOURS))(x, gain), x * gain)


@pytest.mark.parametrize(("rows", "places", "size"), [(0, 3, 4), (1, 1, 1), (2, 40, 33), (3, 5, 0)])
def test_an_index_and_one_divides_places(rows: int, places: int, size: int) -> None:
    x, z = torch.randn(rows, size), torch.randn(rows, places)
    at = size // (1 + torch.arange(places))
    wanted = torch.nn.functional.pad(x, (0, 1))[:, at] + z
    assert torch.equal(compiled(loads(EVERY_NTH))(x, z), wanted)


def test_a_size_and_an_index_divide_places_of_an_empty_dim() -> None:
    divided = EVERY_NTH.replace("size(S) // (1 + T)", "T // (size(S) + T)")
    x, z = torch.ones(2, 0), torch.randn(2, 5)
    assert torch.equal(compiled(loads(divided))(x, z), z)


@pytest.mark.parametrize("sizes", [(2, 1), (5, 3), (133, 65)])
def test_covariance(sizes: tuple[int, int]) -> None:
    x = torch.randint(-4, 5, sizes).float()
    mean = torch.randint(-2, 3, sizes[1:]).float()
    wanted = (x - mean).T @ (x - mean) / (sizes[0] - 1)
    torch.testing.assert_close(compiled(loads(COVARIANCE))(x, mean), wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize("text", [_BODIES, _SMOOTHED], ids=["values of three dims", "online softmax"])
def test_plans_share_out_no_steps_that_only_one_workgroup_can_take(text: str) -> None:
    """Plans were refused with words about a `split` that nobody had written."""
    assert check_builds([loads(text)], ["sm_90"]) == [()]

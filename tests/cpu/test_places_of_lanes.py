"""Elements at places that values say, or a few elements apart, are those of the tensor, with zeros outside of it."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from wavespec.chosen_machines import chosen_machines
from wavespec.pipeline import best_variant, build
from wavespec.runtime.cpu_features import cpu_features
from wavespec.runtime.kernel import Kernel
from wavespec.schema import loads

LOOKED_UP = """\
apiVersion: wavespec/v1
kind: Kernel
name: looked_up
dims: {C: {}, H: {min: 1}, W: {min: 1}, N: {}}
tensors:
  x: {shape: [C, H, W], dtype: f32}
  row: {shape: [N], dtype: i32}
  column: {shape: [N], dtype: i32}
  y: {shape: [C, N], dtype: f32, role: output}
graph:
  - r: {read: row}
  - c: {read: column}
  - right: c + 1
  - one: {read: x, dims: [C, N], at: {H: r, W: c}}
  - other: {read: x, dims: [C, N], at: {H: r, W: right}}
  - both: one + other
  - {write: both, to: y}
"""
APART = """\
apiVersion: wavespec/v1
kind: Kernel
name: apart
dims: {N: {}, P: {value: EVERY}}
tensors: {x: {shape: [N, P], dtype: TYPE}, y: {shape: [N], dtype: TYPE, role: output}}
graph:
  - own: {read: x, dims: [N], at: {P: PART}}
  - {write: own, to: y}
"""
VARIANTS = [
    name
    for name in ("x86_64_v4_bf16", "x86_64_v4", "x86_64_v3", "x86_64_v2")
    if cpu_features().issuperset(chosen_machines(f"cpu:{name}")[0].requires)
] or [best_variant("cpu").variant]


@cache
def kernel(text: str, variant: str) -> Kernel:
    return Kernel(build(loads(text), "cpu", only=chosen_machines(f"cpu:{variant}")[0]))


def looked_up(x: torch.Tensor, row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    inside = (row >= 0) & (row < x.shape[1]) & (column >= 0) & (column < x.shape[2])
    row, column = (torch.where(inside, place, 0).long() for place in (row, column))
    return torch.where(inside, x[:, row, column], 0)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("channels", [1, 2, 3, 9])
def test_places_that_values_say_are_read_lane_by_lane(channels: int, variant: str) -> None:
    for count in (0, 1, 7, 16, 33, 300):
        x = torch.randint(-99, 99, (channels, 5, 7)).float()
        row, column = (torch.randint(-2, size + 2, (count,), dtype=torch.int32) for size in (5, 7))
        row[:2] = torch.tensor([2**31 - 1, -(2**31)])[: min(2, count)]
        wanted = looked_up(x, row, column) + looked_up(x, row, column + 1)
        actual = kernel(LOOKED_UP, variant)(x, row, column)
        torch.testing.assert_close(actual, wanted, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("dtype", "variant"), [*(("f32", variant) for variant in VARIANTS[::2]), ("bf16", VARIANTS[0])], ids=str
)
@pytest.mark.parametrize("every", [2, 3, 4])
def test_elements_apart_are_taken_out_of_what_lies_between(every: int, dtype: str, variant: str) -> None:
    text = APART.replace("EVERY", str(every)).replace("PART", str(every - 1)).replace("TYPE", dtype)
    for count in (0, 1, 15, 16, 17, 100, 1000):
        x = torch.randint(-99, 99, (count, every)).to(torch.float32 if dtype == "f32" else torch.bfloat16)
        torch.testing.assert_close(kernel(text, variant)(x), x[:, every - 1].contiguous(), rtol=0, atol=0)

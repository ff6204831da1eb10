"""Branches and loops between bounds on this machine's CPU."""

from __future__ import annotations

import pytest
import torch

from tests.ops.control import LOOPS, RAGGED, Parts, Product, Rows, ragged_inputs
from wavespec.pipeline import compile
from wavespec.schema import loads


@pytest.mark.parametrize("loop", LOOPS)
def test_rows_of_a_triangle(loop: str) -> None:
    kernel = compile(Rows(loop).spec)
    for shape in ((37, 50), (8, 16), (1, 1), (2, 0), (0, 3)):
        x = torch.randint(-9, 10, shape).float()
        assert torch.equal(kernel(x), torch.tensor(Rows(loop).expected(x.numpy())))


@pytest.mark.parametrize("loop", ["branch", "end"])
def test_products_of_a_triangle(loop: str) -> None:
    product = Product(loop=loop, space="global")
    kernel = compile(product.spec)
    for sizes in ((70, 40, 136), (3, 5, 8), (65, 1, 0), (200, 100, 256)):
        a, b = map(torch.tensor, product.operands(sizes))
        assert torch.equal(kernel(a, b), a.float() @ b.float().T)


def test_values_are_bounds_and_conditions() -> None:
    lengths, x, expected = map(torch.tensor, ragged_inputs())
    assert torch.equal(compile(loads(RAGGED))(lengths, x), expected)


def test_workgroups_share_out_the_tiles_of_a_row() -> None:
    kernel = compile(Parts().spec)
    for sizes in ((5, 100, 3), (1, 0, 2), (0, 9, 1)):
        x, first = Parts().inputs(*sizes)
        assert torch.equal(kernel(*map(torch.tensor, (x, first))), torch.tensor(Parts().expected(x, first)))


@pytest.mark.parametrize("steps", ["0", "1", "min(n, 1)", "max(n, 0)", "n"])
def test_a_loop_of_one_step_or_none(steps: str) -> None:
    spec = loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: few_steps
dims: {{M: {{}}}}
tensors:
  x: {{shape: [M], dtype: f32}}
  count: {{shape: [], dtype: i32}}
  y: {{shape: [M], dtype: f32, role: output}}
constraints: [{{workgroup: M, tile: 64, axis: 0}}]
graph:
  - start: {{read: x}}
  - n: {{read: count}}
  - moved: start + f32(n)
  - loop: {{repeat: "{steps}", carry: {{acc: moved}}, body: [{{acc: acc + 1}}]}}
  - {{write: loop.acc, to: y}}
""",
        "few_steps.wave.yaml",
    )
    few, x = compile(spec), torch.arange(99).float()
    for n in (-1, 0, 1):
        times = {"0": 0, "1": 1, "min(n, 1)": max(0, min(n, 1))}.get(steps, max(n, 0))
        assert torch.equal(few(x, torch.tensor(n, dtype=torch.int32)), x + n + times)

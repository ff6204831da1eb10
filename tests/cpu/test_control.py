"""Branches and loops between bounds on this machine's CPU."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import SPECS
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


PRODUCTS = """apiVersion: wavespec/v1
kind: Kernel
name: parts_of_products
dims: {M: {}, N: {}, K: {}, P: {min: 1}}
params: {BLOCK: 512}                            # more than a CPU sums at once
tensors:
  a: {shape: [M, K], dtype: f32, space: shared}
  b: {shape: [N, K], dtype: f32, space: shared}
  first: {shape: [P], dtype: f32}
  y: {shape: [M, N, P], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 48, axis: 0}
  - {workgroup: N, tile: 32, axis: 1}
  - {workgroup: P, tile: 1, axis: 2}
  - {tiling: K, tile: BLOCK}
  - {hardware: {mma: auto}}
graph:
  - before: {read: first}
  - zero: {register: [M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {sums: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - sums: {mma: [a_tile, b_tile, sums]}
  - part: k_loop.sums + before
  - {write: part, to: y}
"""


@pytest.mark.parametrize(
    ("loop", "tiling", "step"),
    [
        ("iterate: K\n      start: start(P) * BLOCK\n      step: P", "tile: BLOCK", 3),
        ("iterate: K", "tile: BLOCK, start: start(P) * BLOCK, count: 1", 4),
    ],
    ids=["step", "count"],
)
def test_tiles_that_are_counted_are_those_of_the_spec(loop: str, tiling: str, step: int) -> None:
    """Also where the instruction sums less than a tile of them at once."""
    spec = loads(PRODUCTS.replace("iterate: K", loop).replace("tile: BLOCK", tiling))
    kernel = compile(spec)
    sizes = {"M": 50, "N": 40, "K": 2000, "P": 3}
    a, b = (torch.randint(-3, 4, (sizes[dim], sizes["K"])).float() for dim in "MN")
    parts = [slice(512 * tile, 512 * tile + 512) for tile in range(4)]
    expected = [torch.stack([a[:, one] @ b[:, one].T for one in parts[p::step]]).sum(0) for p in range(sizes["P"])]
    assert torch.equal(kernel(a, b, torch.zeros(sizes["P"])), torch.stack(expected, -1))


FEW = """apiVersion: wavespec/v1
kind: Kernel
name: parts_of_few
dims: {M: {}, N: {max: 64}, P: {min: 1}}        # all of N is one tile
tensors:
  x: {shape: [M, N], dtype: f32}
  first: {shape: [P], dtype: f32}
  y: {shape: [M, P], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 8, axis: 0}
  - {workgroup: P, tile: 1, axis: 1}
  - {tiling: N, tile: 64}
graph:
  - before: {read: first}
  - zero: {register: [M], dtype: f32, value: 0}
  - row:
      iterate: N
      carry: {total: zero}
      body:
        - part: {read: x}
        - total: {sum: part, dim: N, init: total}
  - whole: row.total + before
  - {write: whole, to: y}
"""


@pytest.mark.parametrize(
    ("loop", "tiling"),
    [
        ("iterate: N\n      start: start(P) * 64\n      step: P", "tile: 64"),
        ("iterate: N", "tile: 64, start: start(P) * 64, count: 1"),
        ("iterate: N\n      start: start(P) * 64", "tile: 64"),
    ],
    ids=["step", "count", "start"],
)
def test_the_one_tile_of_a_dim_is_that_of_one_workgroup(loop: str, tiling: str) -> None:
    kernel = compile(loads(FEW.replace("iterate: N", loop).replace("tile: 64}\ngraph", f"{tiling}}}\ngraph")))
    x, first = torch.randint(-9, 10, (10, 50)).float(), torch.zeros(3)
    expected = torch.stack([x.sum(1), torch.zeros(10), torch.zeros(10)], -1)
    assert torch.equal(kernel(x, first), expected)


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


def test_products_of_a_loop_that_ends_after_one_of_many_tiles() -> None:
    text = (SPECS / "attention.wave.yaml").read_text(encoding="utf-8")
    kernel = compile(loads(text.replace("iterate: N\n", "iterate: N\n      end: 128\n", 1)))  # the tile of CPUs
    q, k, v = (torch.randn(1, 2, length, 64).bfloat16() for length in (40, 300, 300))
    ends = (tensor[:, :, :128].double() for tensor in (k, v))
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), *ends)
    assert (kernel(q, k, v).double() - expected).abs().max() < 0.01

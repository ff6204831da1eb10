"""Scans on this machine's CPU: every word and type is exact on whole numbers, at every edge, by every variant."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.cpu.test_rows import TORCH, kernel
from tests.ops.scans import Scans
from tests.rungs import often
from wavespec.schema import load, loads
from wavespec.sim.reference import reference
from wavespec.targets.machine import machines

SPECS = Path(__file__).parents[2] / "specs"


def running(word: str, x: torch.Tensor, axis: int) -> torch.Tensor:
    found = getattr(torch, word)(x, axis)
    return (found if isinstance(found, torch.Tensor) else found.values).to(x.dtype)


EACH = [("cumsum", dtype) for dtype in TORCH] + [(word, "f32") for word in ("cumprod", "cummax", "cummin")]


@pytest.mark.parametrize(("word", "dtype"), often(EACH, [("cumsum", "f32"), ("cumsum", "i64"), ("cummax", "f32")]))
def test_every_type_and_word(word: str, dtype: str) -> None:
    scans = kernel(Scans(word, dtype=dtype, init={"cumprod": 1, "cummin": 5}.get(word, 0)).spec)
    for shape in ((3, 13), (1, 1), (9, 70 if word != "cumprod" else 5)):
        x = torch.randint(1, 3, shape).to(TORCH[dtype])
        assert torch.equal(scans(x), running(word, x, 1))


@pytest.mark.parametrize("variant", [machine.variant for machine in machines("cpu")])
def test_every_variant_walks_along_rows_and_columns(variant: str) -> None:
    x = torch.randint(-9, 10, (37, 201)).float()
    assert torch.equal(kernel(Scans(tile=(4, 64), wave=(1, 64)).spec, variant)(x), x.cumsum(1))
    columns = Scans(dim="M", tile=(8, 64), wave=(8, 32))
    assert torch.equal(kernel(columns.spec, variant)(x), x.cumsum(0))


@pytest.mark.parametrize("shape", [(1, 1), (3, 0), (0, 5), (17, 127), (16, 128), (33, 257), (5, 4000)], ids=str)
def test_cumsum_is_as_close_as_torch(shape: tuple[int, int]) -> None:
    spec = load(SPECS / "cumsum.wave.yaml")
    x = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))
    got, exact = kernel(spec)(x), reference(spec, x)
    assert got.shape == x.shape
    theirs = (x.cumsum(1).double() - exact).abs().max() if x.numel() else 0
    assert not x.numel() or (got.double() - exact).abs().max() <= 2 * theirs


PLANNED = """
apiVersion: wavespec/v1
kind: Kernel
name: running
dims: {{A: {{}}, N: {{}}, B: {{}}}}
tensors:
  x: {{shape: [A, N, B], dtype: {dtype}}}
  y: {{shape: [A, N, B], dtype: {dtype}, role: output}}
graph:
  - none: {{register: [A, B], dtype: {dtype}, value: 0}}
  - rows:
      iterate: N
      carry: {{before: none}}
      body:
        - part: {{read: x}}
        - run: {{cumsum: part, dim: N, init: before}}
        - before: {{sum: part, dim: N, init: before}}
        - {{write: run, to: y}}
"""


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("shape", [(2, 20_000, 1), (1, 5000, 9)], ids=str)
def test_long_dims_err_as_torch_whatever_a_spec_carries(dtype: str, shape: tuple[int, int, int]) -> None:
    """torch adds up f32 in f64, and small floats in f32."""
    x = torch.rand(shape, generator=torch.Generator().manual_seed(1)).to(TORCH[dtype])
    got, exact = kernel(loads(PLANNED.format(dtype=dtype)))(x), x.double().cumsum(1)
    assert (got.double() - exact).abs().max() <= 2 * (x.cumsum(1).double() - exact).abs().max()

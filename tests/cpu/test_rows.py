"""Reductions on this machine's CPU: exact on whole numbers of every type, and what infinite numbers give."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

from tests.cpu.kernels_of_cases import KernelsOfCases
from tests.kernels import Subject
from tests.ops.rows import Rows
from wavespec.pipeline import best_variant
from wavespec.runtime.cpu_features import cpu_features
from wavespec.schema import KernelSpec, load
from wavespec.targets.machine import machines

pytestmark = pytest.mark.rare

SPECS = Path(__file__).parents[2] / "specs"
TORCH = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i32": torch.int32,
    "i64": torch.int64,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
}
JOIN = {"sum": torch.sum, "prod": torch.prod, "max": torch.amax, "min": torch.amin}


def kernel(spec: KernelSpec, variant: str = "") -> KernelsOfCases:
    machine = next((m for m in machines("cpu") if m.variant == variant), best_variant("cpu"))
    if missing := set(machine.requires) - cpu_features():
        pytest.skip(f"this CPU has no {', '.join(sorted(missing))}")
    return KernelsOfCases(spec, machine)


@cache
def softmax() -> KernelSpec:
    return load(SPECS / "softmax.wave.yaml")


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("word", JOIN)
def test_every_type_and_reduction(word: str, dtype: str) -> None:
    init = {"sum": 0, "prod": 1, "max": 0, "min": 5}[word]
    rows = kernel(Rows(word, dtype=dtype, init=init).spec)
    for shape in ((3, 13), (1, 1), (9, 70 if word != "prod" else 5)):
        x = torch.randint(1, 3, shape).to(TORCH[dtype])
        assert torch.equal(rows(x), JOIN[word](x, 1).to(TORCH[dtype]))


@pytest.mark.parametrize("variant", [machine.variant for machine in machines("cpu")])
def test_every_variant_sums_rows_and_columns(variant: str) -> None:
    x = torch.randint(-9, 10, (37, 201)).float()
    assert torch.equal(kernel(Rows(tile=(4, 64), wave=(1, 64)).spec, variant)(x), x.sum(1))
    assert torch.equal(kernel(Rows(dim="M", tile=(8, 64), wave=(8, 32)).spec, variant)(x), x.sum(0))


def test_softmax_of_large_and_infinite_numbers_is_that_of_torch() -> None:
    inf = float("inf")
    x = torch.tensor([[1e30, 1e30, -1e30], [-inf, 0, 1], [-inf, -inf, -inf], [inf, 0, 1], [1e4, 1e4 + 1, 0]])
    torch.testing.assert_close(kernel(softmax())(x), torch.softmax(x, 1), equal_nan=True)


@pytest.mark.parametrize("columns", (8193, 16385, 131072))
def test_long_rows_of_few_numbers_err_no_more_than_torch(columns: int) -> None:
    """All roundings of a sum of few different numbers go the same way, so many of them in one chain add up."""
    layer_norm, sizes = Subject("layer_norm", "layer_norm"), {"M": 3, "N": columns}
    inputs = layer_norm.inputs(sizes, whole=True)
    layer_norm.check(inputs, (kernel(layer_norm.spec)(*inputs),), sizes)

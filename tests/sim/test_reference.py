"""The reference computes what the graph says, in the precision asked for, and refuses what does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.lower.gemms import Gemm
from wavespec.schema import load
from wavespec.sim.reference import reference

A, B = torch.randn(5, 7, dtype=torch.float16), torch.randn(3, 7, dtype=torch.float16)


def test_reference_is_the_product_in_f64() -> None:
    result = reference(Gemm().spec, A, B)
    assert result.dtype == torch.float64 and torch.equal(result, A.double() @ B.double().T)


def test_types_of_the_spec_are_used_where_asked_for() -> None:
    assert reference(Gemm().spec, A, B, compute=None).dtype == torch.float32


def test_integers_stay_integers() -> None:
    a, b = torch.full((2, 300), -128, dtype=torch.int8), torch.full((2, 300), 127, dtype=torch.int8)
    result = reference(Gemm("i8").spec, a, b)
    assert result.dtype == torch.int32 and int(result[0, 0]) == -128 * 127 * 300


def test_order_of_dims_is_that_of_the_tensors() -> None:
    gemm = Gemm(orders=("K, M", "K, N", "N, M"))
    assert torch.allclose(reference(gemm.spec, A.T, B.T), B.double() @ A.double().T)


def test_empty_sum_is_the_start_value() -> None:
    result = reference(Gemm(value=3).spec, torch.empty(2, 0), torch.empty(4, 0))
    assert torch.equal(result, torch.full((2, 4), 3.0, dtype=torch.float64))


def test_wrong_number_of_inputs() -> None:
    with pytest.raises(ValueError, match=r"gemm takes 2 inputs \(a, b\), not 1\."):
        reference(Gemm().spec, A)


def test_sizes_that_contradict_each_other() -> None:
    with pytest.raises(ValueError, match=r"gemm: 'b' has K = 6, but K is 7\."):
        reference(Gemm().spec, A, B[:, :6])
    with pytest.raises(ValueError, match=r"gemm: 'a' has M = 5, but M is 8\."):
        reference(Gemm(dims=("value: 8", "", "")).spec, A, B)


def test_leading_dims_are_those_of_a_call() -> None:
    spec = load(Path(__file__).parents[2] / "specs" / "softmax.wave.yaml")
    x = torch.arange(2.0 * 3 * 5).view(2, 3, 5)
    for one in (x, x[0], x[0, 0]):
        assert torch.equal(reference(spec, one), reference(spec, one.reshape(-1, 5)).view(one.shape))


def test_a_wrong_number_of_dims() -> None:
    with pytest.raises(ValueError, match=r"gemm: 'a' has 1 dims, expected 2\."):
        reference(Gemm().spec, A[0], B)

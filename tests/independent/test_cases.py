"""Samples of OpInfo, node tests of ONNX and shapes of IREE: every one that is not left out is right on the CPU."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import pytest
import torch

from tests.independent.cases import (
    IREE_ATTENTIONS,
    IREE_CONVOLUTIONS,
    IREE_PRODUCTS,
    Case,
    onnx_cases,
    opinfo_cases,
)
from tests.independent.counts import COUNTS, count
from tests.independent.kernels import kernel
from tests.kernels import check_error, tensors_of

SUITES = {"opinfo": opinfo_cases, "onnx": onnx_cases}


def wrong(case: Case) -> str:
    """What is wrong with the result of a case, if anything."""
    assert case.plan is not None and case.exact is not None and case.theirs is not None
    plan = case.plan
    result = plan.back(tensors_of(kernel(plan.kernel)(*plan.inputs, **plan.scalars))[plan.output])
    if result.shape != case.exact.shape:
        return f"{case.name}: {tuple(result.shape)}, not {tuple(case.exact.shape)}"
    try:
        if not result.dtype.is_floating_point:
            assert torch.equal(result, case.exact.to(result.dtype)), "not equal"
        else:
            check_error(case.name, result, case.exact, case.theirs, least_ulps=4)
    except AssertionError as error:
        return f"{case.name}: {error}"
    return ""


@pytest.mark.rare
@pytest.mark.parametrize("suite", SUITES)
def test_cases_of_others_are_right(suite: str) -> None:
    make: Callable[[], Iterable[Case]] = SUITES[suite]
    cases = list(make())
    assert [problem for case in cases if case.plan is not None and (problem := wrong(case))] == []
    assert count(cases) == json.loads(COUNTS.read_text(encoding="utf-8"))[suite], (
        "run python -m tests.independent.counts"
    )


@pytest.mark.parametrize(("name", "most"), [("matmul_bf16", 2), ("matmul_f16", 4), ("gemm_f32", 8), ("gemm_i8", 2)])
def test_shapes_of_iree_are_exact(name: str, most: int) -> None:
    product, tiles = kernel(name), (16, 96, 192)
    edges = [(t + a, u + a, 48) for t, u in zip(tiles, tiles[::-1], strict=True) for a in (-1, 0, 1, t + 1)]
    dtype = {"matmul_bf16": torch.bfloat16, "matmul_f16": torch.float16, "gemm_f32": torch.float32}.get(
        name, torch.int8
    )
    for m, n, k in (*IREE_PRODUCTS, *edges):
        deep = -(-k // 16) * 16 if name == "gemm_i8" else k  # of which the spec promises multiples
        random = torch.Generator().manual_seed(m + n + k)
        a, b = (torch.randint(-most, most + 1, (rows, deep), generator=random) for rows in (m, n))
        result = product(a.to(dtype), b.to(dtype))
        assert torch.equal(result, (a.double() @ b.double().T).to(result.dtype)), (m, n, k)


@pytest.mark.parametrize(("name", "dtype"), [("conv2d_nhwc", torch.bfloat16), ("conv2d_nchw", torch.bfloat16)])
def test_convolutions_of_iree_are_exact(name: str, dtype: torch.dtype) -> None:
    """Channels beyond those asked for are zeros: the specs promise multiples of eight."""
    order = (0, 3, 1, 2) if name == "conv2d_nhwc" else (0, 1, 2, 3)
    tiles = [(1, 12, columns, 16, filters, 3, 2) for columns, filters in ((16, 95), (17, 96), (18, 97), (34, 193))]
    for images, height, width, channels, filters, *window in (*IREE_CONVOLUTIONS, *tiles):
        deep = -(-channels // 8) * 8
        random = torch.Generator().manual_seed(height + width + filters)
        x = torch.zeros(images, deep, height, width)
        weight = torch.zeros(filters, deep, *window)
        for tensor in (x, weight):
            drawn = torch.randint(-2, 3, (len(tensor), channels, *tensor.shape[2:]), generator=random)
            tensor[:, :channels] = drawn
        back = [order.index(axis) for axis in range(4)]
        result = kernel(name)(*(one.permute(back).contiguous().to(dtype) for one in (x, weight))).permute(order)
        exact = torch.nn.functional.conv2d(x.double(), weight.double(), padding=1)
        assert torch.equal(result, exact.to(result.dtype)), (images, height, width, channels, filters, *window)


@pytest.mark.parametrize(("name", "dtype"), [("attention", torch.bfloat16), ("attention_f32", torch.float32)])
def test_attentions_of_iree_err_as_those_of_torch(name: str, dtype: torch.dtype) -> None:
    attend, tiles = torch.nn.functional.scaled_dot_product_attention, (16, 128, 192)
    edges = [(1, t + a, u + a, 64, 64) for t, u in zip(tiles, tiles[::-1], strict=True) for a in (-1, 0, 1, t + 1)]
    for batch, m, n, d, e in (*IREE_ATTENTIONS, *edges):
        random = torch.Generator().manual_seed(m + n)
        shapes = ((batch, 1, m, d), (batch, 1, n, d), (batch, 1, n, e))
        q, k, v = (torch.randn(shape, generator=random).to(dtype) for shape in shapes)
        exact = attend(q.double(), k.double(), v.double())
        check_error(f"{name} {(batch, m, n, d, e)}", kernel(name)(q, k, v), exact, attend(q, k, v))

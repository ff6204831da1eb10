"""Samples of OpInfo, node tests of ONNX and shapes of IREE: every one that is not left out is right on the CPU."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import pytest
import torch

from tests.independent.cases import IREE_PRODUCTS, Case, onnx_cases, opinfo_cases
from tests.independent.counts import COUNTS, count
from tests.independent.kernels import kernel
from tests.kernels import check_error, tensors_of

SUITES = {"opinfo": opinfo_cases, "onnx": onnx_cases}


def wrong(case: Case) -> str:
    """What is wrong with the result of a case, if anything."""
    assert case.plan is not None and case.exact is not None and case.theirs is not None
    result = case.plan.back(tensors_of(kernel(case.plan.kernel)(*case.plan.inputs))[case.plan.output])
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

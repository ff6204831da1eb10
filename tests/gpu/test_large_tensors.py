"""Tensors of more than 2³¹ elements on an NVIDIA GPU: what lies behind that limit is as right as what lies before it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

ROWS, COLUMNS = 65544, 32776
"""More than 2³¹ together; 33 rows less are fewer."""
NEEDED_BYTES = 24 << 30

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.skipif(
        torch.cuda.is_available() and torch.cuda.get_device_properties(0).total_memory < NEEDED_BYTES,
        reason="the CUDA device has less than 24 GiB of memory",
    ),
]
ENDS = (slice(0, 50), slice(-50, None))


def whole(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Whole numbers from -4 to 4."""
    return torch.randint(-4, 5, shape, device="cuda", dtype=torch.int8).to(dtype)


def call(name: str, *arguments: Tensor) -> Any:
    return getattr(import_module(f"generated.{name}"), name)(*arguments)


def silu_and_mul(x: Tensor) -> Tensor:
    half = x.shape[1] // 2
    return (torch.nn.functional.silu(x[:, :half].float()) * x[:, half:].float()).bfloat16()


@pytest.mark.parametrize(
    ("name", "dtype", "expected", "relative"),
    [
        ("softmax", torch.float32, lambda x: torch.softmax(x, 1), 1e-5),
        ("log_softmax", torch.float32, lambda x: torch.log_softmax(x, 1), 1e-5),
        ("silu_and_mul", torch.bfloat16, silu_and_mul, 1e-2),
        ("cumsum", torch.float32, lambda x: torch.cumsum(x, 1), 0.0),
    ],
)
def test_rows(name: str, dtype: torch.dtype, expected: Callable[[Tensor], Tensor], relative: float) -> None:
    x = whole(ROWS, COLUMNS, dtype=dtype)
    y = call(name, x)
    for rows in ENDS:
        torch.testing.assert_close(y[rows], expected(x[rows]), rtol=relative, atol=0)


def test_transpose() -> None:
    x = whole(ROWS, COLUMNS)
    y = call("transpose", x)
    for rows in ENDS:
        assert torch.equal(y[rows], x[:, rows].T)


def test_sum_over_a_dim_and_largest_places() -> None:
    x = whole(8, ROWS // 8, COLUMNS)
    assert torch.equal(call("sum_dim", x), x.sum(1))
    assert torch.equal(call("argmax", x.view(ROWS, COLUMNS))[-50:], x.view(ROWS, COLUMNS)[-50:].argmax(1))


def test_product_with_a_large_result_and_with_a_large_operand() -> None:
    a, b = whole(ROWS, 64, dtype=torch.bfloat16), whole(COLUMNS, 64, dtype=torch.bfloat16)
    c = call("gemm_bf16", a, b)
    for rows in ENDS:
        assert torch.equal(c[rows], a[rows].float() @ b.float().T)
    del c
    a = whole(ROWS, COLUMNS, dtype=torch.bfloat16)
    b = whole(8, COLUMNS, dtype=torch.bfloat16)
    c = call("gemm_bf16", a, b)
    for rows in ENDS:
        assert torch.equal(c[rows], a[rows].float() @ b.float().T)


def test_rows_of_a_large_table() -> None:
    table = whole(ROWS, COLUMNS, dtype=torch.bfloat16)
    token = torch.tensor([0, ROWS - 1, 7, ROWS - 2], device="cuda")
    assert torch.equal(call("embedding", token, table), table[token])
    sums, x = torch.zeros(ROWS, COLUMNS, device="cuda"), whole(4, COLUMNS)
    call("scatter_add", sums, token, x)
    assert torch.equal(sums[token], x) and int(sums.count_nonzero()) == int(x.count_nonzero())

"""Generated functions on an NVIDIA GPU, called as programs do: from threads, in a first capture, with many rows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def call(name: str, *arguments: Tensor, **numbers: Any) -> Any:
    return getattr(import_module(f"generated.{name}"), name)(*arguments, **numbers)


def whole(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Whole numbers from -4 to 4."""
    return torch.randint(-4, 5, shape, device="cuda", dtype=torch.int8).to(dtype)


def test_a_thread_whose_first_call_has_tensor_maps() -> None:
    """It has no context of the driver yet, which encodes maps in one."""
    a, b = whole(256, 256, dtype=torch.bfloat16), whole(256, 256, dtype=torch.bfloat16)
    expected, made = a @ b.T, torch.empty_like(a)
    torch.cuda.synchronize()
    for out in (None, made):
        with ThreadPoolExecutor(1) as thread:
            result = thread.submit(call, "matmul", a, b, out=out).result()
        torch.cuda.synchronize()
        assert torch.equal(result, expected)


def test_a_first_call_may_be_captured() -> None:
    x = torch.randn(37, 1111, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = call("log_softmax", x)
    graph.replay()
    torch.testing.assert_close(y, torch.log_softmax(x, 1))


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("sum_dim", (70_001, 16, 64), lambda x: x.sum(1)),
        ("sum_dim", (3_000_000, 4, 3), lambda x: x.sum(1)),
        ("add_broadcast", (1_000_001, 16), lambda x: x + torch.arange(16, device="cuda")),
        ("silu_and_mul", (1_500_000, 32), lambda x: torch.nn.functional.silu(x[:, :16]) * x[:, 16:]),
    ],
)
def test_rows_of_any_number(name: str, shape: tuple[int, ...], expected: Callable[[Tensor], Tensor]) -> None:
    x = whole(*shape)
    others = (torch.arange(16.0, device="cuda"),) if name == "add_broadcast" else ()
    torch.testing.assert_close(call(name, x, *others), expected(x))


def test_pixels_of_any_number() -> None:
    x, w = whole(256, 3, 224, 224, dtype=torch.bfloat16), whole(64, 3, 3, 3, dtype=torch.bfloat16)
    y = call("conv2d_nchw", x, w)
    for images in (slice(0, 1), slice(-1, None)):
        torch.testing.assert_close(y[images], torch.nn.functional.conv2d(x[images], w, padding=1))


@pytest.mark.parametrize("columns", [80, 400, 4000])
@pytest.mark.parametrize("depth", [136, 512])
def test_short_sums_of_f32_err_at_most_twice_as_much_as_torch(columns: int, depth: int) -> None:
    a, b = torch.randn(64, depth, device="cuda"), torch.randn(columns, depth, device="cuda")
    exact = a.double() @ b.double().T
    assert (call("gemm_f32", a, b) - exact).norm() <= 2 * (a @ b.T - exact).norm()

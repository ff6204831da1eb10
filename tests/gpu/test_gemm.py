"""GEMMs on an NVIDIA GPU: exact on integers, as close as torch otherwise, and inside their outputs."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from tests.lower.gemms import Gemm
from tests.lower.hopper_gemms import CLUSTERS, PING_PONG, TOGETHER, hopper_gemm
from wavespec.runtime import Kernel

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.skipif(
        torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0),
        reason="the CUDA device is no sm_90",
    ),
]
ROWS_OF_16 = ("", "multiple_of: 8", "multiple_of: 16")
CASES = {
    "f16": Gemm("f16", (128, 128, 32), (64, 64), dims=("", "", "multiple_of: 8"), stages=3),
    "bf16": Gemm("bf16", (256, 128, 64), (64, 64), dims=("", "", "multiple_of: 8"), stages=4),
    "i8": Gemm("i8", (128, 128, 64), (64, 64), dims=("", "", "multiple_of: 16"), stages=4),
    "f32": Gemm("f32", (128, 128, 32), (32, 64), dims=("", "", "multiple_of: 4"), stages=3),
    "f32, any K": Gemm("f32", (128, 128, 32), (32, 64)),
    "f32, three products": Gemm(
        "f32", (128, 128, 32), (32, 64), "mma3_m16n8k8_f32", ("", "", "multiple_of: 4"), stages=3
    ),
    "f16, one stage": Gemm("f16", (128, 128, 32), (64, 64)),
    "f16, roles": hopper_gemm(tile=(128, 256, 64), wave=(64, 256), stages=4),
    "bf16, in turns": hopper_gemm(dtype="bf16", tile=(128, 128, 64), wave=(128, 128), schedule=PING_PONG, stages=5),
    "f16, clusters": hopper_gemm(tile=(128, 176, 64), wave=(64, 176), schedule=CLUSTERS),
    "i8, roles": hopper_gemm(dtype="i8", tile=(128, 128, 128), dims=ROWS_OF_16, wave=(64, 128)),
    "f16, few rows": hopper_gemm(tile=(16, 64, 128), wave=(16, 64), schedule=TOGETHER, stages=6),
    "f16, split": hopper_gemm(
        tile=(64, 64, 64), wave=(64, 64), schedule=f"{TOGETHER}, workgroups: {{split: 4}}", stages=6
    ),
    "f16, columns": hopper_gemm(orders=("K, M", "K, N", "M, N"), dims=("multiple_of: 8",) * 3),
    "f16, a in registers": hopper_gemm(spaces=("global", "shared")),
    "f16, copied by lanes": hopper_gemm(dims=("", "multiple_of: 8", "multiple_of: 2"), stages=4),
}
TORCH = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "i8": torch.int8}


@cache
def kernel(name: str) -> Kernel:
    pytest.importorskip("iree.compiler", reason="the compiler is not installed")
    from wavespec.pipeline import build

    return Kernel(build(CASES[name].spec, "sm_90"))


def fitted(name: str, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    """The sizes, rounded up to what the kernel's spec promises."""
    multiples = [int(promise.removeprefix("multiple_of: ") or 1) for promise in CASES[name].dims]
    m, n, k = (-(-size // multiple) * multiple for size, multiple in zip(sizes, multiples, strict=True))
    return m, n, k


def operands(name: str, sizes: tuple[int, int, int], integers: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """a[M, K] and b[N, K], in memory as the kernel has them."""
    m, n, k = sizes
    generator = torch.Generator("cuda").manual_seed(0)
    dtype = TORCH[CASES[name].dtype]
    if integers or not dtype.is_floating_point:
        made = [torch.randint(-3, 4, (rows, k), device="cuda", generator=generator) for rows in (m, n)]
    else:
        made = [torch.randn((rows, k), device="cuda", generator=generator) for rows in (m, n)]
    return made[0].to(dtype), made[1].to(dtype)


def as_kernel_has(name: str, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The operands with the order of dims of the kernel's spec."""
    columns = [order.startswith("K") for order in CASES[name].orders[:2]]
    first, second = (one.T.contiguous() if turned else one for one, turned in zip((a, b), columns, strict=True))
    return first, second


@pytest.mark.parametrize("sizes", [(256, 256, 256), (130, 143, 208), (1, 1, 16), (257, 8, 48), (64, 64, 0)])
@pytest.mark.parametrize("name", CASES)
def test_exact_on_integers_and_inside_the_output(name: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = fitted(name, sizes)
    a, b = operands(name, (m, n, k), integers=True)
    exact = a.double() @ b.double().T
    given = as_kernel_has(name, a, b)
    whole = torch.full((m + 1, n), -77, device="cuda", dtype=kernel(name)(*given).dtype)
    kernel(name)(*given, out=whole[:-1])
    assert torch.equal(whole[:-1].double(), exact)
    assert bool((whole[-1] == -77).all())


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].dtype != "i8"])
def test_error_within_twice_that_of_torch(name: str) -> None:
    a, b = operands(name, (512, 512, 2048), integers=False)
    exact = a.double() @ b.double().T
    theirs = torch.mm(a, b.T) if a.dtype is torch.float32 else torch.mm(a, b.T, out_dtype=torch.float32)
    ours = kernel(name)(*as_kernel_has(name, a, b))
    assert (ours - exact).norm() <= 2 * (theirs - exact).norm()


def test_launches_can_be_captured_in_a_graph() -> None:
    a, b = operands("f16", (256, 256, 256), integers=True)
    c = kernel("f16")(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel("f16")(a, b, out=c)
    expected = c.clone()
    c.zero_()
    graph.replay()
    assert torch.equal(c, expected)

"""What is committed in `generated/`: every spec has its wrapper, and each behaves under torch as people expect of an operator."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import wavespec as ws

ROOT = Path(__file__).parents[1]
SPECS = sorted(path.name.removesuffix(".wave.yaml") for path in (ROOT / "specs").glob("*.wave.yaml"))
DTYPES = {"gemm": torch.float16, "gemm_f32": torch.float32, "gemm_bf16": torch.bfloat16, "gemm_i8": torch.int8}


def operands(name: str, m: int, n: int, k: int) -> tuple[Tensor, Tensor]:
    """Integer-valued, so that results are exact whatever the order of the sum."""
    return tuple(torch.randint(-4, 5, shape).to(DTYPES[name]) for shape in ((m, k), (n, k)))  # pyright: ignore


def product(a: Tensor, b: Tensor) -> Tensor:
    return (a.double() @ b.double().T).to(torch.int32 if a.dtype == torch.int8 else torch.float32)


@pytest.fixture(params=SPECS)
def kernel(request: pytest.FixtureRequest) -> tuple[str, Any]:
    name: str = request.param
    return name, getattr(import_module(f"generated.{name}"), name)


def test_there_is_a_wrapper_for_every_spec() -> None:
    assert sorted(path.stem for path in (ROOT / "generated").glob("*.py") if path.stem != "__init__") == SPECS


@pytest.mark.parametrize("sizes", [(64, 48, 32), (577, 513, 400), (1, 1, 16), (5, 3, 0), (0, 4, 16), (4, 0, 16)])
def test_result_is_exact_on_integers(kernel: tuple[str, Any], sizes: tuple[int, int, int]) -> None:
    name, call = kernel
    a, b = operands(name, *sizes)
    assert torch.equal(call(a, b), product(a, b))


def test_out_is_written_and_returned(kernel: tuple[str, Any]) -> None:
    name, call = kernel
    a, b = operands(name, 33, 20, 64)
    out = torch.full_like(product(a, b), 7)
    assert call(a, b, out=out) is out
    assert torch.equal(out, product(a, b))


def test_error_is_at_most_twice_that_of_torch(kernel: tuple[str, Any]) -> None:
    name, call = kernel
    if name == "gemm_i8":
        a, b = operands(name, 200, 100, 1024)
        assert torch.equal(call(a, b), product(a, b))
        return
    a, b = (torch.randn(size, 1024).to(DTYPES[name]) for size in (200, 100))
    exact = a.double() @ b.double().T
    theirs = (a.float() @ b.float().T).double()  # f32 accumulation and result, as the spec says
    assert (call(a, b).double() - exact).abs().max() <= 2 * (theirs - exact).abs().max()


def test_operators_pass_opcheck(kernel: tuple[str, Any]) -> None:
    name, _ = kernel
    module = import_module(f"generated.{name}")
    a, b = operands(name, 24, 40, 32)
    for inputs in ((a, b), (a.T.contiguous().T, b)):
        torch.library.opcheck(module.__dict__[f"_{name}_op"], inputs)
    out = product(a, b)
    torch.library.opcheck(module.__dict__[f"_{name}_out_op"], (a, b), {"out": out})


def test_compiles_whole_with_dynamic_shapes(kernel: tuple[str, Any]) -> None:
    name, call = kernel

    def model(a: Tensor, b: Tensor) -> Tensor:
        return call(a, b) * 2

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for sizes in ((64, 48, 32), (30, 70, 96)):
        a, b = operands(name, *sizes)
        assert torch.equal(compiled(a, b), product(a, b) * 2)


def test_wrong_dtype_names_the_argument(kernel: tuple[str, Any]) -> None:
    name, call = kernel
    a, b = operands(name, 8, 8, 16)
    with pytest.raises(ws.ArgumentError, match=r"'b'.*(float64|dtype)"):
        call(a, b.double())


def test_runs_where_compiler_pydantic_and_sympy_are_missing() -> None:
    script = """
import sys
for name in ("iree.compiler", "pydantic", "pydantic_core", "sympy", "yaml", "typer", "rich"):
    sys.modules[name] = None
import torch
from generated.gemm import gemm
a = torch.randint(-4, 5, (70, 64)).half()
assert torch.equal(gemm(a, a), (a.float() @ a.float().T))
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=120)

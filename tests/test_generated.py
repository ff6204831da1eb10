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
from tests.specs import FAMILIES, KERNELS
from wavespec.schema.resolve import targets_of

ROOT = Path(__file__).parents[1]
SPECS = {path.name.removesuffix(".wave.yaml"): ws.load(path) for path in KERNELS}
ON_CPU = [name for name, spec in SPECS.items() if "cpu" in targets_of(spec)]
APPROXIMATE = {"layer_norm", "linear_gelu", "log_softmax", "rms_norm", "softmax"}  # no whole numbers come out of it


def operands(name: str, m: int, n: int, k: int, *, whole: bool = True) -> tuple[Tensor, ...]:
    """Inputs of a spec: integer-valued, so that sums are exact in any order, or normal numbers; the same every time,
    because largest errors of some thousand elements differ by half from sample to sample."""
    sizes, generator = {"M": m, "N": n, "K": k}, torch.Generator().manual_seed(k)
    made: list[Tensor] = []
    for tensor in SPECS[name].tensors.values():
        if tensor.role == "input":
            shape, dtype = [sizes[dim] for dim in tensor.shape], torch_dtype(tensor.dtype)
            numbers = (
                torch.randint(-4, 5, shape, generator=generator) if whole else torch.randn(shape, generator=generator)
            )
            made.append(numbers.to(dtype))
    return tuple(made)


def torch_dtype(name: str) -> torch.dtype:
    return {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8, "i32": torch.int32}[
        name
    ]


def expected(name: str, inputs: tuple[Tensor, ...]) -> Tensor:
    """What the spec means, in f64, rounded to the type of its result."""
    output = next(tensor for tensor in SPECS[name].tensors.values() if tensor.role == "output")
    return ws.reference(SPECS[name], *inputs).to(torch_dtype(output.dtype))


def same(name: str, result: Tensor, wanted: Tensor) -> bool:
    if name not in APPROXIMATE:
        return torch.equal(result, wanted)
    return result.dtype == wanted.dtype and torch.allclose(result.double(), wanted.double(), rtol=1e-2, atol=1e-2)


@pytest.fixture(params=ON_CPU)
def kernel(request: pytest.FixtureRequest) -> tuple[str, Any]:
    name: str = request.param
    return name, getattr(import_module(f"generated.{name}"), name)


def test_there_is_a_wrapper_for_every_spec() -> None:
    names = sorted([*SPECS, *(path.name.removesuffix(".wave.yaml") for path in FAMILIES)])
    assert sorted(path.stem for path in (ROOT / "generated").glob("*.py") if path.stem != "__init__") == names


@pytest.mark.parametrize("sizes", [(64, 48, 32), (577, 513, 400), (1, 1, 16), (5, 3, 0), (0, 4, 16), (4, 0, 16)])
def test_result_is_exact_on_integers(kernel: tuple[str, Any], sizes: tuple[int, int, int]) -> None:
    name, call = kernel
    inputs = operands(name, *sizes)
    assert same(name, call(*inputs), expected(name, inputs))


def test_out_is_written_and_returned(kernel: tuple[str, Any]) -> None:
    name, call = kernel
    inputs = operands(name, 33, 20, 64)
    out = torch.full_like(expected(name, inputs), 7)
    assert call(*inputs, out=out) is out
    assert same(name, out, expected(name, inputs))


def test_error_is_at_most_twice_that_of_torch(kernel: tuple[str, Any]) -> None:
    name, call = kernel
    inputs = operands(name, 200, 100, 1024, whole=name == "gemm_i8")
    exact = ws.reference(SPECS[name], *inputs).double()
    theirs = ws.reference(SPECS[name], *inputs, compute=None).double()  # in the types that the spec says
    assert (call(*inputs).double() - exact).abs().max() <= 2 * (theirs - exact).abs().max()


def test_operators_pass_opcheck(kernel: tuple[str, Any]) -> None:
    name, _ = kernel
    module = import_module(f"generated.{name}")
    a, *others = operands(name, 24, 40, 32)
    for first in (a, a.T.contiguous().T):
        torch.library.opcheck(module.__dict__[f"_{name}_op"], (first, *others))
    out = expected(name, (a, *others))
    torch.library.opcheck(module.__dict__[f"_{name}_out_op"], (a, *others, out))


def test_compiles_whole_with_dynamic_shapes(kernel: tuple[str, Any]) -> None:
    name, call = kernel
    torch.compiler.reset()  # it takes every kernel for a new shape of the same function, and gives up after eight

    def model(inputs: tuple[Tensor, ...]) -> Tensor:
        return call(*inputs) * 2

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for sizes in ((64, 48, 32), (30, 70, 96)):
        inputs = operands(name, *sizes)
        assert same(name, compiled(inputs), expected(name, inputs) * 2)


def test_wrong_dtype_names_the_argument(kernel: tuple[str, Any]) -> None:
    name, call = kernel
    *others, last = operands(name, 8, 8, 16)
    argument = [tensor for tensor, described in SPECS[name].tensors.items() if described.role == "input"][-1]
    with pytest.raises(ws.ArgumentError, match=rf"'{argument}'.*(float64|dtype)"):
        call(*others, last.double())


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

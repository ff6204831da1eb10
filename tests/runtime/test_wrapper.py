"""Generated wrappers as torch sees them: eager, opcheck, torch.compile, torch.export, and without the
compiler at hand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.runtime.generated import import_wrapper, write_wrapper
from tests.runtime.standins import gemm_artifact, scaled_artifact
from wavespec.runtime import ArgumentError, ArgumentTypeError, ArtifactError
from wavespec.runtime.artifact import Backend


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("generated")
    write_wrapper(gemm_artifact(), directory)
    write_wrapper(scaled_artifact(), directory)
    return directory


@pytest.fixture(scope="module")
def gemm(directory: Path) -> ModuleType:
    return import_wrapper(directory / "gemm.py")


@pytest.fixture(scope="module")
def scaled(directory: Path) -> ModuleType:
    return import_wrapper(directory / "scaled.py")


def _integers(*shape: int) -> Tensor:
    return torch.randint(-4, 5, shape).float()


def test_eager(gemm: ModuleType) -> None:
    a, b, c = _integers(33, 17), _integers(9, 17), torch.empty(33, 9)
    assert torch.equal(gemm.gemm(a, b), a @ b.T)
    assert gemm.gemm(a, b, out=c).data_ptr() == c.data_ptr()
    assert torch.equal(c, a @ b.T)
    gemm.gemm_raw(a, b, c.zero_())
    assert torch.equal(c, a @ b.T)


def test_several_outputs(scaled: ModuleType) -> None:
    x = _integers(1000)
    outs = (torch.empty(1000), torch.empty(1000))
    double, triple = scaled.scaled(x, out=outs)
    assert torch.equal(outs[0], 2 * x) and torch.equal(triple, 3 * x) and double.data_ptr() == outs[0].data_ptr()


@pytest.mark.parametrize("transposed", [False, True])
def test_opcheck_of_the_functional_operator(gemm: ModuleType, scaled: ModuleType, transposed: bool) -> None:
    a = _integers(17, 33).t() if transposed else _integers(33, 17)
    torch.library.opcheck(gemm._gemm_op, (a, _integers(9, 17)))
    torch.library.opcheck(scaled._scaled_op, (_integers(100),))


def test_opcheck_of_the_operator_that_writes_out(gemm: ModuleType, scaled: ModuleType) -> None:
    torch.library.opcheck(gemm._gemm_out_op, (_integers(33, 17), _integers(9, 17)), {"out": torch.empty(33, 9)})
    outs = {"double": torch.empty(100), "triple": torch.empty(100)}
    torch.library.opcheck(scaled._scaled_out_op, (_integers(100),), outs)


def _compiled(function: Any, backend: str) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, dynamic=True, backend=backend)


# Inductor takes half a minute to start, so it sees one function that has everything.
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.rare)])
def test_compile_with_dynamic_shapes(gemm: ModuleType, scaled: ModuleType, backend: str) -> None:
    def function(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        product = gemm.gemm(a + 1, b)
        gemm.gemm(a, b, out=out)
        double, triple = scaled.scaled(product.reshape(-1))
        return (double + triple).reshape(product.shape) + out

    compiled = _compiled(function, backend)
    for m in (5, 6, 33):
        a, b, out = _integers(m, 17), _integers(9, 17), torch.empty(m, 9)
        assert torch.equal(compiled(a, b, out), 5 * ((a + 1) @ b.T) + a @ b.T)
        assert torch.equal(out, a @ b.T)


def test_compile_reports_a_wrong_shape_by_the_name_of_the_argument(gemm: ModuleType) -> None:
    with pytest.raises(Exception, match="gemm: argument 'b' has another K in dim 1 than 'a'"):
        _compiled(lambda a, b: gemm.gemm(a, b), "aot_eager")(_integers(4, 8), _integers(3, 9))


def test_export_with_a_dynamic_dim(gemm: ModuleType) -> None:
    class Product(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return gemm.gemm(a, b)

    shapes = {"a": {0: torch.export.Dim("m", min=2, max=64)}, "b": None}
    program = torch.export.export(Product(), (_integers(8, 17), _integers(9, 17)), dynamic_shapes=shapes)
    a, b = _integers(21, 17), _integers(9, 17)
    assert torch.equal(program.module()(a, b), a @ b.T)


def test_wrong_calls_name_the_argument(gemm: ModuleType) -> None:
    a, b = _integers(4, 8), _integers(3, 8)
    with pytest.raises(ArgumentError, match="gemm: argument 'b' has K = 7 in dim 1, but 'a' has K = 8 in dim 1"):
        gemm.gemm(a, b[:, :7])
    with pytest.raises(ArgumentTypeError, match=r"gemm: argument 'b' has dtype torch\.int32, expected torch\.float32"):
        gemm.gemm(a, b.int())
    with pytest.raises(ArgumentError, match=r"gemm: argument 'out' has shape \[3, 4\], expected \[4, 3\] = \[M, N\]"):
        gemm.gemm(a, b, out=torch.empty(3, 4))
    with pytest.raises(ArgumentError, match="'b' requires grad, but this kernel has no backward"):
        gemm.gemm(a, b.requires_grad_())


def test_loading_the_module_again_replaces_its_operators(directory: Path) -> None:
    a, b = _integers(4, 8), _integers(3, 8)
    for _ in range(2):
        assert torch.equal(import_wrapper(directory / "scaled.py").scaled(a[0])[0], 2 * a[0])
        assert torch.equal(import_wrapper(directory / "gemm.py").gemm(a, b), a @ b.T)


def test_two_copies_of_a_wrapper_keep_their_own_code(tmp_path: Path) -> None:
    """One spec, vendored twice: both are imported, and each calls the code that lies beside it."""
    artifact = replace(scaled_artifact(), spec_sha256="44" * 32)
    first, second = (import_wrapper(write_wrapper(artifact, tmp_path / name)) for name in ("first", "second"))
    for file in (tmp_path / "second" / "scaled.artifacts").iterdir():
        file.unlink()
    x = _integers(8)
    assert torch.equal(first.scaled(x)[0], 2 * x)
    with pytest.raises(ArtifactError, match="there is nothing"):
        second.scaled(x)


def test_artifacts_of_another_version_of_the_spec_are_refused(tmp_path: Path) -> None:
    artifact = replace(scaled_artifact(), spec_sha256="11" * 32)
    module = import_wrapper(write_wrapper(artifact, tmp_path))
    write_wrapper(replace(artifact, spec_sha256="22" * 32), tmp_path)
    with pytest.raises(ArtifactError, match=r"scaled\.artifacts/cpu\.json are of different versions"):
        module.scaled(_integers(8))


@pytest.mark.parametrize(
    ("target", "backend", "architecture"),
    [("sm_90", "cuda", "sm_90a"), ("cpu", "cpu", "ppc64le"), ("cpu", "cpu", "a+b")],
)
def test_missing_target_says_what_was_built(target: str, backend: Backend, architecture: str, tmp_path: Path) -> None:
    """Another device, or a CPU of another architecture."""
    artifact = replace(
        scaled_artifact(), target=target, backend=backend, architecture=architecture, spec_sha256="33" * 32
    )
    module = import_wrapper(write_wrapper(artifact, tmp_path))
    there = re.escape(f"there is {target} ({architecture}).")
    with pytest.raises(ArtifactError, match=rf"scaled: nothing was built for cpu .*; {there}"):
        module.scaled(_integers(8))


_WITHOUT_COMPILER = """
import sys
sys.dont_write_bytecode = True

class Blocked:
    names = ("pydantic", "sympy", "yaml", "jinja2", "iree.compiler", "typer", "rich")
    def find_spec(self, name, path=None, target=None):
        ours = name == "wavespec.ir" or name.startswith(
            ("wavespec.runtime", "wavespec.version", "wavespec.architecture", "wavespec.ir.dtype", "wavespec.ir.strided")
        )
        theirs = any(name == blocked or name.startswith(blocked + ".") for blocked in self.names)
        if theirs or (name.startswith("wavespec.") and not ours):
            raise ImportError(f"{name} is not installed here")

import torch  # torch itself may use sympy
for name in [name for name in sys.modules if name.split(".")[0] in Blocked.names]:
    del sys.modules[name]
sys.meta_path.insert(0, Blocked())
sys.path.insert(0, sys.argv[1])
from gemm import gemm
a, b = torch.ones(5, 8), torch.ones(3, 8)
assert torch.equal(gemm(a, b), torch.full((5, 3), 8.0))
"""


def test_wrapper_runs_without_the_compiler_and_its_libraries(directory: Path) -> None:
    root = str(Path(__file__).resolve().parents[2])
    environment = os.environ | {"PYTHONPATH": root}
    run = subprocess.run(
        [sys.executable, "-c", _WITHOUT_COMPILER, str(directory)],
        env=environment,
        timeout=60,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:The PyTorch API of nested")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda a: a.numpy(), "argument 'a' is of type ndarray, expected a torch.Tensor."),
        (lambda a: a.tolist(), "argument 'a' is of type list, expected a torch.Tensor."),
        (lambda a: 1.0, "argument 'a' is of type float, expected a torch.Tensor."),
        (lambda a: a.to_sparse(), "argument 'a' has layout torch.sparse_coo, expected a dense tensor."),
        (lambda a: torch.nested.nested_tensor([a, a]), "argument 'a' is a nested tensor, expected a dense one."),
    ],
)
def test_what_is_no_dense_tensor_is_told_by_the_name_of_the_argument(
    gemm: ModuleType, given: Any, message: str
) -> None:
    """torch's own words had the name of an operator, and all numbers of the argument."""
    b = _integers(9, 17)
    with pytest.raises(ArgumentTypeError, match=re.escape(f"gemm: {message}")):
        gemm.gemm(given(_integers(33, 17)), b)
    with pytest.raises(ArgumentTypeError, match="argument 'out' is of type int, expected"):
        gemm.gemm(_integers(33, 17), b, out=5)


def test_too_few_and_too_many_results_are_counted(scaled: ModuleType) -> None:
    x = _integers(10)
    for count in (1, 3):
        with pytest.raises(ArgumentTypeError, match=rf"'out' takes 2 tensors \(double, triple\), got {count}\."):
            scaled.scaled(x, out=(torch.empty(10),) * count)
    with pytest.raises(ArgumentTypeError, match=r"'out' takes 2 tensors \(double, triple\), got 1\."):
        scaled.scaled(_integers(11), out=torch.empty(2, 11))  # its rows would be as many

"""What is committed in `generated/`: every spec has its wrapper, and each behaves under torch as people expect of an operator."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import wavespec as ws
from tests.kernels import Sizes, Subject, subjects, tensors_of
from tests.specs import FAMILIES, KERNELS

ROOT = Path(__file__).parents[1]
KINDS = ("argmax", "attention_paged", "gemm", "matmul_mxf8", "scatter_add", "topk")
"""Kernels with a result of integers, places in tables, a plain result, floats that torch cannot copy, an argument that
is changed, and two outputs."""
TEMPLATES = {path.name.removesuffix(".wave.yaml") for path in FAMILIES}
SUBJECTS = {subject.name: subject for subject in subjects("cpu") if subject.file not in TEMPLATES}
"""Without members of templates, whose functions have arguments of their own."""


def largest(subject: Subject) -> Sizes:
    """Of the small sizes, the one with most elements; none of its extents is 0."""
    return max(subject.row.small, key=lambda sizes: prod(sizes.values()))


def in_place(subject: Subject) -> bool:
    """Whether calls change an argument, and there is nothing else that they write."""
    return all(tensor.role != "output" for tensor in subject.spec.tensors.values())


def not_contiguous(subject: Subject, first: Tensor) -> Tensor:
    """The numbers of the first argument in a view, of which the last dim is dense where a kernel reads views."""
    if next(iter(subject.spec.tensors.values())).strides != "any":
        return first.mT.contiguous().mT
    return first.new_zeros((*first.shape[:-1], first.shape[-1] + 8))[..., : first.shape[-1]].copy_(first)


def cloned(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """For a call: some kernels change them."""
    return tuple(tensor.clone() for tensor in inputs)


def checks(tensors: Sequence[Tensor]) -> tuple[str, ...]:
    """Of `opcheck`, those that torch can do: it neither copies nor compares floats of 8 bits and less on CPUs."""
    small = any(tensor.dtype.is_floating_point and tensor.dtype.itemsize == 1 for tensor in tensors)
    every = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    return every[1:3] if small else every


def copied(outputs: Sequence[Tensor], value: int) -> Any:
    """What `out=` takes: a tensor, or a tuple of them."""
    made = tuple(torch.empty_like(output) for output in outputs)
    for output in made:  # torch does not fill all types of 8 bits and less
        (output.view(torch.uint8) if output.dtype.itemsize == 1 else output).fill_(value)
    return made if len(made) > 1 else made[0]


every_kernel = pytest.mark.parametrize("kernel", SUBJECTS, indirect=True)
quickly_one_of_a_kind = pytest.mark.parametrize(
    "kernel",
    [pytest.param(name, marks=[] if name in KINDS else [pytest.mark.rare]) for name in SUBJECTS],
    indirect=True,
)


@pytest.fixture
def kernel(request: pytest.FixtureRequest) -> tuple[Subject, Any]:
    name: str = request.param
    file = SUBJECTS[name].file
    return SUBJECTS[name], getattr(import_module(f"generated.{file}"), file)


def test_there_is_a_wrapper_for_every_spec() -> None:
    names = sorted(path.name.removesuffix(".wave.yaml") for path in (*KERNELS, *FAMILIES))
    assert sorted(path.stem for path in (ROOT / "generated").glob("*.py") if path.stem != "__init__") == names


@every_kernel
@pytest.mark.compiles
def test_results_are_right(kernel: tuple[Subject, Any]) -> None:
    """At small sizes, 0 among them; the same code runs at others in `tests/cpu`."""
    subject, call = kernel
    for sizes in subject.row.small:
        inputs = subject.inputs(sizes)
        subject.check(inputs, tensors_of(call(*cloned(inputs))), sizes)


@every_kernel
@pytest.mark.compiles
def test_out_is_written_and_returned(kernel: tuple[Subject, Any]) -> None:
    subject, call = kernel
    sizes = largest(subject)
    inputs = subject.inputs(sizes)
    if in_place(subject):
        changed = cloned(inputs)
        out = call(*changed)
        assert out is changed[0]
        subject.check(inputs, tensors_of(out), sizes)
        return
    out = copied(tensors_of(call(*inputs)), 1)
    assert call(*inputs, out=out) is out
    subject.check(inputs, tensors_of(out), sizes)


@quickly_one_of_a_kind
@pytest.mark.compiles
def test_operators_pass_opcheck(kernel: tuple[Subject, Any]) -> None:
    subject, call = kernel
    module = import_module(f"generated.{subject.file}")
    a, *others = inputs = subject.inputs(largest(subject))
    any_strides = a.ndim > 1 and not in_place(subject)
    outputs = tensors_of(call(*cloned(inputs)))
    possible = checks((*inputs, *outputs))
    for first in (a, not_contiguous(subject, a)) if any_strides else (a,):
        operator = module.__dict__[f"_{subject.file}_op"]
        torch.library.opcheck(operator, (first, *others), test_utils=possible)
    if not in_place(subject):
        operator = module.__dict__[f"_{subject.file}_out_op"]
        torch.library.opcheck(operator, (*inputs, *outputs), test_utils=possible)


@quickly_one_of_a_kind
@pytest.mark.compiles
def test_compiles_whole_with_dynamic_shapes(kernel: tuple[Subject, Any]) -> None:
    subject, call = kernel
    torch.compiler.reset()  # it takes every kernel for a new shape of the same function, and gives up after eight

    def model(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(output.clone() for output in tensors_of(call(*inputs)))

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for sizes in [sizes for sizes in subject.row.small if 0 not in sizes.values()][-2:]:
        inputs = subject.inputs(sizes)
        subject.check(inputs, compiled(cloned(inputs)), sizes)


@every_kernel
def test_wrong_dtype_names_the_argument(kernel: tuple[Subject, Any]) -> None:
    subject, call = kernel
    *others, last = subject.inputs(largest(subject))
    argument = [name for name, described in subject.spec.tensors.items() if described.role == "input"][-1]
    with pytest.raises(ws.ArgumentError, match=rf"'{argument}'.*(complex64|dtype)"):
        call(*others, last.to(torch.complex64))


@pytest.mark.compiles
def test_what_was_called_before_runs_where_compiler_pydantic_and_sympy_are_missing() -> None:
    ones = torch.ones(70, 64).half()
    import_module("generated.gemm").gemm(ones, ones)
    script = """
import sys
for name in ("iree.compiler", "jinja2", "pydantic", "pydantic_core", "sympy", "yaml", "typer", "rich"):
    sys.modules[name] = None
import torch
from generated.gemm import gemm
a = torch.randint(-4, 5, (70, 64)).half()
assert torch.equal(gemm(a, a), (a.float() @ a.float().T))
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=120)

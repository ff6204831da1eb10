"""Kernels have no derivative: whatever would lose one, or use tensors that were written since, is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from tests.runtime.generated import import_wrapper, write_wrapper
from wavespec.pipeline import best_variant, build
from wavespec.runtime import ArgumentError, Kernel
from wavespec.schema import loads

pytestmark = pytest.mark.compiles

# double is written anew or by out=, count is changed in place
SPEC = """apiVersion: wavespec/v1
kind: Kernel
name: counted
dims: {M: {}, O: {value: 1}}
tensors:
  x: {shape: [M], dtype: f32}
  count: {shape: [O], dtype: f32, role: inout}
  double: {shape: [M], dtype: f32, role: output}
constraints: [{workgroup: M, tile: 64, axis: 0}]
graph:
  - value: {read: x}
  - twice: "value * 2"
  - {write: value, to: count, at: {O: 0}, combine: add}
  - {write: twice, to: double}
"""
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Call]:
    """The ways to call one kernel, each as `call(x, count, out)`."""
    artifact = replace(build(loads(SPEC), "cpu", only=best_variant("cpu")), spec_sha256="c0de" * 16)
    module: ModuleType = import_wrapper(write_wrapper(artifact, tmp_path_factory.mktemp("derivatives")))
    kernel = Kernel(artifact)
    return {
        "wrapper": lambda x, count, out: module.counted(x, count, out=out),
        "wrapper, new result": lambda x, count, out: module.counted(x, count),
        "operator": module._counted_out_op,
        "operator, new result": lambda x, count, out: module._counted_op(x, count),
        "kernel": lambda x, count, out: kernel(x, count, out=out),
        "kernel, new result": lambda x, count, out: kernel(x, count),
        "raw": module.counted_raw,
        "kernel.raw": kernel.raw,
    }


WAYS = ("wrapper", "operator", "kernel")
ALL_WAYS = (*WAYS, *(f"{way}, new result" for way in WAYS))


def arguments() -> tuple[Tensor, Tensor, Tensor]:
    return torch.arange(5.0), torch.zeros(1), torch.zeros(5)


@pytest.mark.parametrize("way", [*WAYS, "raw", "kernel.raw"])
def test_a_backward_that_saved_what_is_written_raises(calls: dict[str, Call], way: str) -> None:
    x, count, out = arguments()
    for written in (count, out):
        weight = torch.ones_like(written, requires_grad=True)
        loss = (weight * written).sum()
        calls[way](x, count, out)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


@pytest.mark.parametrize("way", ALL_WAYS)
def test_tensors_that_are_only_read_keep_their_version(calls: dict[str, Call], way: str) -> None:
    x, count, out = arguments()
    before = x._version, count._version, out._version
    calls[way](x, count, out)
    assert x._version == before[0] and count._version > before[1]
    assert (out._version > before[2]) == ("new" not in way)


@pytest.mark.parametrize("way", ALL_WAYS)
def test_arguments_that_require_grad_are_refused(calls: dict[str, Call], way: str) -> None:
    x, count, out = arguments()
    x.requires_grad_()
    with pytest.raises(ArgumentError, match="counted: argument 'x' requires grad, but this kernel has no backward"):
        calls[way](x, count, out)
    with torch.no_grad():
        calls[way](x, count, out)
    assert count.item() == 10.0


@pytest.mark.parametrize("way", ALL_WAYS)
def test_dual_tensors_are_refused(calls: dict[str, Call], way: str) -> None:
    x, count, out = arguments()
    with forward_ad.dual_level():
        calls[way](x, count, out)  # none of these has a tangent
        dual = forward_ad.make_dual(x, torch.ones(5))
        with pytest.raises(ArgumentError, match="counted: argument 'x' has a tangent"):
            calls[way](dual, count, out)
    assert count.item() == 10.0


@pytest.mark.parametrize("way", ALL_WAYS)
@pytest.mark.parametrize("transform", ["grad", "jvp", "vmap", "functionalize"])
def test_transforms_of_torch_func_are_refused(calls: dict[str, Call], way: str, transform: str) -> None:
    x, count, out = arguments()

    def call(one: Tensor) -> Tensor:
        calls[way](one, count, out)
        return one.sum()

    transformed = {
        "grad": lambda: torch.func.grad(call)(x),
        "jvp": lambda: torch.func.jvp(call, (x,), (torch.ones(5),)),
        "vmap": lambda: torch.vmap(call)(x.expand(2, 5)),
        "functionalize": lambda: torch.func.functionalize(call)(x),
    }
    with pytest.raises(ArgumentError, match="counted"):
        transformed[transform]()
    assert count.item() == 0.0


@pytest.mark.parametrize("way", ["operator", "operator, new result"])
def test_traced_operators_refuse_gradients(calls: dict[str, Call], way: str) -> None:
    x, count, out = arguments()
    torch._dynamo.reset()
    compiled = torch.compile(calls[way], backend="aot_eager")
    compiled(x, count, out)
    with pytest.raises(Exception, match="argument 'x' requires grad"):
        compiled(x.clone().requires_grad_(), count, out)


def test_results_in_inference_mode(calls: dict[str, Call]) -> None:
    with torch.inference_mode():
        x, count, out = arguments()
        calls["wrapper"](x, count, out)
    calls["wrapper"](x, count, out)
    assert count.item() == 20.0 and torch.equal(out, 2 * x)

"""Wrappers of kernels that change an argument: eager, opcheck, torch.compile, and calls that are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.runtime.generated import import_wrapper, write_wrapper
from wavespec.pipeline import best_variant, build
from wavespec.runtime import ArgumentError, ArgumentTypeError
from wavespec.runtime.kernel import Kernel
from wavespec.schema import load, loads
from wavespec.sim.reference import reference

pytestmark = pytest.mark.compiles

SPEC = Path(__file__).parents[2] / "specs" / "scatter_add.wave.yaml"
MIXED = """apiVersion: wavespec/v1
kind: Kernel
name: counted
dims: {M: {}, O: {value: 1}}
tensors:
  x: {shape: [M], dtype: f32}
  count: {shape: [O], dtype: i32, role: inout}
  double: {shape: [M], dtype: f32, role: output}
constraints: [{workgroup: M, tile: 64, axis: 0}]
graph:
  - value: {read: x}
  - one: {register: [M], dtype: i32, value: 1}
  - twice: "value * 2"
  - {write: one, to: count, at: {O: 0}, combine: add}
  - {write: twice, to: double}
"""


def wrapper(spec: Any, directory: Path) -> ModuleType:
    artifact = replace(build(spec, "cpu", only=best_variant("cpu")), spec_sha256="5ca1ab1e" * 8)
    return import_wrapper(write_wrapper(artifact, directory))


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return wrapper(load(SPEC), tmp_path_factory.mktemp("scatter"))


def arguments() -> tuple[Tensor, Tensor, Tensor]:
    return torch.ones(3, 70), torch.tensor([2, 0, 2, 2]), torch.arange(280.0).reshape(4, 70)


def test_the_argument_is_changed_and_returned(module: ModuleType) -> None:
    y, row, x = arguments()
    expected = y.clone().index_add_(0, row, x)
    assert module.scatter_add(y, row, x) is y
    assert torch.equal(y, expected)
    module.scatter_add_raw(y, row, x)
    assert torch.equal(y, expected.index_add_(0, row, x))


def test_torch_knows_what_is_written(module: ModuleType) -> None:
    assert str(module._scatter_add_op._schema).endswith("(Tensor(a!) y, Tensor row, Tensor x) -> ()")
    torch.library.opcheck(module._scatter_add_op, arguments())

    def function(y: Tensor, row: Tensor, x: Tensor) -> Tensor:
        before = y + 0
        return module.scatter_add(y, row, x) - before

    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    y, row, x = arguments()
    assert torch.equal(compiled(y, row, x), torch.zeros(3, 70).index_add_(0, row, x))
    assert torch.equal(y, torch.ones(3, 70).index_add_(0, row, x))


def test_wrong_calls_name_the_argument(module: ModuleType) -> None:
    y, row, x = arguments()
    with pytest.raises(ArgumentError, match=r"'y' has strides \(1, 3\), expected a contiguous tensor"):
        module.scatter_add(torch.ones(70, 3).t(), row, x)
    with pytest.raises(ArgumentError, match="'y' shares memory with 'x'"):
        module.scatter_add(x[:3], row, x)
    with pytest.raises(ArgumentError, match="'y' requires grad, but this kernel has no backward"):
        module.scatter_add(y.clone().requires_grad_(), row, x)
    with pytest.raises(ArgumentTypeError, match=r"'y' has dtype torch\.float64, expected torch\.float32"):
        module.scatter_add(y.double(), row, x)
    with pytest.raises(TypeError):
        module.scatter_add(y, row, x, out=y)
    assert torch.equal(y, torch.ones(3, 70))


def test_memory_is_compared_in_every_call(module: ModuleType) -> None:
    y, row, x = arguments()
    module.scatter_add(y, row, x)
    with pytest.raises(ArgumentError, match="'y' shares memory with 'x'"):
        module.scatter_add(x[1:], row, x)


def test_kernels_themselves_have_no_out() -> None:
    kernel = Kernel(build(load(SPEC), "cpu", only=best_variant("cpu")))
    y, row, x = arguments()
    assert kernel(y, row, x) is y
    with pytest.raises(
        ArgumentTypeError, match=r"'out' takes 0 tensors \(none: arguments are changed in place\), got 1"
    ):
        kernel(y, row, x, out=y)


def test_outputs_beside_an_argument_that_is_changed(tmp_path: Path) -> None:
    module = wrapper(loads(MIXED, "counted.wave.yaml"), tmp_path)
    x, count = torch.arange(100.0), torch.zeros(1, dtype=torch.int32)
    changed, double = module.counted(x, count)
    assert changed is count and count.item() == 100 and torch.equal(double, 2 * x)
    out = torch.empty(100)
    assert module.counted(x, count, out=out) == (count, out)
    assert count.item() == 200 and torch.equal(out, 2 * x)
    torch.library.opcheck(module._counted_op, (x, count))
    torch.library.opcheck(module._counted_out_op, (x, count, out))


def test_results_come_in_order_those_changed_in_place_first(tmp_path: Path) -> None:
    """Whatever their order among all tensors; `out` has the outputs alone, and `reference` returns the same."""
    double = "  double: {shape: [M], dtype: f32, role: output}\n"
    spec = loads(MIXED.replace(double, "").replace("  x: {shape", double + "  x: {shape"))
    made = wrapper(spec, tmp_path)
    x, count = torch.ones(5), torch.zeros(1, dtype=torch.int32)
    for function in (made.counted, Kernel(build(spec, "cpu", only=best_variant("cpu")))):
        for given in ({}, {"out": torch.empty(5)}):
            changed, doubled = function(x, count, **given)
            assert changed is count and torch.equal(doubled, 2 * x)
    changed, doubled = reference(spec, x, count)
    assert changed.dtype is torch.int32 and torch.equal(doubled, 2 * x.double())
    assert (
        "    Returns:\n        A tuple, in this order:\n        count: the argument, changed.\n" in made.counted.__doc__
    )

"""A kernel that was compiled here and now is one operator of the graphs that torch traces."""

from __future__ import annotations

import copy
import io
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close

import wavespec as ws
from wavespec.runtime import kernel_operator
from wavespec.runtime.kernel_operator import results_in_graph

pytestmark = pytest.mark.compiles

HEADER = "apiVersion: wavespec/v1\nkind: Kernel\n"

SCALED = """
name: scaled
dims: {M: {fold: leading}, N: {}}
tensors:
  x: {shape: [M, N], dtype: f32}
  w: {shape: [N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
scalars: {alpha: {dtype: f32, default: 2.0, min: 0}}
graph:
  - a: {read: x}
  - b: {read: w}
  - r: "a * b * alpha"
  - {write: r, to: y}
"""

ADDED = """
name: added
dims: {N: {multiple_of: 2}}
tensors:
  x: {shape: [N], dtype: f32, role: inout}
  v: {shape: [N], dtype: f32}
  y: {shape: [N], dtype: f32, role: output}
graph:
  - a: {read: x}
  - b: {read: v}
  - r: a + b
  - {write: r, to: x}
  - {write: b, to: y}
"""

PADDED = """
name: padded
dims: {N: {}, M: {equals: "ceildiv(N, 4) * 4 + extra"}}
tensors:
  x: {shape: [N], dtype: f32}
  y: {shape: [M], dtype: f32, role: output}
scalars: {extra: {dtype: i32, default: 0, min: 0, max: 100}}
graph:
  - a: {read: x, dims: [M], at: {N: M}}
  - {write: a, to: y}
"""


CHANGED = """
name: changed
dims: {N: {}}
tensors: {x: {shape: [N], dtype: f32, role: inout}}
graph:
  - a: {read: x}
  - r: a + a
  - {write: r, to: x}
"""


@pytest.fixture(scope="module")
def scaled() -> ws.Kernel:
    return ws.compile(ws.loads(HEADER + SCALED))


@pytest.fixture(scope="module")
def added() -> ws.Kernel:
    return ws.compile(ws.loads(HEADER + ADDED))


@pytest.fixture(scope="module")
def padded() -> ws.Kernel:
    return ws.compile(ws.loads(HEADER + PADDED))


class Layer(torch.nn.Module):
    def __init__(self, kernel: ws.Kernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.w = torch.nn.Parameter(torch.randn(7))

    def forward(self, x: Tensor) -> Tensor:
        return self.kernel(x, self.w) + 1


def graph_of(function: Callable[..., Any], **options: Any) -> tuple[Callable[..., Any], list[int]]:
    """The function, compiled whole, and an entry for every time that a graph of it was made."""
    torch._dynamo.reset()
    count: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        from torch._dynamo.backends.debugging import aot_eager

        count.append(1)
        return aot_eager(graph, inputs)

    return torch.compile(function, fullgraph=True, backend=backend, **options), count


def test_a_module_with_a_kernel_is_one_graph_for_all_sizes(scaled: ws.Kernel) -> None:
    layer = Layer(scaled)
    compiled, count = graph_of(layer, dynamic=True)
    with torch.no_grad():
        compiled(torch.randn(2, 5, 7))
        made = len(count)
        for rows in (3, 17, 64):
            x = torch.randn(rows, 5, 7)
            assert_close(compiled(x), x * layer.w * 2 + 1)
    assert len(count) == made


def test_a_kernel_runs_in_code_of_inductor(scaled: ws.Kernel) -> None:
    layer = Layer(scaled)
    torch._dynamo.reset()
    with torch.no_grad():
        x = torch.randn(3, 7)
        assert_close(torch.compile(layer, fullgraph=True)(x), x * layer.w * 2 + 1)


def test_scalars_and_names_are_passed_on(scaled: ws.Kernel) -> None:
    x, w = torch.randn(3, 7), torch.randn(7)
    compiled, _ = graph_of(lambda x, w, alpha: scaled(w=w, x=x, alpha=alpha))
    for alpha in (0.5, 3.0):
        assert_close(compiled(x, w, alpha), x * w * alpha)
    with pytest.raises(ws.ArgumentError, match=r"'alpha' is -1\.0, expected at least 0"):
        compiled(x, w, -1.0)


def test_results_go_into_tensors_of_the_call(scaled: ws.Kernel) -> None:
    x, w, out = torch.randn(3, 7), torch.randn(7), torch.zeros(3, 7)
    compiled, _ = graph_of(lambda x, w, out: scaled(x, w, out=out))
    assert_close(compiled(x, w, out), x * w * 2)
    assert_close(out, x * w * 2)


def test_an_argument_that_is_changed_in_place_is_changed(added: ws.Kernel) -> None:
    x, v = torch.randn(6), torch.randn(6)
    expected = x * 2 + v

    def double_and_add(x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        x.mul_(2)
        changed, other = added(x, v)
        return changed + 0, other

    changed, other = graph_of(double_and_add)[0](x, v)
    assert_close(x, expected)
    assert_close(changed, expected)
    assert_close(other, v)


def test_sizes_that_follow_from_others_and_from_scalars_are_symbols(padded: ws.Kernel) -> None:
    compiled, count = graph_of(lambda x, extra: padded(x, extra=extra) * 1, dynamic=True)
    for size, extra in ((5, 3), (9, 7), (14, 20)):
        x = torch.randn(size)
        made = compiled(x, extra)
        assert made.shape == (-(-size // 4) * 4 + extra,)
        assert torch.equal(made[:size], x)
        assert not made[size:].any()
    assert len(count) == 1


def test_an_exported_program_is_saved_and_loaded(scaled: ws.Kernel) -> None:
    layer = Layer(scaled)
    with torch.no_grad():
        rows = torch.export.Dim("rows", min=2, max=100)
        program = torch.export.export(layer, (torch.randn(3, 7),), dynamic_shapes=({0: rows},))
        file = io.BytesIO()
        torch.export.save(program, file)
        file.seek(0)
        x = torch.randn(11, 7)
        assert_close(torch.export.load(file).module()(x), x * layer.w * 2 + 1)


def test_torch_finds_nothing_wrong_with_the_operators(scaled: ws.Kernel, added: ws.Kernel) -> None:
    from wavespec.runtime.kernel_operator import define_operators

    x, w = torch.randn(3, 7), torch.randn(7)
    torch.library.opcheck(getattr(torch.ops, define_operators(scaled)).scaled.default, (x, w, 2.0))
    torch.library.opcheck(getattr(torch.ops, define_operators(added)).added.default, (torch.randn(6), torch.randn(6)))


def test_a_copy_has_the_operator_of_the_first(scaled: ws.Kernel) -> None:
    from wavespec.runtime.kernel_operator import define_operators

    assert define_operators(copy.deepcopy(scaled)) == define_operators(scaled)


def test_threads_that_trace_first_calls_at_once_define_operators_once(
    scaled: ws.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    defined: list[str] = []

    def define(_: ws.Kernel, namespace: str) -> None:
        time.sleep(0.05)
        defined.append(namespace)

    monkeypatch.setattr(kernel_operator, "_define", define)
    monkeypatch.setattr(kernel_operator, "_defined", {})
    with ThreadPoolExecutor(2) as threads:
        names = list(threads.map(kernel_operator.define_operators, (copy.deepcopy(scaled), copy.deepcopy(scaled))))
    assert defined == names[:1] and names[0] == names[1]


def test_kernels_of_one_name_have_operators_of_their_own(scaled: ws.Kernel) -> None:
    other = ws.compile(ws.loads(HEADER + SCALED.replace("a * b * alpha", "a + b * alpha")))
    x, w = torch.randn(3, 7), torch.randn(7)
    compiled, _ = graph_of(lambda x, w: (scaled(x, w), other(x, w)))
    first, second = compiled(x, w)
    assert_close(first, x * w * 2)
    assert_close(second, x + w * 2)


def test_kernels_of_the_same_code_that_take_other_sizes_have_operators_of_their_own(scaled: ws.Kernel) -> None:
    """The operator of the one that was traced first refused sizes that the other one takes."""
    many = ws.compile(ws.loads(HEADER + SCALED.replace("graph:", "constraints: [{assume: N > 8}]\ngraph:")))
    assert [one.sha256 for one in many.artifact.binaries] == [one.sha256 for one in scaled.artifact.binaries]
    for kernel, columns in ((many, 9), (scaled, 7)):
        x, w = torch.randn(3, columns), torch.randn(columns)
        assert_close(graph_of(lambda x, w, kernel=kernel: kernel(x, w))[0](x, w), x * w * 2)


def test_an_argument_by_its_place_and_by_its_name_is_a_mistake_in_graphs_too(scaled: ws.Kernel) -> None:
    x, w = torch.randn(3, 7), torch.randn(7)
    with pytest.raises(Exception, match="argument 'x' is passed by its place and by its name"):
        graph_of(lambda x, w: scaled(x, w, x=w))[0](x, w)


def test_another_kernel_in_the_place_of_one_has_a_graph_of_its_own(scaled: ws.Kernel) -> None:
    layer = Layer(scaled)
    compiled, _ = graph_of(layer)
    x = torch.randn(3, 7)
    with torch.no_grad():
        assert_close(compiled(x), x * layer.w * 2 + 1)
        layer.kernel = ws.compile(ws.loads(HEADER + SCALED.replace("a * b * alpha", "a + b * alpha")))
        assert_close(compiled(x), x + layer.w * 2 + 1)


def test_gradients_are_refused_where_torch_traces(scaled: ws.Kernel) -> None:
    torch._dynamo.reset()
    with pytest.raises(Exception, match="'w' requires grad, but this kernel has no backward"):
        torch.compile(Layer(scaled), backend="aot_eager", fullgraph=True)(torch.randn(3, 7))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((3, 7), (6,)), "argument 'w' has another N than 'x' has"),
        (((3, 7), (7, 1)), "argument 'w' has 2 dims, expected 1"),
        (((), (7,)), "argument 'x' has 0 dims, expected at least 1"),
    ],
)
def test_wrong_shapes_are_told_without_data(scaled: ws.Kernel, shapes: Any, message: str) -> None:
    with FakeTensorMode(), pytest.raises((RuntimeError, ws.ArgumentError), match=message):
        scaled(*(torch.empty(shape) for shape in shapes))


def test_wrong_types_are_told_without_data(scaled: ws.Kernel) -> None:
    with FakeTensorMode(), pytest.raises(TypeError, match=r"argument 'w' has dtype torch\.float64, expected"):
        scaled(torch.empty(3, 7), torch.empty(7, dtype=torch.float64))
    with FakeTensorMode(), pytest.raises(TypeError, match="argument 'x' is of type int"):
        scaled(3, torch.empty(7))  # pyright: ignore


def test_results_are_counted_without_data(scaled: ws.Kernel) -> None:
    with FakeTensorMode(), pytest.raises(TypeError, match=r"scaled: 'out' takes 1 tensors \(y\), got 2\."):
        scaled(torch.empty(3, 7), torch.empty(7), out=(torch.empty(3, 7), torch.empty(3, 7)))
    changed = ws.compile(ws.loads(HEADER + CHANGED))
    with FakeTensorMode(), pytest.raises(TypeError, match=r"changed: 'out' takes 0 tensors \(\), got 1\."):
        changed(torch.empty(3), out=torch.empty(3))


def test_a_multiple_is_checked_without_data(added: ws.Kernel) -> None:
    with FakeTensorMode(), pytest.raises(RuntimeError, match="argument 'x' needs N to be a multiple of 2"):
        added(torch.empty(5), torch.empty(5))


def test_packed_elements_and_promised_strides_have_the_shapes_of_a_call() -> None:
    kernel = ws.compile(
        ws.loads(
            HEADER
            + """
name: unpacked
dims: {M: {}, N: {multiple_of: 2}}
tensors:
  x: {shape: [M, N], dtype: i4}
  y: {shape: [M, N], dtype: f32, role: output, strides: [N + 8, 1]}
graph:
  - a: {read: x}
  - b: f32(a)
  - {write: b, to: y}
"""
        )
    )
    packed = torch.randint(0, 255, (3, 5), dtype=torch.uint8)
    real, fake = kernel(packed), results_in_graph(kernel.artifact, (packed.to("meta"),), ())
    assert (real.shape, real.stride(), real.dtype) == (fake.shape, fake.stride(), fake.dtype)

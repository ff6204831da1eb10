"""A table of calls that nobody should make: each is right, or refused by name, in every way to call a kernel."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import BaseTorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.runtime.generated import import_wrapper, write_wrapper
from tests.runtime.standins import gemm_artifact
from wavespec.pipeline import best_variant, build
from wavespec.runtime import ArgumentError, Kernel
from wavespec.schema import loads

pytestmark = pytest.mark.compiles

Call = Callable[..., Any]
M, N, K = 5, 3, 8


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Call]:
    """c[M, N] = a[M, K] · b[N, K]ᵀ, as ``call(a, b)`` or ``call(a, b, out=c)``."""
    artifact = replace(gemm_artifact(), spec_sha256="0057113e" * 8)
    module = import_wrapper(write_wrapper(artifact, tmp_path_factory.mktemp("hostile")))

    def operator(a: Any, b: Any, out: Any = None) -> Any:
        if out is None:
            return module._gemm_op(a, b)
        module._gemm_out_op(a, b, out)
        return out

    return {"wrapper": module.gemm, "operator": operator, "kernel": Kernel(artifact)}


WAYS = ("wrapper", "operator", "kernel")


def integers(*shape: int) -> Tensor:
    return torch.randint(-4, 5, shape).float()


class Labelled(Tensor):
    """A subclass that adds nothing."""


class Counting(TorchDispatchMode):
    """A mode that lets everything through."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def negated() -> Tensor:
    """[M, K], whose memory holds the numbers with the other sign."""
    view = torch.complex(torch.zeros(M, K), integers(M, K)).conj().imag
    assert view.is_neg()
    return view


def shrunk(bytes_: int, *shape: int) -> Tensor:
    tensor = integers(*shape)
    tensor.untyped_storage().resize_(bytes_)
    return tensor


def beyond_shrunk(*shape: int) -> Tensor:
    """A view of the end of a storage, which has as many bytes as it needs, and no longer those."""
    tensor = integers(1000)[900:].view(-1)[: torch.Size(shape).numel()].view(shape)
    tensor.untyped_storage().resize_(4 * tensor.numel())
    return tensor


def overlapping() -> tuple[Tensor, Tensor]:
    memory = integers(64)
    return memory[: M * K].view(M, K), memory[M * K - 1 : M * K - 1 + M * N].view(M, N)


# What is strange: first argument, then `out` or None; and per way what becomes of the call: "right", or what the error says.
# `a` is drawn anew for every call.
ARGUMENTS: dict[str, tuple[Callable[[], tuple[Any, Any]], dict[str, str]]] = {
    "None": (lambda: (None, None), dict.fromkeys(WAYS, "a")),
    "a number": (lambda: (1.0, None), dict.fromkeys(WAYS, "a")),
    "an array": (lambda: (integers(M, K).numpy(), None), dict.fromkeys(WAYS, "a")),
    "a transposed view": (lambda: (integers(K, M).t(), None), dict.fromkeys(WAYS, "right")),
    "a view with steps": (lambda: (integers(M, 2 * K)[:, ::2], None), dict.fromkeys(WAYS, "right")),
    "an expanded view": (lambda: (integers(1, K).expand(M, K), None), dict.fromkeys(WAYS, "right")),
    "a view at an odd place": (lambda: (integers(M * K + 1)[1:].view(M, K), None), dict.fromkeys(WAYS, "right")),
    "no rows": (lambda: (integers(0, K), None), dict.fromkeys(WAYS, "right")),
    "a view that negates": (lambda: (negated(), None), dict.fromkeys(WAYS, "right")),
    "zeros without memory": (
        lambda: (torch._efficientzerotensor(M, K), None),
        {"wrapper": "right", "operator": "right", "kernel": "'a' needs .* has 0"},
    ),
    "a parameter": (
        lambda: (torch.nn.Parameter(integers(M, K), requires_grad=False), None),
        dict.fromkeys(WAYS, "right"),
    ),
    "a subclass": (
        lambda: (integers(M, K).as_subclass(Labelled), None),
        {"wrapper": "right", "operator": "right", "kernel": "'a' is a Labelled"},
    ),
    "requires grad": (lambda: (integers(M, K).requires_grad_(), None), dict.fromkeys(WAYS, "'a' requires grad")),
    "sparse": (lambda: (integers(M, K).to_sparse(), None), dict.fromkeys(WAYS, "a|spars|Sparse")),
    "compressed": (
        lambda: (integers(M, K).to_sparse_csr(), None),
        {
            "wrapper": "'a' has layout torch.sparse_csr",
            "operator": "SparseCsrCPU",
            "kernel": "'a' has layout torch.sparse_csr",
        },
    ),
    "opaque": (
        lambda: (integers(M, K).to_mkldnn(), None),
        {"wrapper": "'a' has layout torch._mkldnn", "operator": "MkldnnCPU", "kernel": "'a' has layout torch._mkldnn"},
    ),
    "nested": (
        lambda: (torch.nested.nested_tensor([integers(K) for _ in range(M)]), None),
        {"wrapper": "'a' is a nested tensor", "operator": "NestedTensor", "kernel": "'a' is a nested tensor"},
    ),
    "copied when it is written": (lambda: (torch._lazy_clone(integers(M, K)), None), dict.fromkeys(WAYS, "right")),
    "on the meta device": (lambda: (torch.empty(M, K, device="meta"), None), dict.fromkeys(WAYS, "meta")),
    "another dtype": (lambda: (integers(M, K).double(), None), dict.fromkeys(WAYS, "'a' has dtype torch.float64")),
    "another rank": (lambda: (integers(M, K, 1), None), dict.fromkeys(WAYS, "'a' has 3 dims")),
    "memory taken away": (lambda: (shrunk(0, M, K), None), dict.fromkeys(WAYS, "'a' needs .* has 0")),
    "memory shrunk": (lambda: (shrunk(8, M, K), None), dict.fromkeys(WAYS, "'a' needs .* has 8")),
    "a view of what was taken away": (
        lambda: (beyond_shrunk(M, K), None),
        dict.fromkeys(WAYS, f"'a' needs {4 * (900 + M * K)} bytes of its storage, which has {4 * M * K}"),
    ),
    "out: a view of what was taken away": (
        lambda: (integers(M, K), beyond_shrunk(M, N)),
        dict.fromkeys(WAYS, f"'out' needs {4 * (900 + M * N)} bytes of its storage, which has {4 * M * N}"),
    ),
    "out: a view that negates": (
        lambda: (integers(M, K), torch._neg_view(integers(M, N))),
        dict.fromkeys(WAYS, "'out' is a view that negates"),
    ),
    "out: zeros without memory": (
        lambda: (integers(M, K), torch._efficientzerotensor(M, N)),
        {
            "wrapper": "ZeroTensors are immutable",
            "operator": "ZeroTensors are immutable",
            "kernel": "'out' needs .* has 0",
        },
    ),
    "out: expanded": (
        lambda: (integers(M, K), integers(1, 1).expand(M, N)),
        dict.fromkeys(WAYS, "'out' has strides"),
    ),
    "out: another shape": (lambda: (integers(M, K), integers(N, M)), dict.fromkeys(WAYS, "'out' has shape")),
    "out: not contiguous": (lambda: (integers(M, K), integers(N, M).t()), dict.fromkeys(WAYS, "'out' has strides")),
    "out: another dtype": (lambda: (integers(M, K), integers(M, N).int()), dict.fromkeys(WAYS, "'out' has dtype")),
    "out: requires grad": (
        lambda: (integers(M, K), integers(M, N).requires_grad_()),
        dict.fromkeys(WAYS, "'out' requires grad"),
    ),
    "out: memory of an input": (overlapping, dict.fromkeys(WAYS, "'out' shares memory with 'a'")),
    "out: memory shrunk": (
        lambda: (integers(M, K), shrunk(8, M, N)),
        dict.fromkeys(WAYS, "'out' needs .* has 8"),
    ),
    "out: a number": (lambda: (integers(M, K), 1.0), dict.fromkeys(WAYS, "out")),
    "out: a tensor of inference mode": (
        lambda: (integers(M, K), torch.inference_mode()(integers)(M, N)),
        dict.fromkeys(WAYS, "right"),
    ),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:The PyTorch API of nested")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments(calls: dict[str, Call], case: str, way: str) -> None:
    make, outcomes = ARGUMENTS[case]
    b = integers(N, K)
    for warm in (False, True):  # what was found out about an earlier call of the same shapes hides nothing
        for _ in range(3 * warm):
            calls[way](integers(M, K), b, out=integers(M, N))
            calls[way](integers(M, K), b)
        a, out = make()
        call = calls[way]
        if outcomes[way] == "right":
            result = call(a, b, out=out)
            assert type(result) in (Tensor, Labelled)
            assert torch.equal(result.as_subclass(Tensor), a.as_subclass(Tensor) @ b.T)
        else:
            # The message decides: torch refuses some by itself, before a wrapper is asked, with types of its own.
            with pytest.raises((ArgumentError, RuntimeError, TypeError, NotImplementedError), match=outcomes[way]):
                call(a, b, out=out)


IN_PLACE = """apiVersion: wavespec/v1
kind: Kernel
name: added
dims: {M: {}}
tensors:
  x: {shape: [M], dtype: f32}
  y: {shape: [M], dtype: f32, role: inout}
  z: {shape: [M], dtype: f32, role: inout}
constraints: [{workgroup: M, tile: 64, axis: 0}]
graph:
  - value: {read: x}
  - {write: value, to: y, combine: add}
  - {write: value, to: z, combine: add}
"""


@pytest.fixture(scope="module")
def in_place(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Call]:
    """y += x, z += x."""
    artifact = replace(build(loads(IN_PLACE), "cpu", only=best_variant("cpu")), spec_sha256="1007" * 16)
    module = import_wrapper(write_wrapper(artifact, tmp_path_factory.mktemp("in_place")))
    return {"wrapper": module.added, "operator": module._added_op, "kernel": Kernel(artifact)}


def shared(first: slice, second: slice) -> tuple[Tensor, Tensor]:
    memory = integers(12)
    return memory[first], memory[second]


# x, y and z, and "right" or what the error says
CHANGED: dict[str, tuple[Callable[[], tuple[Tensor, ...]], str]] = {
    "x negates": (lambda: (torch._neg_view(integers(5)), integers(5), integers(5)), "right"),
    "y negates": (lambda: (integers(5), torch._neg_view(integers(5)), integers(5)), "'y' is a view that negates"),
    "y expanded": (lambda: (integers(5), integers(1).expand(5), integers(5)), "'y' has strides"),
    "y with steps": (lambda: (integers(5), integers(10)[::2], integers(5)), "'y' has strides"),
    "y behind an offset": (lambda: (integers(5), integers(10)[5:], integers(5)), "right"),
    "y of memory taken away": (lambda: (integers(5), beyond_shrunk(5), integers(5)), "'y' needs .* has 20"),
    "y is z": (lambda: (integers(5), *[integers(5)] * 2), "'z' shares memory with 'y'"),
    "y is x": (lambda: (*[integers(5)] * 2, integers(5)), "'y' shares memory with 'x'"),
    "z overlaps y": (lambda: (integers(5), *shared(slice(5), slice(4, 9))), "'z' shares memory with 'y'"),
    "y beside z": (lambda: (integers(5), *shared(slice(5), slice(5, 10))), "right"),
    "x, which is copied, around y": (lambda: (*shared(slice(0, 10, 2), slice(5)), integers(5)), "right"),
    "y requires grad": (lambda: (integers(5), integers(5).requires_grad_(), integers(5)), "'y' requires grad"),
    "y of a graph": (
        lambda: (integers(5), (integers(5).requires_grad_() * 1)[:], integers(5)),
        "'y' requires grad",
    ),
    "y of inference mode": (lambda: (integers(5), torch.inference_mode()(integers)(5), integers(5)), "right"),
    "y copied when it is written": (lambda: (integers(5), torch._lazy_clone(integers(5)), integers(5)), "right"),
    "y on another device": (lambda: (integers(5), torch.empty(5, device="meta"), integers(5)), "'y' is on meta"),
    "nothing": (lambda: (integers(0), integers(0), integers(0)), "right"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CHANGED)
def test_arguments_that_are_changed(in_place: dict[str, Call], case: str, way: str) -> None:
    make, outcome = CHANGED[case]
    call = in_place[way]
    for warm in (False, True):
        for _ in range(3 * warm):
            call(integers(5), integers(5), integers(5))
        x, y, z = make()
        if outcome == "right":
            expected = x + y, x + z
            call(x, y, z)
            assert torch.equal(y, expected[0]) and torch.equal(z, expected[1])
        else:
            with pytest.raises(ArgumentError, match=outcome):
                call(x, y, z)


@dataclass(frozen=True)
class Surroundings:
    """Where a call is made, and per way what becomes of it."""

    run: Callable[[Call, Tensor, Tensor], Any]
    outcomes: dict[str, str]


def in_thread(call: Call, a: Tensor, b: Tensor) -> Tensor:
    results: list[Tensor] = []
    threads = [threading.Thread(target=lambda: results.append(call(a, b))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(torch.equal(results[0], one) for one in results)
    return results[0]


def in_fork(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """A child, forked after the parent has called, has none of the threads that run kernels."""
    expected = call(a, b)
    child = os.fork()
    if child == 0:
        try:
            wrong = not torch.equal(call(a, b), expected)
        except RuntimeError:  # refused
            wrong = False
        os._exit(wrong)
    assert os.waitpid(child, 0)[1] == 0
    return expected


def traced(call: Call, a: Tensor, b: Tensor) -> Tensor:
    graph = torch.fx.experimental.proxy_tensor.make_fx(lambda a, b: call(a, b))(a + 1, b)
    return graph(a, b)


def script(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """A trace of another call of the same shapes: what it does not see would stay as it was."""
    trace = torch.jit.trace(lambda a, b: call(a, b), (a + 1, b), check_trace=False)
    return trace(a, b)


def script_that_writes(call: Call, a: Tensor, b: Tensor) -> Tensor:
    def written(a: Tensor, b: Tensor) -> Tensor:
        out = torch.zeros(M, N)
        call(a, b, out=out)
        return out + 0

    return torch.jit.trace(written, (a + 1, b), check_trace=False)(a, b)


def exported(call: Call, a: Tensor, b: Tensor) -> Tensor:
    class Model(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return call(a, b) + 0

    return torch.export.export(Model(), (a + 1, b)).module()(a, b)


def in_function(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """A kernel inside of a function that has its own backward."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:  # pyright: ignore
            ctx.save_for_backward(b)
            return call(a, b)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # pyright: ignore
            (b,) = ctx.saved_tensors
            return call(gradient.contiguous(), b.t()), None

    leaf = a.clone().requires_grad_()
    result: Any = Product.apply(leaf, b)
    result.sum().backward()
    assert leaf.grad is not None and torch.equal(leaf.grad, torch.ones(M, N) @ b)
    return result.detach()


def between_forward_and_backward(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """What a backward has saved is written: torch has to know. What is only read, or made anew, does not count."""
    saved = torch.zeros(M, N)
    loss = (torch.ones(M, N, requires_grad=True) * saved).sum()
    seen = (torch.ones(M, K, requires_grad=True) * a).sum()
    before = saved._version
    result = call(a, b, out=saved)
    assert saved._version > before and result is saved
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    seen.backward()
    return call(a, b)


def functionalized(call: Call, a: Tensor, b: Tensor) -> Tensor:
    result = call(torch._to_functional_tensor(a), b)
    torch._sync(result)
    return torch._from_functional_tensor(result)


def with_function_mode(call: Call, a: Tensor, b: Tensor) -> Tensor:
    with BaseTorchFunctionMode():
        return call(a, b)


def deterministic(call: Call, a: Tensor, b: Tensor) -> Tensor:
    torch.use_deterministic_algorithms(True)
    try:
        return call(a, b)
    finally:
        torch.use_deterministic_algorithms(False)


def compiled(call: Call, a: Tensor, b: Tensor) -> Tensor:
    torch._dynamo.reset()
    return torch.compile(lambda a, b: call(a, b) + 0, backend="aot_eager")(a, b)


def faked(call: Call, a: Tensor, b: Tensor) -> Tensor:
    with FakeTensorMode() as mode:
        fake = call(mode.from_tensor(a), mode.from_tensor(b))
    assert tuple(fake.shape) == (M, N)
    return call(a, b)


def with_mode(call: Call, a: Tensor, b: Tensor) -> Tensor:
    with Counting():
        return call(a, b)


def with_autocast(call: Call, a: Tensor, b: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return call(a, b)


def with_inference(call: Call, a: Tensor, b: Tensor) -> Tensor:
    with torch.inference_mode():
        return call(a, b)


def on_default_meta(call: Call, a: Tensor, b: Tensor) -> Tensor:
    with torch.device("meta"):
        return call(a, b)


SURROUNDINGS: dict[str, Surroundings] = {
    "threads": Surroundings(in_thread, dict.fromkeys(WAYS, "right")),
    "fork": Surroundings(in_fork, dict.fromkeys(WAYS, "right")),
    "vmap": Surroundings(
        lambda call, a, b: torch.vmap(call, in_dims=(0, None))(a[None], b)[0], dict.fromkeys(WAYS, "torch.func")
    ),
    "grad": Surroundings(
        lambda call, a, b: torch.func.grad(lambda a: call(a, b).sum())(a), dict.fromkeys(WAYS, "grad|torch.func")
    ),
    "jvp": Surroundings(
        lambda call, a, b: torch.func.jvp(lambda a: call(a, b), (a,), (a,))[0], dict.fromkeys(WAYS, "torch.func")
    ),
    "make_fx": Surroundings(traced, dict.fromkeys(WAYS, "right")),
    "torch.jit.trace": Surroundings(script, dict.fromkeys(WAYS, "right")),
    "torch.jit.trace, out": Surroundings(script_that_writes, dict.fromkeys(WAYS, "right")),
    "torch.export": Surroundings(exported, dict.fromkeys(WAYS, "right")),
    "a functional tensor": Surroundings(
        functionalized, {"wrapper": "right", "operator": "right", "kernel": "'a' needs .* has 0"}
    ),
    "version counters": Surroundings(between_forward_and_backward, dict.fromkeys(WAYS, "right")),
    "autograd.Function": Surroundings(in_function, dict.fromkeys(WAYS, "right")),
    "a function mode": Surroundings(with_function_mode, dict.fromkeys(WAYS, "right")),
    "deterministic algorithms": Surroundings(deterministic, dict.fromkeys(WAYS, "right")),
    "torch.compile": Surroundings(compiled, dict.fromkeys(WAYS, "right")),
    "FakeTensorMode": Surroundings(faked, dict.fromkeys(WAYS, "right")),
    "a dispatch mode": Surroundings(with_mode, dict.fromkeys(WAYS, "right")),
    "autocast": Surroundings(with_autocast, dict.fromkeys(WAYS, "right")),
    "inference mode": Surroundings(with_inference, dict.fromkeys(WAYS, "right")),
    "a default device": Surroundings(on_default_meta, dict.fromkeys(WAYS, "right")),
}


@pytest.mark.filterwarnings("ignore:`torch.jit.trace")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", SURROUNDINGS)
def test_surroundings(calls: dict[str, Call], case: str, way: str) -> None:
    a, b = integers(M, K), integers(N, K)
    surroundings = SURROUNDINGS[case]
    for _ in range(3):  # what is known of these very tensors holds elsewhere
        calls[way](a, b)
    if surroundings.outcomes[way] == "right":
        assert torch.equal(surroundings.run(calls[way], a, b), a @ b.T)
    else:
        with pytest.raises(ArgumentError, match=surroundings.outcomes[way]):
            surroundings.run(calls[way], a, b)


def test_a_written_clone_leaves_its_source_alone(calls: dict[str, Call]) -> None:
    a, b = integers(M, K), integers(N, K)
    for call in calls.values():
        source = torch.zeros(M, N)
        call(a, b, out=torch._lazy_clone(source))
        assert not source.any()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda kernel: pickle.loads(pickle.dumps(kernel))])
def test_a_copy_of_a_kernel_works(calls: dict[str, Call], copied: Callable[[Call], Call]) -> None:
    a, b = integers(M, K), integers(N, K)
    calls["kernel"](a, b)  # what was loaded is not copied
    assert torch.equal(copied(calls["kernel"])(a, b), a @ b.T)

"""A table of calls that nobody should make: each is right, or refused by name, in every way to call a kernel."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.runtime.generated import import_wrapper, write_wrapper
from tests.runtime.standins import gemm_artifact
from wavespec.runtime import ArgumentError, Kernel

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
    "on the meta device": (lambda: (torch.empty(M, K, device="meta"), None), dict.fromkeys(WAYS, "meta")),
    "another dtype": (lambda: (integers(M, K).double(), None), dict.fromkeys(WAYS, "'a' has dtype torch.float64")),
    "another rank": (lambda: (integers(M, K, 1), None), dict.fromkeys(WAYS, "'a' has 3 dims")),
    "memory taken away": (lambda: (shrunk(0, M, K), None), dict.fromkeys(WAYS, "'a' needs .* has 0")),
    "memory shrunk": (lambda: (shrunk(8, M, K), None), dict.fromkeys(WAYS, "'a' needs .* has 8")),
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


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments(calls: dict[str, Call], case: str, way: str) -> None:
    make, outcomes = ARGUMENTS[case]
    b = integers(N, K)
    for warm in (False, True):  # what was found out about an earlier call of the same shapes hides nothing
        if warm:
            calls[way](integers(M, K), b, out=integers(M, N))
            calls[way](integers(M, K), b)
        a, out = make()
        call = calls[way]
        if outcomes[way] == "right":
            result = call(a, b, out=out)
            assert type(result) in (Tensor, Labelled)
            assert torch.equal(result.as_subclass(Tensor), a.as_subclass(Tensor) @ b.T)
        else:
            with pytest.raises((ArgumentError, RuntimeError, TypeError, NotImplementedError), match=outcomes[way]):
                call(a, b, out=out)


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
    "make_fx": Surroundings(traced, {"wrapper": "right", "operator": "right", "kernel": "called under ProxyTorch"}),
    "torch.compile": Surroundings(compiled, dict.fromkeys(WAYS, "right")),
    "FakeTensorMode": Surroundings(
        faked, {"wrapper": "right", "operator": "right", "kernel": "called under FakeTensorMode"}
    ),
    "a dispatch mode": Surroundings(with_mode, dict.fromkeys(WAYS, "right")),
    "autocast": Surroundings(with_autocast, dict.fromkeys(WAYS, "right")),
    "inference mode": Surroundings(with_inference, dict.fromkeys(WAYS, "right")),
    "a default device": Surroundings(on_default_meta, dict.fromkeys(WAYS, "right")),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", SURROUNDINGS)
def test_surroundings(calls: dict[str, Call], case: str, way: str) -> None:
    a, b = integers(M, K), integers(N, K)
    surroundings = SURROUNDINGS[case]
    if surroundings.outcomes[way] == "right":
        assert torch.equal(surroundings.run(calls[way], a, b), a @ b.T)
    else:
        with pytest.raises(ArgumentError, match=surroundings.outcomes[way]):
            surroundings.run(calls[way], a, b)


def test_a_copy_of_a_kernel_works(calls: dict[str, Call]) -> None:
    a, b = integers(M, K), integers(N, K)
    assert torch.equal(copy.copy(calls["kernel"])(a, b), a @ b.T)

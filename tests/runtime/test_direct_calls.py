"""Calls without the dispatcher: which are made, which are left to it, and what is never held."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd import forward_ad
from torch.overrides import BaseTorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.runtime.generated import import_wrapper, write_wrapper
from tests.runtime.standins import gemm_artifact, gemm_interface
from wavespec.runtime import ArgumentError, ArgumentTypeError
from wavespec.runtime import caller as caller_module
from wavespec.runtime import direct_calls as module
from wavespec.runtime.caller import Call, Caller
from wavespec.runtime.checks import check_inputs
from wavespec.runtime.launch_plan import LaunchPlan, make_plan

pytestmark = pytest.mark.compiles

M, N, K = 5, 3, 8
_GEMM = gemm_interface()


class Gemm:
    """c[M, N] = a[M, K] · b[N, K]ᵀ through a wrapper that counts how often it asks the dispatcher."""

    def __init__(self, wrapper: ModuleType) -> None:
        self.wrapper = wrapper
        self.direct = wrapper._KERNELS.direct
        self.dispatched = 0
        for name in ("_gemm_op", "_gemm_out_op"):
            setattr(wrapper, name, self._counted(getattr(wrapper, name)))

    def __call__(self, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
        return self.wrapper.gemm(a, b, out=out)

    def _counted(self, operator: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.dispatched += 1
            return operator(*arguments)

        return call


@pytest.fixture(scope="module")
def wrapper(tmp_path_factory: pytest.TempPathFactory) -> Gemm:
    artifact = replace(gemm_artifact(), spec_sha256="d17ec7" * 10 + "0000")
    return Gemm(import_wrapper(write_wrapper(artifact, tmp_path_factory.mktemp("direct"))))


@pytest.fixture
def gemm(wrapper: Gemm) -> Gemm:
    for known in (wrapper.direct._read, wrapper.direct._written):
        known.clear()
    wrapper.dispatched = 0
    return wrapper


def integers(*shape: int) -> Tensor:
    return torch.randint(-4, 5, shape).float()


def known(gemm: Gemm) -> tuple[Tensor, Tensor, Tensor]:
    """Tensors with which the next call is made directly."""
    a, b, c = integers(M, K), integers(N, K), integers(M, N)
    for _ in range(2):
        gemm(a, b)
        gemm(a, b, c)
    gemm.dispatched = 0
    return a, b, c


def test_the_first_call_finds_out_and_those_like_it_are_direct(gemm: Gemm) -> None:
    for _ in range(3):
        a, b, c = integers(M + 10, K), integers(N, K), integers(M + 10, N)
        version = c._version
        assert gemm(a, b, c) is c and torch.equal(c, a @ b.T) and c._version == version + 1
        assert torch.equal(gemm(a, b), a @ b.T)
    assert gemm.dispatched == 2


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("way", ["new", "out"])
@pytest.mark.parametrize(
    "seen_by",
    [BaseTorchFunctionMode, Watching, forward_ad.dual_level, lambda: torch.autograd.profiler.profile(use_device=None)],
    ids=["function mode", "dispatch mode", "forward mode", "profiler"],
)
def test_who_wants_to_see_calls_sees_them(seen_by: Callable[[], Any], way: str, gemm: Gemm) -> None:
    a, b, c = known(gemm)
    out = c if way == "out" else None
    gemm(a, b, out)
    assert gemm.dispatched == 0
    with seen_by():
        assert torch.equal(gemm(a, b, out), a @ b.T)
    assert gemm.dispatched == 1


def test_a_mode_without_data_sees_calls_with_data(gemm: Gemm) -> None:
    """Dynamo's guard takes tensors under this mode for what they were."""
    a, b, _ = known(gemm)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert isinstance(gemm(a, b), FakeTensor)


def test_a_default_device_needs_to_see_nothing(gemm: Gemm) -> None:
    a, b, c = known(gemm)
    with torch.device("meta"):
        assert torch.equal(gemm(a, b), a @ b.T) and torch.equal(gemm(a, b, c), a @ b.T)
        assert gemm.dispatched == 0
        with BaseTorchFunctionMode():
            gemm(a, b)
        assert gemm.dispatched == 1


def test_gradients_are_asked_for_each_time(gemm: Gemm) -> None:
    a, b, _ = known(gemm)
    weight = torch.nn.Parameter(b.clone())
    with torch.no_grad():
        for _ in range(3):
            assert torch.equal(gemm(a, weight), a @ b.T)
        assert gemm.dispatched == 1
    with pytest.raises(ArgumentError, match="'b' requires grad"):
        gemm(a, weight)


def test_states_of_a_thread_are_told_apart(gemm: Gemm) -> None:
    a, b, c = known(gemm)
    with torch.inference_mode():
        for _ in range(2):
            made = gemm(a, b)
            assert made.is_inference() and torch.equal(made, a @ b.T)
    assert not gemm(a, b).is_inference()
    with torch.autocast("cpu", torch.bfloat16):
        assert gemm(a, b, c).dtype == torch.float32
    assert gemm.dispatched == 0


def test_other_tensors_at_a_known_place_are_looked_at(gemm: Gemm) -> None:
    memory, b = integers(64 * K), integers(N, K)
    for rows in (4, 9, 64) * 3:
        a = memory[: rows * K].view(rows, K)
        assert torch.equal(gemm(a, b), a @ b.T)
    assert gemm.dispatched == 3
    for strange in (memory.view(torch.int32)[: 4 * K].view(4, K), memory[: 4 * K].view(4, K, 1)):
        with pytest.raises(ArgumentError, match="'a' has"):
            gemm(strange, b)
    turned = memory[: K * K].view(K, K).t()
    assert torch.equal(gemm(turned, b), turned @ b.T)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")
def test_nested_tensor_at_a_known_place_is_refused(gemm: Gemm) -> None:
    """Dynamo's guard would end the process."""
    b = integers(N, K)
    nested: Tensor = torch.nested.nested_tensor([integers(K) for _ in range(M)])  # pyright: ignore[reportUnknownMemberType]
    a = torch.empty(0)
    a.set_(nested.untyped_storage(), 0, (M, K), (K, 1))  # pyright: ignore[reportCallIssue, reportArgumentType]
    for _ in range(3):
        gemm(a, b)
    with pytest.raises(ArgumentTypeError, match="'a' is a nested tensor"):
        gemm(nested, b)


@pytest.mark.parametrize(("offset", "left"), [(4, 4 * M * K), (0, 8)], ids=["not where it ends", "too short"])
def test_memory_that_was_taken_away_is_missed_where_other_tensors_were(offset: int, left: int, gemm: Gemm) -> None:
    view, b = integers(1000)[offset : offset + M * K].view(M, K), integers(N, K)
    view.untyped_storage().resize_(left)
    memory = (ctypes.c_char * (4 * M * K)).from_address(view.data_ptr())
    known = torch.frombuffer(memory, dtype=torch.float32).view(M, K)
    for _ in range(3):
        gemm(known, b)
    assert gemm.direct._read
    with pytest.raises(ArgumentError, match=f"'a' needs {4 * (offset + M * K)} bytes of its storage, which has {left}"):
        gemm(view, b)


def test_one_tensor_twice_goes_by_the_dispatcher(gemm: Gemm) -> None:
    a = integers(K, K)
    for _ in range(3):
        assert torch.equal(gemm(a, a), a @ a.T)
    assert gemm.dispatched == 3 and not gemm.direct._read, "the guard would not know them again"


def test_memory_that_is_shared_is_found(gemm: Gemm) -> None:
    memory, b = integers(100), integers(N, N)
    for start in (50, 50, 50, 14, 50):
        a, c = memory[: M * N].view(M, N), memory[start : start + M * N].view(M, N)
        if start == 14:
            with pytest.raises(ArgumentError, match="'out' shares memory with 'a'"):
                gemm(a, b, c)
        else:
            assert torch.equal(gemm(a, b, c), a @ b.T)


def test_nothing_is_launched_for_an_empty_result(gemm: Gemm) -> None:
    for _ in range(3):
        assert gemm(torch.zeros(0, K), integers(N, K)).shape == (0, N)
        gemm(torch.zeros(0, K), integers(N, K), torch.zeros(0, N))
        assert not gemm(torch.zeros(M, 0), integers(N, 0)).any()


def test_results_that_are_not_aligned_are_written(gemm: Gemm) -> None:
    a, b = integers(M, K), integers(N, K)
    for offset in (1, 1, 1, 0, 0, 0):
        c = torch.zeros(M * N + 1)[offset : offset + M * N].view(M, N)
        for _ in range(2):
            gemm(a, b, c.zero_())
            assert torch.equal(c, a @ b.T)


def test_no_tensor_and_no_memory_is_held(gemm: Gemm) -> None:
    tensors = known(gemm)
    gemm(*tensors)
    assert gemm.dispatched == 0
    held = [weakref.ref(tensor) for tensor in tensors]
    storages = [weakref.ref(tensor.untyped_storage()) for tensor in tensors]
    uses = [torch._C._storage_Use_Count(tensor.untyped_storage()._cdata) for tensor in tensors]  # pyright: ignore
    fresh = integers(M, K)
    assert uses == [torch._C._storage_Use_Count(fresh.untyped_storage()._cdata)] * 3  # pyright: ignore
    del tensors
    assert [one() for one in held + storages] == [None] * 6


def test_what_is_known_is_forgotten_before_it_is_too_much(gemm: Gemm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CALLS_KEPT", 4)
    b, kept = integers(N, K), list[Tensor]()
    for rows in range(1, 20):
        a = integers(rows, K)
        kept += [a, out := integers(rows, N)]
        for _ in range(3):
            gemm(a, b, out)
        assert 0 < len(gemm.direct._written) <= 4
    memory = integers(100 * K)
    for rows in range(1, 30):
        for _ in range(2):
            gemm(memory[: rows * K].view(rows, K), b)
    at_one_place = 0
    (one,) = [one for place, one in gemm.direct._read.items() if _is_in(memory, place)]
    while one is not None:
        at_one_place, one = at_one_place + 1, one.others
    assert at_one_place <= 8


def _is_in(memory: Tensor, place: Any) -> bool:
    """Whether a tensor that begins there is in a place, as machine code tells it, or Python."""
    address = memory.data_ptr()
    return address.to_bytes(8, "little") in place if isinstance(place, bytes) else address in place


def test_threads_launch_at_once(gemm: Gemm) -> None:
    a, b, _ = known(gemm)
    wrong: list[int] = []

    def work() -> None:
        c = torch.zeros(M, N)
        for _ in range(200):
            gemm(a, b, c.zero_())
            wrong.extend([1] * (not torch.equal(c, a @ b.T)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_known_call_is_right_in_a_forked_child(gemm: Gemm) -> None:
    a, b, c = known(gemm)
    gemm(a, b, c)
    child = os.fork()
    if child == 0:
        c.zero_()
        gemm(a, b, c)
        os._exit(int(not torch.equal(c, a @ b.T)))
    assert os.waitpid(child, 0)[1] == 0


def test_wrong_count_of_results_is_told(gemm: Gemm) -> None:
    a, b, c = known(gemm)
    assert not gemm.direct.write(a, b) and not gemm.direct.write(a, b, c, c) and not gemm.direct.write()
    assert gemm.direct.new(a) is None and gemm.direct.new(a, b, c) is None and gemm.direct.new() is None


def _empty(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype)


class _OnGpu(Caller):
    """Is its own launcher, says that its tensors are on GPU 1, and launches nothing."""

    def __init__(self) -> None:
        super().__init__(2)
        self.bound: list[tuple[int, ...]] = []
        self.launched: list[tuple[int, ...]] = []

    def prepare(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor] | None, scalars: tuple[Any, ...] = ()
    ) -> tuple[Sequence[Tensor], Call]:
        plan = make_plan(_GEMM, check_inputs(_GEMM, inputs))
        return inputs, Call(_GEMM, plan, self, 1, _empty, ((plan.shapes[-1], (N, 1), torch.float32),))

    def launch(self, tensors: Sequence[Tensor], addresses: Sequence[int], plan: LaunchPlan) -> None:
        self.launched.append(tuple(addresses))

    def bind(self, addresses: Sequence[int], plan: LaunchPlan) -> Callable[[], object]:
        self.bound.append(tuple(addresses))
        return lambda: self.launched.append(tuple(addresses))


def test_launches_on_a_gpu_are_bound_for_a_stream_and_made_on_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, stream = [1], [7]
    monkeypatch.setattr(module, "_current_gpu", lambda: gpu[0])
    monkeypatch.setattr(module, "_current_stream", stream.__getitem__)
    monkeypatch.setattr(caller_module, "_current_gpu", lambda: 1)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    stream.append(8)  # of GPU 1
    caller, tensors = _OnGpu(), (integers(M, K), integers(N, K), integers(M, N))
    caller.write(*tensors)
    caller.new(*tensors[:2])
    for _ in range(3):
        assert caller.direct.write(*tensors)
    addresses = tuple(tensor.data_ptr() for tensor in tensors)
    assert caller.bound == [addresses] and caller.launched[-3:] == [addresses] * 3
    stream[1] = 9
    assert caller.direct.write(*tensors) and caller.bound == [addresses] * 2
    made = [caller.direct.new(*tensors[:2]) for _ in range(20)]
    assert caller.bound[2:] == caller.launched[-20:] == [(*addresses[:2], one.data_ptr()) for one in made]
    gpu[0] = 0
    assert not caller.direct.write(*tensors) and caller.direct.new(*tensors[:2]) is None


def test_known_calls_of_a_family_look_for_no_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_module, "_current_gpu", lambda: 1)
    monkeypatch.setattr(module, "_current_gpu", lambda: 1)
    monkeypatch.setattr(module, "_current_stream", int)
    members = {rows: _OnGpu() for rows in (K, K + 1)}
    looked_for: list[int] = []

    def member(a: Tensor, b: Tensor) -> Caller:
        looked_for.append(len(b))
        return members[len(b)]

    family, a = module.DirectCalls(member, 2), integers(M, K)
    for rows, caller in members.items():
        tensors = (a, integers(rows, K), integers(M, rows))
        assert not family.write(*tensors), "nobody called it before"
        caller.write(*tensors)
        looked_for.clear()
        assert all(family.write(*tensors) for _ in range(3)) and looked_for == [rows]
        assert len(caller.launched) == 4

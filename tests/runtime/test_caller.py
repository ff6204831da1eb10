"""Calls: what is looked up and what is checked each time, on which GPU, and what is never taken for granted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.runtime.standins import gemm_interface
from wavespec.runtime import ArgumentError
from wavespec.runtime import caller as module
from wavespec.runtime.caller import Call, Caller
from wavespec.runtime.checks import check_inputs, check_outputs
from wavespec.runtime.launch_plan import LaunchPlan, make_plan

_ARTIFACT = gemm_interface()


class _Recorder(Caller):
    """Is its own launcher: a GEMM that computes nothing."""

    def __init__(self, gpu: int | None = None) -> None:
        super().__init__(2)
        self.gpu = gpu
        self.prepared = 0
        self.launched: list[tuple[tuple[Tensor, ...], tuple[int, ...]]] = []

    def prepare(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor] | None, scalars: tuple[Any, ...] = ()
    ) -> tuple[Sequence[Tensor], Call]:
        self.prepared += 1
        sizes = check_inputs(_ARTIFACT, inputs)
        if outputs is not None:
            check_outputs(_ARTIFACT, inputs, outputs, sizes)
        plan = make_plan(_ARTIFACT, sizes)
        result = plan.shapes[-1]
        launcher = self if plan.workgroups else None
        call = Call(_ARTIFACT, plan, launcher, self.gpu, _empty, ((result, (result[1], 1), torch.float32),))
        return [tensor.contiguous() for tensor in inputs], call

    def launch(self, tensors: Sequence[Tensor], addresses: Sequence[int], plan: LaunchPlan) -> None:
        assert [tuple(tensor.shape) for tensor in tensors] == list(plan.shapes)
        assert [tensor.data_ptr() for tensor in tensors] == list(addresses)
        self.launched.append((tuple(tensors), tuple(addresses)))


def _empty(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype)


def _operands(m: int = 5, n: int = 6, k: int = 7) -> tuple[Tensor, Tensor, Tensor]:
    return torch.zeros(m, k), torch.zeros(n, k), torch.zeros(m, n)


def test_tensors_of_one_description_are_checked_once() -> None:
    caller = _Recorder()
    for _ in range(3):
        a, b, c = _operands()
        assert caller.new(a, b).shape == (5, 6)
        caller.write(a, b, c)
        assert caller.launched[-1][0] == (a, b, c)
    assert caller.prepared == 2 and len(caller.launched) == 6
    caller.raw(*_operands())
    assert caller.prepared == 2 and len(caller.launched) == 7
    caller.new(*_operands(m=8)[:2])
    assert caller.prepared == 3


def test_what_is_not_contiguous_is_copied_every_time() -> None:
    caller = _Recorder()
    a, b, _ = _operands()
    caller.new(a, b)
    strided = torch.zeros(7, 5).t()
    for prepared in (2, 3):
        caller.new(strided, b)
        assert caller.prepared == prepared and caller.launched[-1][0][0].is_contiguous()


def test_nothing_is_launched_for_an_empty_result() -> None:
    caller = _Recorder()
    assert caller.new(torch.zeros(0, 7), torch.zeros(6, 7)).shape == (0, 6)
    caller.write(torch.zeros(0, 7), torch.zeros(6, 7), torch.zeros(0, 6))
    caller.raw(torch.zeros(0, 7), torch.zeros(6, 7), torch.zeros(0, 6))
    assert not caller.launched


def test_memory_of_results_is_looked_at_every_time() -> None:
    caller = _Recorder()
    a, b, c = _operands(7, 7, 7)
    caller.write(a, b, c)
    with pytest.raises(ArgumentError, match="'out' shares memory with 'b'"):
        caller.write(a, b, b)
    around = torch.zeros(3 * 49)
    beside = (around[:49].view(7, 7), around[98:].view(7, 7), around[49:98].view(7, 7))
    caller.write(*beside)
    with pytest.raises(ArgumentError, match="'out' shares memory with 'a'"):
        caller.write(around[48:97].view(7, 7), beside[1], beside[2])
    with pytest.raises(ArgumentError, match="'out' requires grad"):
        caller.write(a, b, torch.zeros(7, 7, requires_grad=True))
    with torch.no_grad():
        caller.write(a, b, torch.zeros(7, 7, requires_grad=True))


@pytest.mark.parametrize("way", ["new", "write", "raw"])
def test_the_gpu_of_the_tensors_is_made_the_current_one(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    current = [0]

    class Device:
        def __init__(self, gpu: int) -> None:
            self.gpu = gpu

        def __enter__(self) -> None:
            self.before, current[0] = current[0], self.gpu

        def __exit__(self, *_: Any) -> None:
            current[0] = self.before

    monkeypatch.setattr(module, "_current_gpu", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "device", Device)
    caller = _Recorder(gpu=1)
    seen: list[int] = []

    def launch(*_: Any) -> None:
        seen.append(current[0])

    monkeypatch.setattr(caller, "launch", launch)
    getattr(caller, way)(*_operands()[: 2 if way == "new" else 3])
    assert seen == [1] and current == [0] and caller.prepared == 1


def test_calls_are_forgotten_before_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CALLS_KEPT", 3)
    caller = _Recorder()
    for m in range(1, 9):
        caller.new(*_operands(m=m)[:2])
        assert len(caller._calls) <= 3  # pyright: ignore[reportPrivateUsage]

"""Tensors go in; what a call with such tensors has to do is found out once, and done every time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from operator import add, attrgetter, ge, mul
from typing import Any, Final, Protocol

import torch
from torch import Tensor
from torch.autograd import forward_ad

from wavespec.ir.strided import ALIGNED_BYTES
from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.checks import check_derivatives, check_memory
from wavespec.runtime.direct_calls import DirectCalls
from wavespec.runtime.launch_plan import LaunchPlan
from wavespec.runtime.scalar_arguments import ScalarArguments
from wavespec.runtime.scalars import Passed

_PLANS_KEPT: Final = 8
_CALLS_KEPT: Final = 1024

# A call takes some µs in all, of which Python's loops over tensors were half: these run over them in C.
_description: Final = attrgetter("shape", "dtype", "device", "requires_grad")
_is_contiguous: Final = Tensor.is_contiguous
_address: Final = Tensor.data_ptr
_storage: Final = Tensor.untyped_storage
_bytes: Final = torch.UntypedStorage.nbytes
_offset: Final = Tensor.storage_offset
_element_bytes: Final = Tensor.element_size
_strides: Final = Tensor.stride
_is_grad_enabled: Final = torch.is_grad_enabled
_count_write: Final[Callable[[Sequence[Tensor]], None]] = torch._C._increment_version  # pyright: ignore
"""Tells autograd that tensors have other numbers now, as torch's own functions that write do: a backward that saved
one of them raises, in place of going on with the wrong numbers."""
_current_gpu: Final[Callable[[], int]] = getattr(torch._C, "_cuda_getDevice", lambda: -1)  # pyright: ignore


class Launcher(Protocol):
    """Runs one kernel on one device."""

    def launch(self, tensors: Sequence[Tensor], addresses: Sequence[int], plan: LaunchPlan) -> None:
        """Run on inputs then outputs, of the sizes and strides of `plan`, their memory at `addresses`."""
        ...

    def bind(self, addresses: Sequence[int], plan: LaunchPlan) -> Callable[..., object]:
        """The launch on memory at these addresses (and on the current stream), to be made as often as it is wanted.

        On a CPU `addresses` may be those of the inputs alone: each launch gets those of the outputs, which torch just
        made.  It returns something true where it launched nothing: then `launch` does, or says why not.
        """
        ...


def launch_nothing(*_: int) -> bool:
    """What `Launcher.bind` gives where only `launch` can run the kernel."""
    return True


@dataclass(frozen=True, slots=True)
class Call:
    """What was found out about one call, and holds for all calls with tensors of the same description."""

    artifact: KernelArtifact
    plan: LaunchPlan
    launcher: Launcher | None
    """None where there is nothing to launch."""
    gpu: int | None
    """Number of the GPU that has to be the current one."""
    empty: Callable[..., Tensor]
    """Makes a tensor on the current device."""
    results: tuple[tuple[tuple[int, ...], tuple[int, ...], torch.dtype], ...]
    """Arguments of `empty` for every output: shape, strides, dtype."""
    zeroed: tuple[int, ...] = ()
    """Numbers of the outputs that start as zeros."""
    tensor_bytes: tuple[int, ...] = ()
    """Of all tensors: what their storages have at least from their first element on, unless they were shrunk."""
    is_empty: bool = False
    """Whether a tensor has no elements, and so may have no memory."""
    requires_grad: bool = False
    """Whether one of the tensors does; then it is only for callers that take no gradient."""
    updates: tuple[int, ...] = ()
    """The inputs that are changed in place."""
    dense: tuple[int, ...] = ()
    """The tensors that have to be contiguous."""
    apart: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]])
    """Addresses of tensors of which none that is written is known to share memory with another."""
    plans: dict[tuple[int, ...], LaunchPlan] = field(default_factory=dict[tuple[int, ...], LaunchPlan])
    """With the words of scalars that calls had, which are mostly the same."""

    def plan_with(self, words: tuple[int, ...]) -> LaunchPlan:
        """The plan of a call with these words of scalars."""
        if not words:
            return self.plan
        plan = self.plans.get(words)
        if plan is None:
            if len(self.plans) >= _PLANS_KEPT:
                self.plans.clear()
            plan = self.plans[words] = self.plan.with_words(words)
        return plan


def _alignment(tensor: Tensor) -> int:
    return _address(tensor) % ALIGNED_BYTES


def _is_differentiated(call: Call) -> bool:
    """Whether autograd may want a derivative, which no kernel has."""
    return (call.requires_grad and _is_grad_enabled()) or forward_ad._current_level >= 0  # pyright: ignore


class Caller(ABC):
    """Three ways to call a kernel on real tensors; all tell autograd what they wrote."""

    def __init__(self, input_count: int, scalars: ScalarArguments | None = None) -> None:
        """``scalars``: those of a kernel that has some."""
        self._input_count = input_count
        self.scalars = ScalarArguments("kernel") if scalars is None else scalars
        self._calls: dict[tuple[Any, ...], Call] = {}
        self._is_strided = False
        """Whether some tensors may have any strides; known from the first call on."""
        self.direct = DirectCalls(lambda *_: self, input_count, self.scalars if self.scalars.shape else None)

    @abstractmethod
    def prepare(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor] | None, scalars: tuple[Passed, ...] = ()
    ) -> tuple[Sequence[Tensor], Call]:
        """Check the tensors in full and load the kernel; returns inputs as it takes them, and the call. Of ``scalars``
        those count that shape it.

        Errors: `ArgumentError`, which names the argument; `ArtifactError` where no code fits the device.
        """

    def new(self, *inputs: Tensor, scalars: tuple[Passed, ...] = ()) -> Any:
        """Run into new tensors; returns the output, or a tuple of them."""
        call = self.known(inputs, scalars)
        if call is None:
            inputs, call = self._found_out(inputs, None, scalars)
        words = self._words(scalars, call)
        if call.gpu is not None and call.gpu != _current_gpu():
            with torch.cuda.device(call.gpu):
                return self.new(*inputs, scalars=scalars)
        if call.updates:
            self._check_apart(inputs, tuple(map(_address, inputs)), call)
        outputs = tuple(starmap(call.empty, call.results))
        for number in call.zeroed:
            outputs[number].zero_()
        if call.launcher is not None:
            tensors = inputs + outputs
            call.launcher.launch(tensors, tuple(map(_address, tensors)), call.plan_with(words))
        if call.updates:
            _count_write([inputs[number] for number in call.updates])
        return outputs[0] if len(outputs) == 1 else outputs

    def write(self, *tensors: Tensor, scalars: tuple[Passed, ...] = ()) -> None:
        """Run on inputs, then outputs, which share no memory with the others."""
        call = self.known(tensors, scalars)
        if call is None:
            inputs, outputs = tensors[: self._input_count], tensors[self._input_count :]
            inputs, call = self._found_out(inputs, outputs, scalars)
            tensors = inputs + outputs
        words = self._words(scalars, call)
        if call.gpu is not None and call.gpu != _current_gpu():
            with torch.cuda.device(call.gpu):
                return self.write(*tensors, scalars=scalars)
        addresses = tuple(map(_address, tensors))
        self._check_apart(tensors, addresses, call)
        if call.launcher is not None:
            call.launcher.launch(tensors, addresses, call.plan_with(words))
        self._count_writes(tensors, call)

    def raw(self, *tensors: Tensor, scalars: tuple[Passed, ...] = ()) -> None:
        """Launch on inputs, then outputs; wrong strides or outputs corrupt memory.

        Where tensors may have any strides they are looked at as `write` does, which finds out what to launch by them.
        """
        inputs = tensors[: self._input_count]
        call = None if self._is_strided else self._calls.get(self._key(inputs, scalars))
        if call is None or _is_differentiated(call):
            if not self._is_strided:
                _, call = self._found_out(inputs, None, scalars)
            if self._is_strided or call is None:
                return self.write(*tensors, scalars=scalars)
        words = self._words(scalars, call)
        if call.gpu is not None and call.gpu != _current_gpu():
            with torch.cuda.device(call.gpu):
                return self.raw(*tensors, scalars=scalars)
        if call.launcher is not None:
            call.launcher.launch(tensors, tuple(map(_address, tensors)), call.plan_with(words))
        self._count_writes(tensors, call)

    def _count_writes(self, tensors: tuple[Tensor, ...], call: Call) -> None:
        written = tensors[self._input_count :]
        _count_write((*(tensors[number] for number in call.updates), *written) if call.updates else written)

    def _words(self, scalars: tuple[Passed, ...], call: Call) -> tuple[int, ...]:
        return self.scalars.words(scalars, call.plan.sizes) if scalars or self.scalars else ()

    def _key(self, tensors: Sequence[Tensor], scalars: tuple[Passed, ...]) -> tuple[Any, ...]:
        """What a call is known by: tensors, and the scalars that shape it."""
        key = tuple(map(_description, tensors))
        if self._is_strided:
            key = (*key, *map(_strides, tensors), *map(_alignment, tensors))
        return key + self.scalars.shaping(scalars) if scalars else key

    def known(self, tensors: Sequence[Tensor], scalars: tuple[Passed, ...] = ()) -> Call | None:
        """The call of earlier tensors of the same description, if these are as contiguous and need no derivative."""
        try:
            call = self._calls.get(self._key(tensors, scalars))
            if call is None or _is_differentiated(call):
                return None
            # Behind the inputs are none where results are made.
            dense = (tensors[n] for n in call.dense if n < len(tensors)) if self._is_strided else tensors
            if not all(map(_is_contiguous, dense)):
                return None
            needed = call.tensor_bytes
            if any(map(_offset, tensors)):
                needed = map(add, needed, map(mul, map(_offset, tensors), map(_element_bytes, tensors)))
            has_memory = all(map(ge, map(_bytes, map(_storage, tensors)), needed))
        except (AttributeError, RuntimeError):  # Not a tensor, or none with a storage: the full check says so.
            return None
        return call if has_memory and (call.is_empty or all(map(_address, tensors))) else None

    def _found_out(
        self, inputs: Sequence[Tensor], outputs: tuple[Tensor, ...] | None, scalars: tuple[Passed, ...]
    ) -> tuple[tuple[Tensor, ...], Call]:
        if scalars or self.scalars:
            self.scalars.check(scalars)  # Sizes may follow from them.
        taken, call = self.prepare(inputs, outputs, scalars)
        self._is_strided = bool(call.artifact.numbers)
        tensors = (*inputs, *(outputs or ()))
        check_derivatives(call.artifact, tensors)
        if any(tensor.requires_grad for tensor in tensors):
            call = replace(call, requires_grad=True)
        if len(self._calls) >= _CALLS_KEPT:
            self._calls.clear()
        self._calls[self._key(tensors, scalars)] = call
        return tuple(taken), call

    def check_apart(self, tensors: tuple[Tensor, ...], call: Call) -> None:
        """Check that no memory is written that another tensor has, where a call writes to its arguments."""
        if call.updates or len(tensors) > self._input_count:
            self._check_memory(tensors, call)

    def _check_apart(self, tensors: tuple[Tensor, ...], addresses: tuple[int, ...], call: Call) -> None:
        if addresses not in call.apart:
            self._check_memory(tensors, call)
            if len(call.apart) >= _CALLS_KEPT:
                call.apart.clear()
            call.apart.add(addresses)

    def _check_memory(self, tensors: tuple[Tensor, ...], call: Call) -> None:
        check_memory(call.artifact, tensors[: self._input_count], tensors[self._input_count :])

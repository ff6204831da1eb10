"""A call like an earlier one goes in; it is made again without torch's dispatcher, or left to it.

The dispatcher and the full check find the same each time where nobody watches and tensors are as they were. What may be
different each time is asked here: who watches; where the memory of the tensors is, and how much; and everything else
that tensors are by one C++ function of torch, Dynamo's guard: classes, dispatch keys (with those of the thread:
transforms, tracing, autocast), dtypes, devices, `requires_grad`, shapes and strides. What differs goes the long way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import starmap
from operator import is_
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad, profiler
from torch.utils._device import DeviceContext

from wavespec.runtime.checks import are_plain
from wavespec.runtime.places import PLACE_OF, place_of_any
from wavespec.runtime.scalars import Passed

if TYPE_CHECKING:
    from wavespec.runtime.caller import Call, Caller

_CALLS_KEPT: Final = 4096
_KEPT_AT_ONE_PLACE: Final = 8
_LAUNCHES_KEPT: Final = 8

_address: Final = Tensor.data_ptr
_function_modes: Final[Callable[[], int]] = torch._C._len_torch_function_stack  # pyright: ignore
_function_mode: Final[Callable[[int], object]] = torch._C._get_function_stack_at  # pyright: ignore
_dispatch_modes: Final[Callable[[], int]] = torch._C._len_torch_dispatch_stack  # pyright: ignore
_guard_of: Final[Callable[..., Any]] = cast(Any, torch)._C._dynamo.guards.TensorGuards
_current_gpu: Final[Callable[[], int]] = getattr(torch._C, "_cuda_getDevice", lambda: -1)  # pyright: ignore
_current_stream: Final[Callable[[int], int]] = getattr(torch._C, "_cuda_getCurrentRawStream", int)  # pyright: ignore
_count_write: Final[Callable[[Sequence[Tensor]], None]] = torch._C._increment_version  # pyright: ignore

_Words = tuple[int, ...]
_Launches = dict[tuple[Any, ...], Callable[..., object]]


@dataclass(slots=True)
class _Known:
    """A call with tensors that were checked, at one place."""

    are_like_these: Callable[..., bool]
    """Whether tensors are, all but their memory."""
    call: Call
    conditions: tuple[Callable[[], bool], ...]
    """What has to be so besides; mostly there is nothing."""
    others: _Known | None
    """A call with other tensors at the same place."""
    stream: Callable[[], int] | None
    """The queue of a GPU that is the current one."""
    launches: _Launches = field(default_factory=_Launches)
    """By the words of scalars; on a GPU by the stream, these, and the addresses of new tensors where there are some."""
    words: tuple[tuple[Passed, ...], _Words] = ((), ())
    """Of the scalars of an earlier call, these first."""


_KnownCalls = dict[tuple[Any, ...], _Known]
"""By scalars that shape a call, and the place of its tensors."""


class DirectCalls:
    """What is known of the calls of one kernel; it holds no tensor and no memory of one."""

    def __init__(self, caller: Caller, inputs: int) -> None:
        self._caller = caller
        self._inputs = inputs
        self._read: _KnownCalls = {}
        self._written: _KnownCalls = {}
        self._scalars: tuple[Passed, ...] = ()
        """Of an earlier call, of Python's own types."""

    def new(self, *inputs: Tensor, scalars: tuple[Passed, ...] = ()) -> Any:
        """Run into new tensors, as `Caller.new` does; None where the call has to go the long way."""
        numbers = self._kept(scalars) if scalars else ()
        known = None if numbers is None else self._find(self._read, inputs, numbers)
        if numbers is None or known is None:
            return None
        call = known.call
        of, words = known.words  # as one, since other threads may write it
        if of is not numbers:
            words = self._words_of(known, numbers)
        outputs = tuple(starmap(call.empty, call.results))
        for number in call.zeroed:
            outputs[number].zero_()
        made = tuple(map(_address, outputs))
        if known.stream is None:  # New memory of a CPU is seldom where it was, that of a GPU comes from a cache.
            launches_nothing = (known.launches.get(words) or self._bind(known, words, inputs, words))(*made)
        else:
            key = (known.stream(), words, made)
            launches_nothing = (known.launches.get(key) or self._bind(known, key, (*inputs, *outputs), words))()
        if launches_nothing:
            _launch(call, (*inputs, *outputs), words)
        if call.updates:
            _count_write([inputs[number] for number in call.updates])
        return outputs[0] if len(outputs) == 1 else outputs

    def write(self, *tensors: Tensor, scalars: tuple[Passed, ...] = ()) -> bool:
        """Run on inputs, then outputs, as `Caller.write` does; False where the call has to go the long way."""
        numbers = self._kept(scalars) if scalars else ()
        known = None if numbers is None else self._find(self._written, tensors, numbers)
        if numbers is None or known is None:
            return False
        of, words = known.words
        if of is not numbers:
            words = self._words_of(known, numbers)
        key = words if known.stream is None else (known.stream(), words)
        if (known.launches.get(key) or self._bind(known, key, tensors, words))():
            _launch(known.call, tensors, words)
        written = tensors[self._inputs :]
        if updates := known.call.updates:
            written = (*(tensors[number] for number in updates), *written)
        _count_write(written)
        return True

    def _find(self, calls: _KnownCalls, tensors: tuple[Any, ...], scalars: tuple[Passed, ...]) -> _Known | None:
        modes = _dispatch_modes() or (_function_modes() and not _only_default_devices())
        if modes or forward_ad._current_level >= 0 or profiler._is_profiler_enabled:  # pyright: ignore
            return None
        try:
            place: tuple[Any, ...] | None = PLACE_OF.get(len(tensors), place_of_any)(tensors)
        except RuntimeError:  # A tensor without a storage.
            return None
        if place is None:
            return None
        if scalars and self._caller.scalars.shape:
            place = self._caller.scalars.shaping(scalars) + place
        known = calls.get(place)
        while known is not None and not known.are_like_these(*tensors):
            known = known.others
        known = known or self._learn(calls, place, tensors, scalars)
        if known is None:
            return None
        for is_met in known.conditions:
            if not is_met():
                return None
        return known

    def _kept(self, scalars: tuple[Passed, ...]) -> tuple[Passed, ...] | None:
        """The numbers as the tuple of an earlier call where they are the same objects, as literals and defaults are;
        None where torch traces one. To be equal is not enough: 0.0 is equal to -0.0, and 1 to True."""
        last, numbers = self._scalars, self._caller.scalars
        if len(scalars) == len(last) and all(map(is_, scalars, last)):
            return last
        if numbers.is_symbolic(scalars):
            return None
        if numbers.are_exact(scalars):
            self._scalars = scalars
        return scalars

    def _words_of(self, known: _Known, scalars: tuple[Passed, ...]) -> _Words:
        """What the kernel gets for the numbers, which are other ones than in the call before."""
        words = self._caller.scalars.words(scalars, known.call.plan.sizes)
        if scalars is self._scalars:
            known.words = scalars, words
        return words

    def _learn(
        self, calls: _KnownCalls, place: tuple[Any, ...], tensors: tuple[Tensor, ...], scalars: tuple[Passed, ...]
    ) -> _Known | None:
        """Take note of tensors that may be used, and are described like those of a call that went the long way."""
        call = self._caller.known(tensors, scalars) if are_plain(tensors) else None
        if call is None or len(tensors) != self._inputs + (len(call.results) if calls is self._written else 0):
            return None
        if len(set(map(id, tensors))) < len(tensors):
            return None  # The guard takes no tensor twice.
        self._caller.check_apart(tensors, call)
        if len(calls) >= _CALLS_KEPT:
            calls.clear()
        conditions: list[Callable[[], bool]] = []
        if any(tensor.requires_grad for tensor in tensors):
            conditions.append(lambda: not torch.is_grad_enabled())
        if call.gpu is not None and torch.cuda.device_count() > 1:  # To ask costs 0.4 µs.
            conditions.append(lambda: _current_gpu() == call.gpu)
        guard: Any = _guard_of(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        stream = None if call.gpu is None else partial(_current_stream, call.gpu)
        others = _first(calls.get(place), _KEPT_AT_ONE_PLACE - 1)
        known = calls[place] = _Known(guard.check, call, tuple(conditions), others, stream)
        return known

    def _bind(
        self, known: _Known, key: tuple[Any, ...], tensors: tuple[Tensor, ...], words: _Words
    ) -> Callable[..., object]:
        call = known.call
        if len(known.launches) >= _LAUNCHES_KEPT:
            known.launches.clear()
        addresses, plan = tuple(map(_address, tensors)), call.plan_with(words)
        launch = _none if call.launcher is None else call.launcher.bind(addresses, plan)
        known.launches[key] = launch
        return launch


def _only_default_devices() -> bool:
    """Whether the only function modes are those of a default device, which concern what makes tensors of no tensor."""
    return all(type(_function_mode(number)) is DeviceContext for number in range(_function_modes()))


def _none(*_: int) -> None:
    """The launch of a kernel that has nothing to do."""


def _launch(call: Call, tensors: tuple[Tensor, ...], words: _Words) -> None:
    assert call.launcher is not None
    call.launcher.launch(tensors, tuple(map(_address, tensors)), call.plan_with(words))


def _first(known: _Known | None, count: int) -> _Known | None:
    return known and replace(known, others=_first(known.others, count - 1)) if count else None

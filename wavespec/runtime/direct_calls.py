"""A call like an earlier one goes in; it is made again without torch's dispatcher, or left to it.

The dispatcher and the full check find the same each time where nobody watches and tensors are as they were. What may be
different each time is asked here: who watches; where the memory of the tensors is, and how much; and everything else
that tensors are by one C++ function of torch, Dynamo's guard: classes, dispatch keys (with those of the thread:
transforms, tracing, autocast), dtypes, devices, `requires_grad`, shapes and strides. What differs goes the long way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from operator import is_
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad, profiler
from torch.utils._device import DeviceContext

from wavespec.runtime.checks import are_plain
from wavespec.runtime.places import place_of

if TYPE_CHECKING:
    from wavespec.runtime.caller import Call, Caller
    from wavespec.runtime.scalar_arguments import ScalarArguments

_CALLS_KEPT: Final = 4096
_KEPT_AT_ONE_PLACE: Final = 8
_LAUNCHES_KEPT: Final = 8
_NO_NUMBER: Final = object()
"""In the place of numbers that no call had."""

_address: Final = Tensor.data_ptr
_function_modes: Final[Callable[[], int]] = torch._C._len_torch_function_stack  # pyright: ignore
_are_disabled: Final[Callable[[], bool]] = torch._C._is_torch_function_all_disabled  # pyright: ignore
_Disabled: Final[Any] = torch._C.DisableTorchFunction  # pyright: ignore
"""While the only mode is a default device, which asks at each function of a tensor, a µs each time."""
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
    scalars: ScalarArguments
    """Of its kernel."""
    call: Call
    conditions: tuple[Callable[[], bool], ...]
    """What has to be so besides; mostly there is nothing."""
    others: _Known | None
    """A call with other tensors at the same place."""
    launches: _Launches = field(default_factory=_Launches)
    """By the words of scalars; on a GPU by the stream, these, and the addresses of new tensors where there are some."""
    words: tuple[tuple[object, ...], _Words] = ((), ())
    """Of the scalars of an earlier call, which have Python's own types, these first."""


_KnownCalls = dict[Any, _Known]
"""By the place of its tensors, with scalars that shape a call where there are some."""


class DirectCalls:
    """What is known of the calls of one kernel, or of a family whose members are picked by what tensors are alone; it
    holds no tensor and no memory of one."""

    def __init__(self, caller_of: Callable[..., Caller], inputs: int, shaping: ScalarArguments | None = None) -> None:
        """``caller_of``: the kernel for so many inputs; ``shaping``: its scalars, where some shape a call, as those of
        a family do not."""
        self._caller_of = caller_of
        self._inputs = inputs
        self._shaping = shaping
        self._read: _KnownCalls = {}
        self._written: _KnownCalls = {}

    def new(self, *inputs: Tensor, scalars: tuple[Any, ...] = ()) -> Any:
        """Run into new tensors, as `Caller.new` does; None where the call has to go the long way.

        Errors: those of `ScalarArguments.words` for scalars, which are as a call passed them.
        """
        if _function_modes() and not _are_disabled():
            with _Disabled():
                return self.new(*inputs, scalars=scalars) if _only_default_devices() else None
        known = self._find(self._read, inputs, scalars)
        if known is None:
            return None
        of, words = known.words  # as one, since other threads may write it
        if scalars and not all(map(is_, scalars, of)):
            words = _words_of(known, scalars)
            if words is None:
                return None
        call = known.call
        if len(call.results) == 1:  # A loop over one takes twice as long.
            outputs = (call.empty(*call.results[0]),)
            made = (_address(outputs[0]),)
        else:
            outputs = tuple(starmap(call.empty, call.results))
            made = tuple(map(_address, outputs))
        for number in call.zeroed:
            outputs[number].zero_()
        if call.gpu is None:  # New memory of a CPU is seldom where it was, that of a GPU comes from a cache.
            launches_nothing = (known.launches.get(words) or _bind(known, words, inputs, words))(*made)
        else:
            key = (_current_stream(call.gpu), words, made)
            launches_nothing = (known.launches.get(key) or _bind(known, key, (*inputs, *outputs), words))()
        if launches_nothing:
            _launch(call, (*inputs, *outputs), words)
        if call.updates:
            _count_write([inputs[number] for number in call.updates])
        return outputs[0] if len(outputs) == 1 else outputs

    def write(self, *tensors: Tensor, scalars: tuple[Any, ...] = ()) -> bool:
        """Run on inputs, then outputs, as `Caller.write` does; False where the call has to go the long way.

        Errors: as of `new`.
        """
        if _function_modes() and not _are_disabled():
            with _Disabled():
                return _only_default_devices() and self.write(*tensors, scalars=scalars)
        known = self._find(self._written, tensors, scalars)
        if known is None:
            return False
        of, words = known.words
        if scalars and not all(map(is_, scalars, of)):
            words = _words_of(known, scalars)
            if words is None:
                return False
        call = known.call
        key = words if call.gpu is None else (_current_stream(call.gpu), words)
        if (known.launches.get(key) or _bind(known, key, tensors, words))():
            _launch(call, tensors, words)
        written = tensors[self._inputs :]
        if call.updates:
            written = (*(tensors[number] for number in call.updates), *written)
        _count_write(written)
        return True

    def _find(self, calls: _KnownCalls, tensors: tuple[Any, ...], scalars: tuple[Any, ...]) -> _Known | None:
        if _dispatch_modes() or forward_ad._current_level >= 0 or profiler._is_profiler_enabled:  # pyright: ignore
            return None
        place: Any = place_of(*tensors)
        if not place:
            return None
        if self._shaping is not None:
            scalars = self._shaping(*scalars)
            if self._shaping.is_symbolic(scalars):
                return None
            place = place, self._shaping.shaping(scalars)
        known = calls.get(place)
        if known is None or not known.are_like_these(*tensors):
            known = self._other(known, calls, place, tensors, scalars)
            if known is None:
                return None
        if known.conditions:
            for is_met in known.conditions:
                if not is_met():
                    return None
        return known

    def _other(
        self,
        known: _Known | None,
        calls: _KnownCalls,
        place: Any,
        tensors: tuple[Any, ...],
        scalars: tuple[Any, ...],
    ) -> _Known | None:
        """The call with these tensors, where the first one at their place is with others."""
        while known is not None and not known.are_like_these(*tensors):
            known = known.others
        return known or self._learn(calls, place, tensors, scalars)

    def _learn(
        self, calls: _KnownCalls, place: Any, tensors: tuple[Tensor, ...], scalars: tuple[Any, ...]
    ) -> _Known | None:
        """Take note of tensors that may be used, and are described like those of a call that went the long way."""
        if not are_plain(tensors):
            return None
        caller = self._caller_of(*tensors[: self._inputs])
        if scalars and not caller.scalars.is_symbolic(scalars):
            caller.scalars.check(scalars)  # torch's dispatcher, which would be next, takes no integer beyond i64
        call = caller.known(tensors, scalars)
        if call is None or len(tensors) != self._inputs + (len(call.results) if calls is self._written else 0):
            return None
        if len(set(map(id, tensors))) < len(tensors):
            return None  # The guard takes no tensor twice.
        caller.check_apart(tensors, call)
        if len(calls) >= _CALLS_KEPT:
            calls.clear()
        conditions: list[Callable[[], bool]] = []
        if any(tensor.requires_grad for tensor in tensors):
            conditions.append(lambda: not torch.is_grad_enabled())
        if call.gpu is not None and torch.cuda.device_count() > 1:  # To ask costs 0.4 µs.
            conditions.append(lambda: _current_gpu() == call.gpu)
        guard: Any = _guard_of(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        others = _first(calls.get(place), _KEPT_AT_ONE_PLACE - 1)
        words = (_NO_NUMBER,) * len(scalars), ()
        known = calls[place] = _Known(guard.check, caller.scalars, call, tuple(conditions), others, words=words)
        return known


def _words_of(known: _Known, scalars: tuple[Any, ...]) -> _Words | None:
    """What the kernel gets for the numbers, which are other objects than in the call before; None where torch traces
    one. To be equal is not enough: 0.0 is equal to -0.0, and 1 to True."""
    if known.scalars.is_symbolic(scalars):
        return None
    words = known.scalars.words(scalars, known.call.plan.sizes)
    if known.scalars.are_exact(scalars):
        known.words = scalars, words
    return words


def _bind(known: _Known, key: tuple[Any, ...], tensors: tuple[Tensor, ...], words: _Words) -> Callable[..., object]:
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

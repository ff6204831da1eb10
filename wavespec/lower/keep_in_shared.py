"""Thread kernel in, thread kernel out: what workgroups that stay loaded once waits in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.rewriting import renamed, uses_of
from wavespec.ir.thread_ops import FOR, LOAD, STORE, WINDOW
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.load_ahead import OTHER_REGISTERS, can_load_ahead, kept_values, registers_of_lane
from wavespec.lower.places_of_lanes import PlacesOfLanes
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.lower.workgroups_together import shared_bytes_left
from wavespec.schedule.prefetch import words
from wavespec.targets.machine import Machine

_FEWEST_WORDS = 2
"""Of a value: one word takes an instruction to bring back, as four do."""


class KeepInShared(Pass):
    """Lay down in shared memory what was made in front of a loop over tiles, where lanes have no registers for it.

    Before: a workgroup that stays loads the weights of its columns once; they wait in registers, beside the elements of
            a tile.
    After:  as many of them as do not fit beside these wait in shared memory, at places of each lane's own, so that
            nobody meets; every tile loads them in front of their first use.
    """

    name: ClassVar[str] = "keep-in-shared"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.concurrent_workgroups

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        loop = next((op for op in kernel.body if op.is_(FOR)), None)
        if loop is None or not can_load_ahead(kernel):
            return kernel
        chosen = list(_without_room(kernel, loop, machine))
        if not chosen:
            return kernel
        places = _Places(kernel, chosen)
        fresh = fresh_names(kernel)
        body: list[Op] = []
        for op in kernel.body:
            body.append(_loading(op, places, fresh) if op is loop else op)
            body += [places.store(value) for value in op.results if value in chosen]
        return replace(kernel, memories=(*kernel.memories, *places.memories), body=tuple(body))


def _without_room(kernel: Kernel, loop: Op, machine: Machine) -> Iterator[Value]:
    """Values for which lanes have no registers, and shared memory has room."""
    tile = sum(op.result.vector.elements for op in loop.body.ops if op.is_(LOAD))
    kept = kept_values(kernel, loop)
    loaded = {value.name for op in kernel.body if op.is_(LOAD, WINDOW) for value in op.results}
    missing = OTHER_REGISTERS + tile + sum(map(words, kept)) - registers_of_lane(kernel, machine)
    free = shared_bytes_left(kernel, machine)
    for value in kept:
        needed = words(value) * 4 * kernel.threads
        is_access = words(value) >= _FEWEST_WORDS and words(value) * 4 <= machine.shared.access_bytes
        if missing > 0 and value.name in loaded and is_access and needed <= free:
            missing, free = missing - words(value), free - needed
            yield value


class _Places:
    """Where each lane has what it keeps."""

    def __init__(self, kernel: Kernel, values: Sequence[Value]) -> None:
        vectors = [value.vector for value in values]
        own = PlacesOfLanes(kernel, [(f"kept.{one.dtype}", one.dtype, one.elements) for one in vectors])
        self.memories = own.memories
        self._of = dict(zip([value.name for value in values], own.places, strict=True))

    def __contains__(self, value: Value) -> bool:
        return value.name in self._of

    def store(self, value: Value) -> Op:
        return Op(STORE.name, (value,), (), tuple(self._of[value.name].items()))

    def load(self, value: Value, result: Value) -> Op:
        return Op(LOAD.name, (), (result,), tuple(self._of[value.name].items()))


def _loading(loop: Op, places: _Places, fresh: Callable[[str], str]) -> Op:
    """The loop with a load of each value in front of its first use."""
    names: dict[str, Value] = {}
    ops: list[Op] = []
    for op in loop.body.ops:
        for value in uses_of(op):
            if value in places and value.name not in names:
                names[value.name] = Value(fresh(value.name), value.type)
                ops.append(places.load(value, names[value.name]))
        ops.append(renamed(op, names))
    yields = tuple(_renamed(value, names) for value in loop.body.yields)
    return replace(loop, region=replace(loop.body, ops=tuple(ops), yields=yields))


def _renamed(value: Value, names: Mapping[str, Value]) -> Value:
    return names.get(value.name, value)

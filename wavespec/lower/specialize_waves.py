"""Thread kernel in, thread kernel out: some waves only copy, the others only compute, and signals tie them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Op, Region, Value, attribute_pairs, rewrite
from wavespec.ir.rewriting import copied
from wavespec.ir.thread_ops import LOAD, PURE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes, roles_are_apart
from wavespec.schedule.buffer_ring import NEXT_TURN, READS, WAVES_IN_TURN, rings_of, rings_outside, signal
from wavespec.schedule.consumer import Consumer
from wavespec.schedule.errors import NothingToCopy, ValuesNotShared
from wavespec.schedule.given_back import asked_for
from wavespec.schedule.issue_in_turn import turn_signals
from wavespec.schedule.producer import Producer
from wavespec.schedule.taken_numbers import given_in
from wavespec.schema.checking.check_schedules import UselessSetting
from wavespec.targets.machine import Machine


class SpecializeWaves(Pass):
    """Split the kernel into a role that fills shared memory and a role that uses it.

    Before: loop bodies ``copies; async_commit; async_wait; mma ...; mma_wait 0``, run by every wave.
    After:  two roles, each with the loops around its own operations.  Step ``i`` of a loop uses buffer ``i % stages``.
            The producer waits until the buffer is empty, copies, and signals that it is full; consumers wait for
            that, compute, and signal that it is empty.  Where a step ends by waiting for its products, it waits for
            those of the step before instead and empties that one's buffer, where there are several; the last ones are
            awaited behind the loop.
            Workgroups of a cluster each copy a part of what all of them read, for all of them.
            What is filled in front of all loops is filled once: consumers wait for it where its copies were.
            Loads that the places of copies are made of belong to the producer, and to both where both use them.
            ``i`` counts on over the steps of outer loops, so that copies run ahead across tiles.
            ``in_turn``: the waves that compute issue the products of a step one behind the other.
            A number that the workgroup takes from a counter is asked for by one lane of the producer, and told to all.
            ``ping_pong``: the two waves that compute take the tiles in turns, and signal each other when they have
            issued their products, so that one ends its tile while the other multiplies.
    Errors: ``staged-outside-loop`` at the read; ``steps-not-counted`` at the loop; ``values-not-shared`` at the value;
            ``nothing-to-copy`` and ``turns-not-possible`` at the schedule's waves.
    """

    name: ClassVar[str] = "specialize-waves"
    requires = (is_of_lanes,)
    ensures = (roles_are_apart,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if not kernel.producers:
            return kernel
        kernel = _with_buffers_in_common(kernel)
        for op in kernel.walk():
            if op.get("uniform") and not _is_known_to_all(kernel, op):
                raise ValuesNotShared(op.span)
        rings, fresh = rings_of(kernel), fresh_names(kernel)
        if not rings:
            raise NothingToCopy(kernel.distribution.roles.span)
        outside = rings_outside(kernel)
        producer = Producer(kernel, rings, outside, fresh, machine.lanes)
        few, many = kernel.distribution.roles.registers
        consumer = Consumer(kernel, rings, outside, fresh, many or machine.registers_of(kernel.threads))
        all_rings = [ring for of_loop in rings.values() for ring in of_loop]
        signals = [one for ring in all_rings if ring.begins for one in ring.signals]
        signals += [one for ring in outside.values() for one in ring.signals if one.arrivals]
        signals += [turn_signals(kernel, ring) for ring in consumer.in_turn]
        if consumer.turn is not None:
            signals.append(signal(NEXT_TURN, WAVES_IN_TURN, kernel.wave_count // WAVES_IN_TURN))
        memories, symbols = given_in(kernel, by_lanes=producer.by_lanes)
        consumed = consumer.body()
        _check_given_back(kernel, frozenset[str]().union(*(ring.filled for ring in outside.values())), consumer)
        roles = (
            _role(kernel.wave_count, kernel.producers, few, _apart(producer.body(), consumed, fresh)),
            _role(0, kernel.wave_count, many, consumed),
        )
        kernel = kernel.with_symbols(*(ring.done for ring in all_rings), *producer.symbols, *symbols)
        return replace(kernel, memories=(*kernel.memories, *signals, *memories), body=roles)


def _check_given_back(kernel: Kernel, once: frozenset[str], consumer: Consumer) -> None:
    """Refuse one buffer for what is filled ``once`` and no last step gives back, in a schedule for this target."""
    asked, roles = asked_for(kernel), kernel.distribution.roles
    for memory in sorted(once - consumer.given_back):
        if memory in asked and kernel.distribution.is_for_target:
            why = "no step is the last one to read a tile of it, for products that others follow"
            raise UselessSetting(
                roles.where("buffers", asked[memory]), asked[memory], why, "Leave it out for this target."
            )


def _is_known_to_all(kernel: Kernel, bind: Op) -> bool:
    """Whether a value is made of what all waves can load alike, those too that only copy."""
    makers = {value.name: op for op in kernel.walk() for value in op.results}
    inputs = {memory.name for memory in kernel.memories if memory.role == "input"}
    own = {"lane", *(name for name, _ in kernel.waves)}
    waiting = list(bind.operands)
    while waiting:
        op = makers.get(waiting.pop().name)
        if op is None or not (op.is_(PURE) or (op.is_(LOAD) and op["memory"] in inputs)) or own & op.symbols:
            return False
        waiting += op.operands
    return True


def _with_buffers_in_common(kernel: Kernel) -> Kernel:
    """The kernel without memories that lie in others: their steps go on in the rings of those, or all of their buffers
    lie in one."""
    names = {memory.name: memory.shares for memory in kernel.memories if memory.shares}
    slabs = {memory.name: memory.elements for memory in kernel.memories if memory.shares and not memory.staged}

    def change(op: Op) -> tuple[Op, ...]:
        used = {key: names[name] for key in READS if (name := op.get(key, "")) in names}
        if (elements := slabs.get(op.get("memory", ""))) is not None:
            used |= {"offset": op["offset"] + op["buffer"] * elements, "buffer": const(0)}
        return (op.with_(**used),) if used else (op,)

    memories = tuple(memory for memory in kernel.memories if not memory.shares)
    return replace(kernel, body=rewrite(kernel.body, change), memories=memories) if names else kernel


def _apart(ops: Sequence[Op], others: Sequence[Op], fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """The operations with names of their own for values that others make as well."""
    every = [inner for op in others for inner in op.walk()]
    made = {value.name for op in every for value in (*op.results, *(op.region.arguments if op.region else ()))}
    names: dict[str, Value] = {}
    return tuple(copied(op, lambda name: fresh(name) if name in made else name, names) for op in ops)


def _role(first: int, waves: int, registers: int, ops: tuple[Op, ...]) -> Op:
    attributes = {"first": const(first), "waves": waves, "registers": registers}
    return Op("role", attributes=attribute_pairs(attributes), region=Region((), ops, ()))

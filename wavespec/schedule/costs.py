"""An operation of one lane in; the unit that it keeps busy, for how long, and when its result is there, out."""

from __future__ import annotations

from dataclasses import dataclass

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import (
    ASYNC_COMMIT,
    ASYNC_WAIT,
    BIND,
    CONSTANT,
    COPY_ASYNC,
    MMA,
    PACK,
    READS_MEMORY,
    SLICE,
    WRITES_MEMORY,
)
from wavespec.targets.machine import Machine, Resources

# Names for registers, or bookkeeping.
_FREE = CONSTANT | SLICE | PACK | BIND | ASYNC_COMMIT | ASYNC_WAIT


@dataclass(frozen=True, slots=True)
class Cost:
    """``busy`` clocks of ``unit`` (none: nothing is kept busy); the result is there ``latency`` clocks after the
    start."""

    unit: str
    busy: int
    latency: int


def kind_of(kernel: Kernel, op: Op) -> str:
    """What a machine's table of resources calls the operation; "" for one that takes no time."""
    if op.is_(READS_MEMORY, WRITES_MEMORY):
        space = "shared" if kernel.memory(op["memory"]).space == "shared" else "global"
        return f"{space}_{'store' if op.is_(WRITES_MEMORY) else 'load'}"
    if op.is_(_FREE):
        return ""
    return "matrix" if op.is_(MMA) else "copy" if op.is_(COPY_ASYNC) else "vector"


def cost_of(kernel: Kernel, op: Op, machine: Machine) -> Cost:
    """The cost on a machine that has a table of resources."""
    resources, kind = machine.resources, kind_of(kernel, op)
    assert resources is not None, f"{machine.variant} has no table of resources"
    if not kind:
        return Cost("", 0, 0)
    row = resources.ops[kind]
    busy = row.clocks
    if kind == "matrix":
        instruction = machine.instruction(op["instruction"])
        assert instruction is not None
        products = instruction.m * instruction.n * instruction.k
        busy = -(-products // resources.macs_per_clock[instruction.a.dtype.name])
        return Cost(row.unit, busy, busy + row.latency)
    if row.bytes_per_clock:
        busy = -(-_bytes(kernel, op) * machine.lanes // row.bytes_per_clock)
    return Cost(row.unit, busy, row.latency)


def barrier_latency(resources: Resources) -> int:
    """Clocks between the last arrival at a barrier and the first operation behind it."""
    return resources.ops["barrier"].latency


def _bytes(kernel: Kernel, op: Op) -> int:
    """What one lane moves."""
    if op.is_(COPY_ASYNC):
        return op["elements"] * kernel.memory(op["source"]).dtype.bytes
    value = op.results[0] if op.results else op.operands[0]
    return value.vector.elements * value.vector.dtype.bytes

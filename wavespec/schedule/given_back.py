"""Tiles that are filled once in front of loops: when the waves that compute give their buffers back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread import Mask
from wavespec.ir.thread_ops import BULK_STORE, FOR, MMA_ASYNC, MMA_WAIT, READS_MEMORY
from wavespec.schedule.buffer_ring import READS, BufferRing, filled_by, in_first_lane, is_copy, make, readers


def asked_for(kernel: Kernel) -> dict[str, str]:
    """The shared memories of tensors that a schedule gives one buffer, and the name of each; a tensor that is read in
    several ways has as many memories."""
    asked = {name for name, buffers in kernel.distribution.roles.buffers if buffers == 1}
    copies = (op for op in kernel.walk() if asked and is_copy(kernel, op))
    return {op["memory"]: op["source"] for op in copies if op["source"] in asked}


def in_last_step(
    kernel: Kernel, ops: Sequence[Op], outside: BufferRing | None, rings: Mapping[int, Sequence[BufferRing]]
) -> tuple[Op, ...]:
    """The loops of a tile that give its only buffer back in their last step, as soon as the products are done that read
    it, where a schedule asks for one: the next tile is copied beside what is left of this one.

    One row of loops, whose steps go on with other products, and nothing but these loops reads the tile.
    """
    loops = tuple(op for op in ops if op.is_(FOR) and filled_by(kernel, op))
    if outside is None or not outside.empty_arrivals or not outside.filled <= asked_for(kernel).keys() or not loops:
        return ()
    if len({loop["induction"] for loop in loops}) > 1 or any(_waits(loop) < 2 for loop in loops):
        return ()
    read = [inner for op in ops for inner in op.walk() if any(inner.get(key) in outside.filled for key in READS)]
    inside = {id(inner) for loop in loops for inner in loop.body.ops}
    if any(id(op) not in inside or not op.is_(MMA_ASYNC) for op in read if not is_copy(kernel, op)):
        return ()
    by_lanes = (_read_by_lanes(loop, filled_by(kernel, loop), rings[id(loop)]) for loop in loops)
    return () if any(by_lanes) else loops


def _waits(loop: Op) -> int:
    return sum(op.is_(MMA_WAIT) for op in loop.body.ops)


def _read_by_lanes(loop: Op, filled: Collection[str], rings: Sequence[BufferRing]) -> bool:
    """Whether lanes make operands of what a step brings."""
    beside = frozenset[str]().union(*(ring.filled for ring in rings if ring.beside))
    return any(op.is_(READS_MEMORY) and op["memory"] in filled and op["memory"] not in beside for op in loop.body.ops)


def is_last(kernel: Kernel, loop: Op, loops: Sequence[Op]) -> Mask:
    """Whether a step of one of the ``loops`` is the last one of them all."""
    return ((loops[-1]["upper"], kernel.symbol(loop["induction"]) + loop["step"] + 1),)


def has_no_steps(loops: Sequence[Op]) -> Mask:
    return ((loops[-1]["upper"], loops[0]["lower"] + 1),)


def behind_products(ops: Sequence[Op], outside: BufferRing) -> int:
    """Where in a step the products that read the tile are done."""
    last = max(number for number in readers(ops, outside.filled))
    return next(number for number, op in enumerate(ops) if op.is_(MMA_WAIT) and number > last)


def leave_through(ops: Sequence[Op], outside: BufferRing) -> bool:
    """Whether results leave through the buffer of the tile."""
    return any(op.is_(BULK_STORE) and op["memory"] in outside.filled for one in ops for op in one.walk())


def released_late(kernel: Kernel, ops: Sequence[Op], outside: BufferRing) -> list[Op]:
    """A tile whose results leave through its buffer: the next one gives it back, behind the first loop that reads
    another buffer, by when the machine has stored them."""
    first = readers(ops, outside.filled)[0]
    before: Expr = outside.index(outside.step + (outside.stages - 1))
    arrive = make("signal_arrive", signal=outside.empty, index=before, bytes=0)
    release = in_first_lane(kernel, make("bulk_wait", pending=0), arrive, mask=((const(0), outside.step),))
    return [*ops[: first + 1], release, *ops[first + 1 :]]

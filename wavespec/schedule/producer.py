"""The role that fills shared memory: wait until a buffer is empty, copy, signal that it is full."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Op, Region
from wavespec.ir.thread import Mask, row_axis
from wavespec.ir.thread_ops import ATOMIC, BIND, BULK_COPY, COPY_ASYNC, FILLS, FOR, LET, LOAD, PURE, TAKE_NUMBER
from wavespec.schedule.buffer_ring import (
    BufferRing,
    copies_into,
    filled_by,
    in_first_lane,
    is_by_lanes,
    is_shared,
    make,
    only_if,
)
from wavespec.schedule.carried_rounds import with_rounds
from wavespec.schedule.errors import ValuesNotShared
from wavespec.schedule.feeding import feeding
from wavespec.schedule.places_ahead import places_ahead
from wavespec.schedule.taken_numbers import NUMBER, asked


class Producer:
    """Keeps the copies of a kernel and the loops around them."""

    def __init__(
        self,
        kernel: Kernel,
        rings: Mapping[int, Sequence[BufferRing]],
        outside: Mapping[int, BufferRing],
        fresh: Callable[[str], str],
        wave_lanes: int,
    ) -> None:
        """``wave_lanes``: that hand each other words."""
        self.kernel, self.rings, self.outside, self.fresh = kernel, rings, outside, fresh
        self.wave_lanes, self.symbols = wave_lanes, list[Expr]()
        blocks = [(op.body.ops, filled) for op in kernel.walk() if (filled := filled_by(kernel, op))]
        bodies = {id(op): op.body.ops for op in kernel.walk() if op.is_(FOR)} | {0: kernel.body}
        blocks += [(bodies[block], ring.filled) for block, ring in outside.items()]
        self.by_lanes = any(is_by_lanes(op, filled) for ops, filled in blocks for op in ops)

    def body(self) -> tuple[Op, ...]:
        """What the role runs; one lane is enough to have boxes copied."""
        ops = self._kept(self.kernel.body)
        return ops if self.by_lanes else (in_first_lane(self.kernel, *ops),)

    def _kept(self, ops: Sequence[Op], loop: int = 0, wanted: Collection[str] = ()) -> tuple[Op, ...]:
        """Its loops, what is filled once, what places of copies and what is ``wanted`` are made of."""
        found, own, outside = list[Op](), list[int](), self.outside.get(loop)
        once = [op for op in ops if outside and op.is_(FILLS) and op["memory"] in outside.filled]
        for op in ops:
            if outside and once and op is once[-1]:
                kept = self._fill(once, outside)
            elif op.region is None and not op.is_(TAKE_NUMBER) and any(value.name in wanted for value in op.results):
                kept = [op]
            else:
                kept = self._own(op, wanted)
            own += range(len(found), len(found) + len(kept))
            found += kept or [op]
        needed = feeding(found, own)
        for number in needed:
            if not _is_known_alike(self.kernel, found[number]):
                raise ValuesNotShared(found[number].span)
        return tuple(found[number] for number in sorted({*own, *needed}))

    def _fill(self, copies: Sequence[Op], ring: BufferRing) -> Sequence[Op]:
        """Copy once; in a loop, when what was there before is not needed any more."""
        return self._issue(copies, ring, [_empty(ring)] if ring.empty_arrivals else [])

    def _own(self, op: Op, wanted: Collection[str]) -> Sequence[Op]:
        if op.is_(LET) or (op.is_(BIND) and op["symbol"] == NUMBER.args[0]):
            return (op,)
        if op.is_(TAKE_NUMBER):
            return asked(self.kernel, op, self.fresh)
        if op.is_(ATOMIC) and self.kernel.memory(op["memory"]).space == "counter":
            return (op,)
        if op.is_(FOR) and filled_by(self.kernel, op):
            rings = self.rings[id(op)]
            return self._loop(op.with_(lower=rings[0].lower), rings) if rings[0].is_filled else ()
        if op.is_(FOR) and any(filled_by(self.kernel, inner) for inner in op.walk()):
            return self._around(op, wanted)
        return ()

    def _around(self, loop: Op, wanted: Collection[str]) -> tuple[Op, ...]:
        """A loop around others, which carries what theirs, places of copies and what is ``wanted`` are made of."""
        body = loop.body
        asked_for = frozenset(number for number, value in enumerate(loop.results) if value.name in wanted)
        carried = asked_for
        while True:
            ops = self._kept(body.ops, id(loop), [body.yields[number].name for number in carried])
            used = {value.name for op in ops for inner in op.walk() for value in inner.operands}
            needed = frozenset(number for number, value in enumerate(body.arguments) if value.name in used) | asked_for
            if needed == carried:
                break
            carried = needed
        arguments, yields, operands, results = (
            tuple(values[number] for number in sorted(carried))
            for values in (body.arguments, body.yields, loop.operands, loop.results)
        )
        bare = replace(loop, operands=operands, results=results, region=Region(arguments, body.ops, yields))
        return with_rounds(bare, ops, self.rings, self.fresh)

    def _loop(self, loop: Op, rings: Sequence[BufferRing]) -> list[Op]:
        carried, body = {value.name for value in loop.body.arguments}, list[Op]()
        late = [ring for ring in rings if ring.late and any(op.is_(COPY_ASYNC) for op in _fills(loop, ring))]
        for ring in rings:
            copies = copies_into(loop.body.ops, ring.filled)
            for op in copies:
                if not carried.isdisjoint(value.name for value in op.operands):
                    raise ValuesNotShared(op.span)
            body += self._issue(copies, ring, [_empty(ring)])
            if ring in late:
                body += self._said_late(loop, ring, late)
        last = _landed(late[-1], late[-1].steps - 1, 0, ((loop["lower"], loop["upper"]),)) if late else []
        lets = [let for ring in rings for let in ring.lets]
        loop = replace(loop, operands=(), results=(), region=Region((), tuple(body), ()))
        # One lane would wait for each place, in front of the boxes that are there.
        loads = not self.by_lanes and any(op.is_(LOAD) and loop["induction"] in op.symbols for op in body)
        if not loads and not any(ring.landed for ring in rings):
            return [*lets, loop, *last]
        copying, symbols = places_ahead(self.kernel, loop, self.wave_lanes, self.fresh)
        self.symbols += symbols
        return [*lets, *copying, *last]

    def _said_late(self, loop: Op, ring: BufferRing, late: Sequence[BufferRing]) -> list[Op]:
        """Wait for the copies in front of those into this ring, which may be of the step before, and signal that."""
        if ring is not late[0]:
            return _landed(late[late.index(ring) - 1], ring.step, 1)
        return _landed(late[-1], ring.step - 1, 1, ((loop["lower"], self.kernel.symbol(loop["induction"])),))

    def _arrivals(self, ring: BufferRing) -> tuple[int, int]:
        """How often every lane arrives where a buffer is filled, and how often one of them does beside that."""
        return divmod(ring.full_arrivals, self.kernel.lanes * self.kernel.producers)

    def _issue(self, copies: Sequence[Op], ring: BufferRing, empty: Sequence[Op]) -> Sequence[Op]:
        """The copies of a step with their signals, as soon as the buffer is ``empty``.

        Lanes that never arrive wait for nothing: nobody waits for them, and they might miss a phase.  Where copies of
        another loop fill the ring in another way, its signals wait for both.
        """
        boxes = [number for number, op in enumerate(copies) if op.is_(BULK_COPY)]
        places = feeding(copies, boxes)
        by_lanes = [op for number, op in enumerate(copies) if number not in (*boxes, *places)]
        known, index = [copies[number] for number in places], ring.index(ring.step)
        arrive = make("signal_arrive", signal=ring.full, index=index, bytes=0)
        every, one = self._arrivals(ring)
        issue = self._boxes([copies[number] for number in boxes], ring, index) if boxes else [arrive] * one
        if not every:
            return [*known, *self._once([*empty, *issue])] if self.by_lanes else [*empty, *known, *issue]
        lanes = self._by_lanes(by_lanes, ring, index) if by_lanes else [arrive]
        return [*empty, *known, *self._once(issue), *lanes]

    def _once(self, ops: Sequence[Op]) -> Sequence[Op]:
        """Operations for one lane, in a role of one or of all."""
        return [in_first_lane(self.kernel, *ops)] if ops and self.by_lanes else ops

    def _boxes(self, boxes: Sequence[Op], ring: BufferRing, index: Expr) -> list[Op]:
        """Announce all bytes, then have the boxes copied; what a cluster shares, each workgroup copies a part of."""
        bytes_ = sum(self.kernel.memory(box["memory"]).bytes_of(math.prod(box["box"])) for box in boxes)
        placed = [box.with_(buffer=index, signal=ring.full, index=index) for box in boxes]
        parts = [_part(self.kernel, box, n) if is_shared(self.kernel, box) else box for n, box in enumerate(placed)]
        return [make("signal_arrive", signal=ring.full, index=index, bytes=bytes_), *parts]

    def _by_lanes(self, copies: Sequence[Op], ring: BufferRing, index: Expr) -> Sequence[Op]:
        """Copy, and signal what has landed: asynchronous copies by themselves, so that those of later steps follow."""
        inside = [op.with_(buffer=index) if op.get("memory") in ring.filled else op for op in copies]
        if ring.late:
            return [*inside, make("async_commit")]
        if ring.landed:
            return [*inside, make("signal_arrive", signal=ring.full, index=index, bytes=0, landed=True)]
        asynchronous = any(op.is_(COPY_ASYNC) for op in copies)
        inside += [make("async_commit"), make("async_wait", pending=0)] if asynchronous else []
        return [*inside, make("fence_async"), make("signal_arrive", signal=ring.full, index=index, bytes=0)]


def _is_known_alike(kernel: Kernel, op: Op) -> bool:
    """Whether it has no region, or is a loop over what all waves compute and load of inputs alike."""
    inputs = {memory.name for memory in kernel.memories if memory.role == "input"}
    return op.region is None or all(
        inner.is_(PURE, LET, BIND, FOR) or (inner.is_(LOAD) and inner["memory"] in inputs) for inner in op.walk()
    )


def _fills(loop: Op, ring: BufferRing) -> list[Op]:
    return [op for op in loop.body.ops if op.is_(FILLS) and op["memory"] in ring.filled]


def _landed(ring: BufferRing, step: Expr, pending: int, mask: Mask = ()) -> list[Op]:
    """All groups of copies but the ``pending`` last ones have landed: those of a step are visible, if it exists."""
    arrive = make("signal_arrive", signal=ring.full, index=ring.index(step), bytes=0)
    return [make("async_wait", pending=pending), make("fence_async"), only_if(mask, arrive) if mask else arrive]


def _empty(ring: BufferRing) -> Op:
    phase = const(1) - ring.round(ring.step)
    return make("signal_wait", signal=ring.empty, index=ring.index(ring.step), phase=phase)


def _part(kernel: Kernel, box: Op, number: int) -> Op:
    """This workgroup's rows of a box, for every workgroup of its cluster.  Boxes of windows are small enough for
    workgroups to copy whole ones in turns: the places of other rows do not follow from that of the first."""
    if box.get("windows"):
        rank, turn = kernel.symbol("rank"), number % kernel.cluster
        return only_if(((const(turn - 1), rank), (rank, const(turn + 1))), box.with_(everywhere=True))
    memory, (row, *others) = kernel.memory(box["memory"]), kernel.memory(box["memory"]).dims
    place = row_axis(box["box"])
    extents, origin = list(box["box"]), list(box["corner"])
    extents[place] //= kernel.cluster
    start = kernel.symbol("rank") * extents[place]
    origin[place] += start
    offset = box["offset"] + memory.unswizzled_offset({row: start, **dict.fromkeys(others, const(0))})
    box = box.with_(box=tuple(extents), corner=tuple(origin), offset=offset, everywhere=True)
    valid = box.get("valid")
    return box if valid is None else box.with_(valid=valid - start)

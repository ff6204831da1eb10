"""The role that uses shared memory: wait until a buffer is full, compute, signal that it is empty."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Op, Region, Value, attribute_pairs
from wavespec.ir.thread import Mask
from wavespec.ir.thread_ops import (
    ASYNC_COMMIT,
    ASYNC_WAIT,
    ATOMIC,
    BIND,
    BULK_STORE,
    FOR,
    LOAD,
    MMA_ASYNC,
    MMA_FENCE,
    MMA_WAIT,
    PURE,
    READS_MEMORY,
    TAKE_NUMBER,
)
from wavespec.schedule.buffer_ring import (
    NEXT_TURN,
    READS,
    TURN,
    WAVES_IN_TURN,
    BufferRing,
    copies_into,
    filled_by,
    in_first_lane,
    is_copy,
    make,
    readers,
    step_of,
)
from wavespec.schedule.carried_rounds import with_rounds
from wavespec.schedule.decode_ahead import decode_ahead
from wavespec.schedule.errors import NoEarlyWait, ProductInOnePart, StagedOutsideLoop
from wavespec.schedule.feeding import feeding
from wavespec.schedule.given_back import (
    behind_products,
    has_no_steps,
    in_last_step,
    is_last,
    leave_through,
    released_late,
)
from wavespec.schedule.issue_in_turn import first_turn, issued_in_turn
from wavespec.schedule.multiply_as_decoded import multiply_as_decoded, multiply_decoded
from wavespec.schedule.overlapped_products import issues_in_parts, overlapped_products, waits_early
from wavespec.schedule.ping_pong import TurnsNotPossible
from wavespec.schedule.read_beside_sums import is_read_beside, read_ahead
from wavespec.schedule.taken_numbers import told
from wavespec.schedule.use_beside_products import use_beside_products

_GROUPS = ASYNC_COMMIT | ASYNC_WAIT


class Consumer:
    """Keeps everything of a kernel but its copies."""

    def __init__(
        self,
        kernel: Kernel,
        rings: Mapping[int, Sequence[BufferRing]],
        outside: Mapping[int, BufferRing],
        fresh: Callable[[str], str],
        registers: int,
    ) -> None:
        self.kernel, self.rings, self.outside, self.fresh = kernel, rings, outside, fresh
        self.registers = registers
        """Of a lane."""
        self.taken_from = {op["memory"] for op in kernel.walk() if op.is_(TAKE_NUMBER)}
        """Counters whose numbers those ask for who only copy."""
        self.overlapping: dict[int, Op] = {}
        self.given_back = set[str]()
        """Shared memories of tiles that are given back in their last step."""
        self.begins: dict[int, bool] = {}
        """By the `id` of such a loop, whether its first step fills the first buffer."""
        self.turn = kernel.symbol(TURN) if TURN in dict(kernel.waves) else None
        is_in_turn = kernel.distribution.roles.order == "in_turn"
        if is_in_turn and kernel.wave_count == 1:
            raise TurnsNotPossible(kernel.distribution.roles.span, "one wave computes all of a tile")
        self.in_turn = [of_loop[0] for of_loop in rings.values() if of_loop[0].begins] if is_in_turn else []
        """The rings of loops in which waves issue their products in turn."""

    def body(self) -> tuple[Op, ...]:
        """What the role runs; stores in flight are awaited before shared memory goes away."""
        ops = self._kept(self.kernel.body, (), self.outside.get(0))
        roles = self.kernel.distribution.roles
        if roles.order == "in_parts" and not any(issues_in_parts(inner) for op in ops for inner in op.walk()):
            raise ProductInOnePart(roles.where("order"))
        if roles.early_wait and not any(waits_early(inner) for op in ops for inner in op.walk()):
            raise NoEarlyWait(roles.where("early_wait"))
        ops = (*(first_turn(self.kernel, ring) for ring in self.in_turn), *ops)
        if any(op.is_(BULK_STORE) for op in self.kernel.walk()):
            ops = (*ops, in_first_lane(self.kernel, make("bulk_wait", pending=0)))
        return ops

    def _kept(self, ops: Sequence[Op], around: tuple[Op, ...], outside: BufferRing | None) -> tuple[Op, ...]:
        ops = self._awaited(ops, outside) if outside else ops
        early = in_last_step(self.kernel, ops, outside, self.rings)
        self.given_back |= outside.filled if outside and early else frozenset()
        result: list[Op] = []
        in_turn = self._in_turn(ops) if self.turn is not None and around and _walks(around[-1], around[:-1]) else ()
        for number, op in enumerate(ops):
            wait, give = self._turns(around, is_first=number in in_turn[:1], is_last=number in in_turn[-1:])
            if op.is_(FOR) and filled_by(self.kernel, op):
                last = is_last(self.kernel, op, early) if early else None
                result += self._loop(op, self.rings[id(op)], wait, give, outside, last)
                continue
            result += wait
            if op.region is not None:
                inner = (*around, op) if op.is_(FOR) else around
                kept = self._kept(op.region.ops, inner, self.outside.get(id(op)))
                if self.turn is not None and op.is_(FOR) and _walks(op, around):  # every other tile
                    late = (op["lower"] + self.turn) % WAVES_IN_TURN if op.get("counts_on") else self.turn
                    op = op.with_(lower=op["lower"] + op["step"] * late, step=op["step"] * WAVES_IN_TURN)
                result += with_rounds(op, kept, self.rings, self.fresh)
            elif is_copy(self.kernel, op):
                raise StagedOutsideLoop(op.span, op["memory"].partition(".")[0])
            elif op.is_(TAKE_NUMBER):
                result += told(op)
            elif op.is_(ATOMIC) and op["memory"] in self.taken_from:
                continue
            else:
                result.append(op)
            result += give
        result = self._overlapping(result)
        return tuple(self._released(result, outside, early) if outside else result)

    def _awaited(self, ops: Sequence[Op], outside: BufferRing) -> tuple[Op, ...]:
        """What stands around loops, with a wait for what is filled once where its copies were."""
        first = next(number for number, op in enumerate(ops) if is_copy(self.kernel, op))
        used = _without_copies(ops, outside.filled)
        before, behind = ([ops[n] for n in used if (n < first) == is_before] for is_before in (True, False))
        return *before, _full(outside), *behind

    def _released(self, ops: Sequence[Op], outside: BufferRing, loops: Sequence[Op]) -> list[Op]:
        """The same with its buffer, given back behind the last loop that reads it, where the next tile fills it;
        ``loops``: those that do so themselves."""
        index = outside.index(outside.step)
        used = [_of_buffer(op, outside.filled, index) for op in ops]
        if not outside.empty_arrivals:
            return used
        if leave_through(used, outside):
            return released_late(self.kernel, used, outside)
        last, release = readers(ops, outside.filled)[-1], self._release_by_all(outside, index)
        if loops:  # in the last step, unless there was none
            release[-1] = self._release(outside, index, has_no_steps(loops))
        return [*used[: last + 1], *release, *used[last + 1 :]]

    def _in_turn(self, ops: Sequence[Op]) -> tuple[int, ...]:
        """Operations of a tile that multiply: one wave has its turn from the first to the last."""
        return tuple(n for n, op in enumerate(ops) if any(filled_by(self.kernel, inner) for inner in op.walk()))

    def _loop(
        self,
        loop: Op,
        rings: Sequence[BufferRing],
        wait: Sequence[Op],
        give: Sequence[Op],
        outside: BufferRing | None,
        last_step: Mask | None,
    ) -> list[Op]:
        """``last_step``: which one gives back what is filled ``outside``, if one does."""
        ring, filled = rings[0], frozenset[str]().union(*(ring.filled for ring in rings))
        lets = [let for one in rings for let in one.lets if one.begins]
        index = ring.index(ring.step)
        ops = [loop.body.ops[number] for number in _without_copies(loop.body.ops, filled)]
        for one in rings:
            ops = [_of_buffer(op, one.filled, one.index(one.step)) for op in ops]
        last = ops[-1]
        # The assembler may use registers of an operand anew while products in flight still read them: wait for those.
        registers = any(op.is_(MMA_ASYNC) and len(op.operands) > 1 for op in ops)
        kept = {value.name for value in last.results} <= {value.name for value in loop.body.yields}
        # What these waves lay down themselves has one buffer, which the next step fills.
        computed = any(op.is_(MMA_ASYNC) and op["b_memory"] not in ring.filled for op in ops)
        joined = filled.difference(*(one.filled for one in rings if one.beside))
        by_lanes = any(op.is_(READS_MEMORY) and op["memory"] in joined for op in ops)
        overlaps = last.is_(MMA_WAIT) and kept and not registers and not computed and not by_lanes
        # A buffer that is emptied in the next step cannot be the one that this step waits for.
        if overlaps and ring.stages > 1 and ring.begins:
            self._check_turns(loop)
            return [*lets, *wait, *self._overlapped(loop, ring, [_full(ring), *ops[:-1]], last, give)]
        ahead = decode_ahead(self.kernel, loop, [_full(ring), *ops], ring.step, self._release(ring, index), self.fresh)
        if ahead:
            self._check_turns(loop)
            return [*lets, *wait, ahead[0], *give, ahead[1]]
        if by_lanes:
            # One lane empties the buffer: all lanes of the wave have read it, not only the matrix unit.
            barrier = make("barrier", first=self.kernel.wave_number, waves=1)
            decoded = None
            if ring.stages > 1:
                carried = loop.body.arguments
                decoded = multiply_decoded(ops, barrier, joined, carried, self.registers, self.fresh)
            if decoded is None:
                self._check_turns(loop)
            ops = decoded or [*multiply_as_decoded(ops, self.fresh), barrier]
        if outside is not None and last_step is not None:
            place = behind_products(ops, outside) + 1
            ops = [*ops[:place], self._release(outside, outside.index(outside.step), last_step), *ops[place:]]
        loop = replace(loop, region=replace(loop.body, ops=self._signalled(ops, rings, loop.body.arguments)))
        rounds = use_beside_products(self.kernel, loop, self.registers, self.fresh) if ring.stages > 1 else (loop,)
        if len(rounds) > 1:
            self._check_turns(loop)
            return [*lets, *wait, *rounds, *give]
        if ring.stages > 1:  # the product of the step before still reads its buffer when this step's has to be there
            self.overlapping[id(loop)], self.begins[id(loop)] = loop, ring.begins
        return [*lets, *wait, loop, *give]

    def _overlapping(self, ops: Sequence[Op]) -> list[Op]:
        """The operations with the steps of loops, and those of loops that go on where one ends, overlapping."""
        result, chain, between = list[Op](), list[Op](), list[Op]()
        for op in ops:
            goes_on = chain and op.operands == chain[-1].results and id(op) in self.overlapping
            if goes_on and (op["lower"] == chain[-1]["upper"] or not self.begins[id(op)]):
                result += between
                chain, between = [*chain, op], []
            elif chain and _can_be_in_front(op, chain):
                between.append(op)
            else:
                result += [*overlapped_products(self.kernel, chain, self.registers, self.fresh), *between]
                chain, between = ([op], []) if id(op) in self.overlapping else ([], [])
                result += [] if chain else [op]
        return [*result, *overlapped_products(self.kernel, chain, self.registers, self.fresh), *between]

    def _release_by_all(self, ring: BufferRing, index: Expr) -> list[Op]:
        """Release a buffer when all lanes of the wave have seen that it was full: no product in between has waited for
        them, and who comes too late would see the next round but one."""
        barrier = make("barrier", first=self.kernel.wave_number, waves=1)
        return [barrier, self._release(ring, index)]

    def _signalled(self, ops: Sequence[Op], rings: Sequence[BufferRing], carried: Sequence[Value]) -> tuple[Op, ...]:
        """A step with a wait in front of the first products that read a ring, and its release when they are done; the
        first one is awaited at once, and the last one released at the end.  What lanes read beside the products is
        released when all of the wave have read it."""
        beside = frozenset[str]().union(*(ring.filled for ring in rings if ring.beside))
        ops = self._loaded_ahead(ops, carried)
        ops, is_early = read_ahead(ops, beside, carried, self.registers) if beside else (ops, False)
        before, behind = defaultdict[int, list[Op]](list), defaultdict[int, list[Op]](list)
        end = len(ops) - 1
        for ring in rings:
            places = readers(ops, ring.filled)
            if ring.beside:
                before[places[0]].append(_full(ring))
                used = (n - 1 for n in range(places[-1], end) if ops[n].is_(MMA_FENCE))
                place = places[-1] if is_early else next(used, end)
                # Loads may still be on their way at a barrier, which orders them with no bulk copy.
                behind[place] += [make("fence_async"), *self._release_by_all(ring, ring.index(ring.step))]
                continue
            fences = (n for n in range(places[0]) if ops[n].is_(MMA_FENCE))
            first = 0 if ring is rings[0] else max(fences, default=0)  # lanes may read it in front of all products
            done = (n for n, op in enumerate(ops) if op.is_(MMA_WAIT) and n > places[-1])
            before[first].append(_full(ring))
            behind[end if ring is rings[-1] else next(done)].append(self._release(ring, ring.index(ring.step)))
        result = [one for n, op in enumerate(ops) for one in (*before[n], op, *behind[n])]
        return tuple(issued_in_turn(self.kernel, rings[0], result) if self.in_turn else result)

    def _loaded_ahead(self, ops: Sequence[Op], carried: Sequence[Value]) -> Sequence[Op]:
        """A step that begins with what lanes load of inputs for sums: behind the wait for these nothing would hide how
        long that takes.  Where they have too few registers it stays."""
        inputs = {memory.name for memory in self.kernel.memories if memory.role == "input"}
        loaded = {op["memory"] for op in ops if op.is_(LOAD)} & inputs
        loaded = {memory for memory in loaded if is_read_beside(ops, memory)}
        ahead, is_early = read_ahead(ops, loaded, carried, self.registers, at_once=True) if loaded else (ops, False)
        return ahead if is_early else ops

    def _overlapped(self, loop: Op, ring: BufferRing, ops: list[Op], wait: Op, give: Sequence[Op]) -> list[Op]:
        """Wait for the products of the step before, and empty its buffer; the last ones are awaited behind the loop."""
        in_flight = dict(zip((value.name for value in wait.results), wait.operands, strict=True))
        before = ring.index(ring.step + (ring.stages - 1))
        ops = [*ops, make("mma_wait", pending=1), self._release(ring, before, ((const(0), ring.step),))]
        yields = tuple(in_flight.get(value.name, value) for value in loop.body.yields)
        waited = [value.name in in_flight for value in loop.body.yields]
        results = tuple(
            Value(self.fresh(value.name), value.type) if awaited else value
            for value, awaited in zip(loop.results, waited, strict=True)
        )
        pairs = [pair for pair, awaited in zip(zip(results, loop.results, strict=True), waited, strict=True) if awaited]
        done = Op(
            "mma_wait",
            tuple(inside for inside, _ in pairs),
            tuple(outside for _, outside in pairs),
            attribute_pairs({"pending": 0}),
            span=wait.span,
        )
        last = ring.index(ring.steps + (ring.stages - 1))
        return [
            replace(loop, results=results, region=Region(loop.body.arguments, tuple(ops), yields)),
            *give,
            done,
            self._release(ring, last, ((const(0), ring.steps),)),
        ]

    def _turns(self, around: tuple[Op, ...], *, is_first: bool, is_last: bool) -> tuple[list[Op], list[Op]]:
        """Wait for this wave's turn before what it multiplies ``first`` in a tile; give it to the other one behind the
        ``last``."""
        if self.turn is None or not (is_first or is_last):
            return [], []
        walk = next(loop for number, loop in enumerate(around) if _walks(loop, around[:number]))
        before = (step_of(self.kernel, walk) + 1) // WAVES_IN_TURN  # turns given to this wave
        wait = make("signal_wait", signal=NEXT_TURN, index=self.turn, phase=(before + 1) % 2)
        arrive = make("signal_arrive", signal=NEXT_TURN, index=const(1) - self.turn, bytes=0)
        return [wait] * is_first, [in_first_lane(self.kernel, arrive)] * is_last

    def _check_turns(self, loop: Op) -> None:
        """Refuse to issue products in turn where a step has another one's products, or waits for lanes."""
        if self.in_turn:
            why = f"steps of '{loop.node}' have no sums to compute with between their products"
            raise TurnsNotPossible(self.kernel.distribution.roles.span, why)

    def _release(self, ring: BufferRing, index: Expr, mask: Mask = ()) -> Op:
        attributes = {"everywhere": True} if ring.everywhere else {}
        arrive = make("signal_arrive", signal=ring.empty, index=index, bytes=0, **attributes)
        return in_first_lane(self.kernel, arrive, mask=mask)


def _walks(loop: Op, around: Sequence[Op]) -> bool:
    """Whether each step of a loop is a tile: of the outermost, or of those in one over parts that end by themselves."""
    in_parts = any(op.is_(FOR) and op.get("counts_on") for op in loop.walk())
    return bool(loop.get("counts_on")) or not (around or in_parts)


def _can_be_in_front(op: Op, loops: Sequence[Op]) -> bool:
    """Whether an operation behind loops may as well stand in front of them."""
    if op.is_(BIND) and any(op["symbol"] in inner.symbols for loop in loops for inner in loop.walk()):
        return False
    return op.is_(PURE, BIND) and _names(op.operands).isdisjoint(_names(loops[-1].results))


def _names(values: Sequence[Value]) -> set[str]:
    return {value.name for value in values}


def _full(ring: BufferRing) -> Op:
    landed = {"landed": True} if ring.landed and not ring.late else {}
    return make("signal_wait", signal=ring.full, index=ring.index(ring.step), phase=ring.round(ring.step), **landed)


def _without_copies(ops: Sequence[Op], filled: frozenset[str]) -> list[int]:
    """The places in ``ops`` of all but the copies into ``filled``, and what is made for these alone."""
    copies = set(map(id, copies_into(ops, filled)))
    own = [number for number, op in enumerate(ops) if id(op) not in copies and not op.is_(_GROUPS)]
    return sorted({*own, *feeding(ops, own)})


def _of_buffer(op: Op, filled: frozenset[str], index: Expr) -> Op:
    """The operation with what it, or one inside of it, reads of a step's tiles in that buffer."""
    if op.region:
        region = replace(op.region, ops=tuple(_of_buffer(inner, filled, index) for inner in op.region.ops))
        op = replace(op, region=region)
    buffers = {key.replace("memory", "buffer"): index for key in READS if op.get(key) in filled}
    return op.with_(**buffers) if buffers else op

"""Thread kernel in, thread kernel out: some waves only copy, the others only compute, and signals tie them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, ceildiv, const, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, Region, Value, attribute_pairs
from wavespec.ir.thread import Mask
from wavespec.lower.base import Pass, fresh_names
from wavespec.targets.machine import Machine

TURN = "turn"
"""Symbol of which of the waves that take turns this one is, and signal that gives a turn."""
WAVES_IN_TURN = 2
_COPIES = frozenset(("bulk_copy", "copy_async", "store"))
_GROUPS = frozenset(("async_commit", "async_wait"))
_READS = ("memory", "a_memory", "b_memory")


class SpecializeWaves(Pass):
    """Split the kernel into a role that fills shared memory and a role that uses it.

    Before: loop bodies ``copies; async_commit; async_wait; mma ...; mma_wait 0``, run by every wave.
    After:  two roles, each with the loops around its own operations.  Step ``i`` of a loop uses buffer ``i % stages``.
            The producer waits until the buffer is empty, copies, and signals that it is full; consumers wait for
            that, compute, and signal that it is empty.  Where a step ends by waiting for its products, it waits for
            those of the step before instead and empties that one's buffer; the last ones are awaited behind the loop.
            Workgroups of a cluster each copy a part of what all of them read, for all of them.
            ``i`` counts on over the steps of outer loops, so that copies run ahead across tiles.
            ``ping_pong``: the two waves that compute take the tiles in turns, and signal each other when they have
            issued their products, so that one ends its tile while the other multiplies.
    """

    name: ClassVar[str] = "specialize-waves"

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if not kernel.producers:
            return kernel
        plan = kernel.distribution
        split = _Split(kernel)
        producer, consumer = split.producer(kernel.body, ()), split.consumer(kernel.body, ())
        if any(op.name == "bulk_store" for op in kernel.walk()):
            consumer = (*consumer, split.in_first_lane(_op("bulk_wait", pending=0)))
        registers = plan.roles.registers
        if split.per_lane:  # lanes that copy by themselves need registers as well
            registers = (0, 0)
        else:  # one lane is enough to have boxes copied
            producer = (split.in_first_lane(*producer),)
        roles = (
            _role(kernel.wave_count, kernel.producers, registers[0], producer),
            _role(0, kernel.wave_count, registers[1], consumer),
        )
        if split.turn is not None:
            split.signals.append(_signal(TURN, WAVES_IN_TURN, 1))
        kernel = replace(kernel.with_symbols(*split.symbols), memories=(*kernel.memories, *split.signals))
        return replace(kernel, body=roles)


@dataclass(frozen=True, slots=True)
class _Ring:
    """The buffers of one loop: which one its current step uses, and in which round."""

    name: str
    stages: int
    done: Expr
    """Steps before this loop, modulo two rounds."""
    step: Expr
    """Number of the current step of this loop."""
    steps: Expr
    arrivals: int
    everywhere: bool
    """Whether other workgroups of the cluster fill its buffers as well."""

    def index(self, step: Expr) -> Expr:
        return (self.done + step) % self.stages

    def round(self, step: Expr) -> Expr:
        return (self.done + step) // self.stages % 2

    @property
    def full(self) -> str:
        return f"{self.name}_full"

    @property
    def empty(self) -> str:
        return f"{self.name}_empty"


class _Split:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.fresh = fresh_names(kernel)
        self.turn = kernel.symbol(TURN) if TURN in dict(kernel.waves) else None
        self.symbols: list[Expr] = []
        self.signals: list[Memory] = []
        self.per_lane = any(_is_per_lane(op, _filled(loop)) for loop in self._loops() for op in loop.body.ops)

    def _loops(self) -> list[Op]:
        return [op for op in self.kernel.walk() if op.name == "for" and _filled(op)]

    def producer(self, ops: Sequence[Op], around: tuple[Op, ...]) -> tuple[Op, ...]:
        """What fills shared memory, and the loops around it."""
        result: list[Op] = []
        for op in ops:
            if op.name == "let":
                result.append(op)
            elif op.name == "for" and _filled(op):
                result += self._produce(op, around)
            elif op.name == "for" and any(_filled(inner) for inner in op.walk()):
                body = self.producer(op.body.ops, (*around, op))
                result.append(replace(op, operands=(), results=(), region=Region((), body, ())))
        return tuple(result)

    def _produce(self, loop: Op, around: tuple[Op, ...]) -> list[Op]:
        ring, lets = self._ring(loop, around, declare=True)
        filled = _filled(loop)
        copies = _needed(loop.body.ops, filled)
        boxes = [op for op in copies if op.name == "bulk_copy"]
        plain = [op for op in copies if op.name != "bulk_copy"]
        index = ring.index(ring.step)
        body = [_op("signal_wait", signal=ring.empty, index=index, phase=const(1) - ring.round(ring.step))]
        if boxes:
            bytes_ = sum(_bytes(self.kernel, box) for box in boxes)
            announce = _op("signal_arrive", signal=ring.full, index=index, bytes=bytes_)
            boxes = [_part(self.kernel, box) if _is_shared(self.kernel, box) else box for box in boxes]
            issue = (announce, *(box.with_(buffer=index, signal=ring.full, index=index) for box in boxes))
            body += [self.in_first_lane(*issue)] if plain else issue
        if not plain:
            return [*lets, replace(loop, operands=(), results=(), region=Region((), tuple(body), ()))]
        # Groups of asynchronous copies land a few steps later; a consumer empties a buffer one step late as well.
        late = max(0, ring.stages - 2) if any(op.name == "copy_async" for op in plain) else 0
        body += [op.with_(buffer=index) if op.get("memory") in filled else op for op in plain]
        if late:
            body.append(_op("async_commit"))
            body.append(_op("async_wait", pending=late))
        elif any(op.name == "copy_async" for op in plain):
            body += [_op("async_commit"), _op("async_wait", pending=0)]
        body.append(_op("fence_async"))
        arrive = _op("signal_arrive", signal=ring.full, index=ring.index(ring.step - late), bytes=0)
        body.append(_if(((const(late - 1), ring.step),), arrive) if late else arrive)
        after: list[Op] = []
        if late:
            after = [_op("async_wait", pending=0), _op("fence_async")]
        for number in range(late, 0, -1):
            index = ring.index(ring.steps - number)
            arrive = _op("signal_arrive", signal=ring.full, index=index, bytes=0)
            after.append(_if(((const(number - 1), ring.steps),), arrive))
        return [*lets, replace(loop, operands=(), results=(), region=Region((), tuple(body), ())), *after]

    def consumer(self, ops: Sequence[Op], around: tuple[Op, ...]) -> tuple[Op, ...]:
        """Everything else."""
        result: list[Op] = []
        for op in ops:
            if op.name == "for" and _filled(op):
                result += self._consume(op, around)
            elif op.region is not None:
                inner = (*around, op) if op.name == "for" else around
                body = replace(op.region, ops=self.consumer(op.region.ops, inner))
                if self.turn is not None and not around:  # every other tile
                    first, step = op["lower"] + op["step"] * self.turn, op["step"] * WAVES_IN_TURN
                    op = op.with_(lower=first, step=step)
                result.append(replace(op, region=body))
            else:
                result.append(op)
        return tuple(result)

    def _consume(self, loop: Op, around: tuple[Op, ...]) -> list[Op]:
        ring, lets = self._ring(loop, around, declare=False)
        filled, index = _filled(loop), ring.index(ring.step)
        copies = set(map(id, _needed(loop.body.ops, filled)))
        ops = [_of_buffer(op, filled, index) for op in loop.body.ops if id(op) not in copies and op.name not in _GROUPS]
        ops.insert(0, _op("signal_wait", signal=ring.full, index=index, phase=ring.round(ring.step)))
        turns = self._turns(around)
        lets, last = [*lets, *turns[:1]], ops[-1]
        # The assembler may use registers of an operand anew while products in flight still read them: wait for those.
        registers = any(op.name == "mma_async" and len(op.operands) > 1 for op in ops)
        if registers or last.name != "mma_wait" or {v.name for v in last.results} - {v.name for v in loop.body.yields}:
            ops.append(self._arrive(ring, index, ()))
            return [*lets, replace(loop, region=replace(loop.body, ops=tuple(ops))), *turns[1:]]
        in_flight = dict(zip((v.name for v in last.results), last.operands, strict=True))
        before = ring.index(ring.step + (ring.stages - 1))
        ops[-1] = _op("mma_wait", pending=1)
        ops.append(self._arrive(ring, before, ((const(0), ring.step),)))
        region = Region(loop.body.arguments, tuple(ops), tuple(in_flight.get(v.name, v) for v in loop.body.yields))
        inside = tuple(Value(self.fresh(value.name), value.type) for value in loop.results)
        waited = [number for number, value in enumerate(loop.body.yields) if value.name in in_flight]
        return [
            *lets,
            replace(
                loop,
                results=tuple(inside[i] if i in waited else value for i, value in enumerate(loop.results)),
                region=region,
            ),
            *turns[1:],
            Op(
                "mma_wait",
                tuple(inside[i] for i in waited),
                tuple(loop.results[i] for i in waited),
                attribute_pairs({"pending": 0}),
                span=last.span,
            ),
            self._arrive(ring, ring.index(ring.steps + (ring.stages - 1)), ((const(0), ring.steps),)),
        ]

    def _turns(self, around: tuple[Op, ...]) -> list[Op]:
        """Wait for this wave's turn to multiply; give it to the other one."""
        if self.turn is None:
            return []
        tile, other = around[0], const(1) - self.turn
        before = ((self._at(tile) - tile["lower"]) // tile["step"] + 1) // WAVES_IN_TURN  # turns given to this wave
        wait = _op("signal_wait", signal=TURN, index=self.turn, phase=(before + 1) % 2)
        return [wait, self.in_first_lane(_op("signal_arrive", signal=TURN, index=other, bytes=0))]

    def _arrive(self, ring: _Ring, index: Expr, mask: Mask) -> Op:
        attributes = {"everywhere": True} if ring.everywhere else {}
        arrive = _op("signal_arrive", signal=ring.empty, index=index, bytes=0, **attributes)
        return self.in_first_lane(arrive, mask=mask)

    def in_first_lane(self, *ops: Op, mask: Mask = ()) -> Op:
        return _if(((self.kernel.symbol("lane"), const(1)), *mask), *ops)

    def _ring(self, loop: Op, around: tuple[Op, ...], *, declare: bool) -> tuple[_Ring, list[Op]]:
        """The ring of a loop; where steps of outer loops came before, ``let`` says how many."""
        induction: str = loop["induction"]
        lower, step = loop["lower"], loop["step"]
        stages = max(self.kernel.memory(name).buffers for name in _filled(loop))
        steps = _trips(loop)
        lets: list[Op] = []
        done, passed = const(0), None
        for outer in around:
            number = (self._at(outer) - outer["lower"]) // outer["step"]
            passed = passed * _trips(outer) + number if passed is not None else number
        if passed is not None:
            done = symbol(f"done_{induction}", 0, 2 * stages - 1)
            value = passed * steps % (2 * stages)
            lets.append(_op("let", symbol=f"done_{induction}", value=value))
        per_lane = [op for op in loop.body.ops if _is_per_lane(op, _filled(loop))]
        boxes = any(op.name == "bulk_copy" for op in loop.body.ops)
        arrivals = (self.kernel.lanes * self.kernel.producers if per_lane else 0) + boxes
        everywhere = any(op.name == "bulk_copy" and _is_shared(self.kernel, op) for op in loop.body.ops)
        ring = _Ring(induction, stages, done, (self._at(loop) - lower) // step, steps, arrivals, everywhere)
        if declare:
            self.symbols += [done] if around else []
            waves = self.kernel.wave_count // (WAVES_IN_TURN if self.turn is not None else 1)
            waves *= self.kernel.cluster if everywhere else 1
            for name, count in ((ring.full, arrivals), (ring.empty, waves)):
                self.signals.append(_signal(name, stages, count))
        return ring, lets

    def _at(self, loop: Op) -> Expr:
        return self.kernel.symbol(loop["induction"])


def _filled(loop: Op) -> frozenset[str]:
    """Shared memories that a loop's body fills and reads in the same step."""
    if loop.name != "for":
        return frozenset()
    written = {op["memory"] for op in loop.body.ops if op.name in _COPIES}
    read = {op.get(key) for op in loop.body.ops if op.name not in _COPIES for key in _READS}
    return frozenset(written & read)


def _is_per_lane(op: Op, filled: frozenset[str]) -> bool:
    return op.name in ("copy_async", "store") and op["memory"] in filled


def _needed(ops: Sequence[Op], filled: frozenset[str]) -> list[Op]:
    """The copies into ``filled`` with all that computes what they store, in order."""
    needed: set[str] = set()
    result: list[Op] = []
    for op in reversed(ops):
        if (op.name in _COPIES and op["memory"] in filled) or any(value.name in needed for value in op.results):
            needed |= {value.name for value in op.operands}
            result.append(op)
    return result[::-1]


def _of_buffer(op: Op, filled: frozenset[str], index: Expr) -> Op:
    buffers = {key.replace("memory", "buffer"): index for key in _READS if op.get(key) in filled}
    return op.with_(**buffers) if buffers else op


def _is_shared(kernel: Kernel, box: Op) -> bool:
    """Whether all workgroups of a cluster, which differ along axis 0, copy the same."""
    same = all("wg0" not in coordinate.symbols for coordinate in box["origin"])
    return kernel.cluster > 1 and same and box["box"][0] % kernel.cluster == 0


def _part(kernel: Kernel, box: Op) -> Op:
    """This workgroup's rows of a box, for every workgroup of its cluster."""
    memory, (rows, *columns) = kernel.memory(box["memory"]), box["box"]
    (row, *others), (first, *rest) = memory.dims, box["origin"]
    start = kernel.symbol("rank") * (rows // kernel.cluster)
    offset = memory.unswizzled_offset({row: start, **dict.fromkeys(others, const(0))})
    part = {"box": (rows // kernel.cluster, *columns), "origin": (first + start, *rest)}
    return box.with_(**part, offset=box["offset"] + offset, everywhere=True)


def _trips(loop: Op) -> Expr:
    """How often a loop's body runs."""
    extent, step = loop["upper"] - loop["lower"], loop["step"]
    return ceildiv(extent, step.value) if step.is_const else (extent + step - 1) // step


def _bytes(kernel: Kernel, box: Op) -> int:
    total = kernel.memory(box["memory"]).dtype.bytes
    for extent in box["box"]:
        total *= extent
    return total


def _signal(name: str, count: int, arrivals: int) -> Memory:
    return Memory(name, DTYPES["i64"], (), (), "signal", buffers=count, arrivals=arrivals)


def _op(name: str, **attributes: object) -> Op:
    return Op(name, attributes=attribute_pairs(attributes))


def _if(mask: Mask, *ops: Op) -> Op:
    return Op("if", attributes=attribute_pairs({"mask": mask}), region=Region((), ops, ()))


def _role(first: int, waves: int, registers: int, ops: tuple[Op, ...]) -> Op:
    attributes = {"first": const(first), "waves": waves, "registers": registers}
    return Op("role", attributes=attribute_pairs(attributes), region=Region((), ops, ()))

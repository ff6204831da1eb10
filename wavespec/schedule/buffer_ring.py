"""Loops that fill shared memory and use it in the same step: their rings of buffers, and the place of a step in one."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, ceildiv, const, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, Region, attribute_pairs
from wavespec.ir.thread import Mask
from wavespec.ir.thread_ops import BULK_COPY, FILLS, FOR, LANES_FILL, LET, NAMES_A_SYMBOL
from wavespec.schedule.errors import StagedOutsideLoop, StepsNotCounted
from wavespec.schedule.feeding import feeding

TURN = "turn"
"""Symbol of which of the waves that take turns this one is."""
NEXT_TURN = "turn.next"
"""Signal that gives a turn."""
WAVES_IN_TURN = 2
READS = ("memory", "a_memory", "b_memory")
"""Attributes by which an operation names shared memory that it reads."""


@dataclass(frozen=True, slots=True)
class BufferRing:
    """The buffers of a loop, or of two of which one goes on where the other ends: which one a step uses, in which
    round."""

    name: str
    filled: frozenset[str]
    """The shared memories."""
    stages: int
    done: Expr
    """Steps before this loop, modulo two rounds."""
    lets: tuple[Op, ...]
    """What says how many those are."""
    lower: Expr
    """Where the first step is."""
    step: Expr
    """Number of the current step."""
    steps: Expr
    """Up to the end of this loop."""
    full_arrivals: int
    empty_arrivals: int
    everywhere: bool
    """Whether other workgroups of the cluster fill its buffers as well."""
    begins: bool = True
    """Whether no loop before has steps of the ring."""
    ends: bool = True
    """Whether no loop behind has."""

    def index(self, step: Expr) -> Expr:
        return (self.done + step) % self.stages

    def round(self, step: Expr) -> Expr:
        """The parity of the round: a signal's phase."""
        return (self.done + step) // self.stages % 2

    @property
    def full(self) -> str:
        return f"{self.name}.full"

    @property
    def empty(self) -> str:
        return f"{self.name}.empty"

    @property
    def signals(self) -> tuple[Memory, Memory]:
        return (
            signal(self.full, self.stages, self.full_arrivals),
            signal(self.empty, self.stages, self.empty_arrivals),
        )


def rings_of(kernel: Kernel) -> dict[int, BufferRing]:
    """The ring of every loop that has one, by the loop's `id`: loops over one dim have one induction."""
    rings, known = dict[int, BufferRing](), Counter[str]()
    waiting = deque(_loops(kernel, kernel.body, ()))
    while waiting:
        first, around = waiting.popleft()
        rest = waiting.popleft()[0] if waiting and _goes_on(first, waiting[0][0], filled_by(kernel, first)) else None
        induction: str = first["induction"]
        name = f"{induction}.{known[induction]}" if known[induction] else induction
        known[induction] += 1
        ring = _ring(kernel, rest.with_(lower=first["lower"]) if rest else first, around, name)
        rings[id(first)] = replace(ring, steps=trips(first), ends=rest is None)
        if rest:
            rings[id(rest)] = replace(ring, begins=False)
    return rings


def ring_outside(kernel: Kernel) -> BufferRing | None:
    """Of what is filled once, in front of all loops: one buffer."""
    copies = [op for op in kernel.body if is_copy(kernel, op)]
    if not copies:
        return None
    filled = frozenset(op["memory"] for op in copies)
    name = "-".join(sorted(filled))
    arrivals = _full_arrivals(kernel, copies, filled)
    none, one = const(0), const(1)
    return BufferRing(name, filled, 1, none, (), none, none, one, arrivals, empty_arrivals=0, everywhere=False)


def _goes_on(first: Op, rest: Op, filled: frozenset[str]) -> bool:
    """Whether a loop copies the same as the one before, from the step on where that ends."""
    if first["induction"] != rest["induction"] or first["upper"] != rest["lower"]:
        return False
    one, other = ([(op.name, op.attributes) for op in copies_into(loop.body.ops, filled)] for loop in (first, rest))
    return one == other


def _loops(kernel: Kernel, ops: Sequence[Op], around: tuple[Op, ...]) -> Iterator[tuple[Op, tuple[Op, ...]]]:
    for op in ops:
        if op.is_(FOR) and (filled := filled_by(kernel, op)):
            over_tiles = any(inner.is_(LET) for inner in op.body.ops)
            if over_tiles or any(filled_by(kernel, inner) for inner in op.walk() if inner is not op):
                copy = next(copy for copy in op.body.ops if copy.is_(FILLS) and copy["memory"] in filled)
                raise StagedOutsideLoop(copy.span, copy["memory"].partition(".")[0])
            yield op, around
        elif op.region is not None:
            yield from _loops(kernel, op.region.ops, (*around, op) if op.is_(FOR) else around)


def _ring(kernel: Kernel, loop: Op, around: tuple[Op, ...], name: str) -> BufferRing:
    filled = filled_by(kernel, loop)
    stages = max(kernel.memory(name).buffers for name in filled)
    done, lets = const(0), tuple[Op, ...]()
    if around:
        _check_counted(loop, around)
        passed = const(0)
        for outer in around:
            passed = passed * trips(outer) + step_of(kernel, outer)
        done = symbol(f"done_{name}", 0, 2 * stages - 1)
        lets = (make("let", symbol=f"done_{name}", value=passed * trips(loop) % (2 * stages)),)
    everywhere = any(is_shared(kernel, op) for op in loop.body.ops if op.is_(BULK_COPY))
    waves = kernel.wave_count // (WAVES_IN_TURN if TURN in dict(kernel.waves) else 1)
    return BufferRing(
        name,
        filled,
        stages,
        done,
        lets,
        loop["lower"],
        step_of(kernel, loop),
        trips(loop),
        full_arrivals=_full_arrivals(kernel, loop.body.ops, filled),
        empty_arrivals=waves * (kernel.cluster if everywhere else 1),
        everywhere=everywhere,
    )


def _full_arrivals(kernel: Kernel, ops: Sequence[Op], filled: frozenset[str]) -> int:
    """Every lane that copies, and the one that has boxes copied."""
    by_lanes = any(is_by_lanes(op, filled) for op in ops)
    return (kernel.lanes * kernel.producers if by_lanes else 0) + any(op.is_(BULK_COPY) for op in ops)


def _check_counted(loop: Op, around: tuple[Op, ...]) -> None:
    """Steps before are a product of trips, so no trips change from one time a loop is reached to the next."""
    changing: set[str] = set()
    for outer, inner in pairwise((*around, loop)):
        changing |= {outer["induction"], *(op["symbol"] for op in outer.body.ops if op.is_(NAMES_A_SYMBOL))}
        if not changing.isdisjoint(trips(inner).symbols):
            raise StepsNotCounted(inner.span, inner.node)


def filled_by(kernel: Kernel, loop: Op) -> frozenset[str]:
    """Shared memories that a loop's body fills with tiles of tensors and reads in the same step."""
    if not loop.is_(FOR):
        return frozenset()
    written = {op["memory"] for op in loop.body.ops if is_copy(kernel, op)}
    read = {op.get(key) for op in loop.body.ops if not op.is_(FILLS) for key in READS}
    return frozenset(written & read)


def is_copy(kernel: Kernel, op: Op) -> bool:
    """Whether an operation copies a part of a tensor's tile into shared memory."""
    if not op.is_(FILLS):
        return False
    memory = kernel.memory(op["memory"])
    return memory.staged and memory.space == "shared"


def is_by_lanes(op: Op, filled: frozenset[str]) -> bool:
    """Whether lanes do this copy themselves."""
    return op.is_(LANES_FILL) and op["memory"] in filled


def is_shared(kernel: Kernel, box: Op) -> bool:
    """Whether all workgroups of a cluster, which differ along axis 0, copy the same."""
    same = all("wg0" not in coordinate.symbols for coordinate in box["corner"])
    return kernel.distribution.cluster > 1 and same and box["box"][0] % kernel.cluster == 0


def copies_into(ops: Sequence[Op], filled: frozenset[str]) -> list[Op]:
    """The copies into ``filled`` with all that computes what they store and where that is, in order."""
    copies = [number for number, op in enumerate(ops) if op.is_(FILLS) and op["memory"] in filled]
    return [ops[number] for number in sorted({*copies, *feeding(ops, copies)})]


def step_of(kernel: Kernel, loop: Op) -> Expr:
    """How often a loop's body ran before."""
    return (kernel.symbol(loop["induction"]) - loop["lower"]) // loop["step"]


def trips(loop: Op) -> Expr:
    """How often a loop's body runs."""
    extent, step = loop["upper"] - loop["lower"], loop["step"]
    return ceildiv(extent, step.value) if step.is_const else (extent + step - 1) // step


def signal(name: str, count: int, arrivals: int) -> Memory:
    return Memory(name, DTYPES["i64"], (), (), "signal", buffers=count, arrivals=arrivals)


def make(name: str, **attributes: object) -> Op:
    """An operation without values."""
    return Op(name, attributes=attribute_pairs(attributes))


def only_if(mask: Mask, *ops: Op) -> Op:
    return Op("if", attributes=attribute_pairs({"mask": mask}), region=Region((), ops, ()))


def in_first_lane(kernel: Kernel, *ops: Op, mask: Mask = ()) -> Op:
    return only_if(((kernel.symbol("lane"), const(1)), *mask), *ops)

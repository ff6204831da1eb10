"""Loops that fill shared memory and use it in the same step: their rings of buffers, and the place of a step in one."""

from __future__ import annotations

import functools
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, ceildiv, const, maximum, symbol, total
from wavespec.ir.kernel import Kernel, Memory, Op, Region, attribute_pairs
from wavespec.ir.rewriting import substituted
from wavespec.ir.thread import Mask, row_axis
from wavespec.ir.thread_ops import (
    BIND,
    BULK_COPY,
    COPY_ASYNC,
    FILLS,
    FOR,
    LANES_FILL,
    LET,
    LOAD,
    MMA_ASYNC,
    MMA_COMMIT,
    NAMES_A_SYMBOL,
    STORE_MATRIX,
)
from wavespec.schedule.errors import StagedOutsideLoop, StepsNotCounted
from wavespec.schedule.feeding import feeding
from wavespec.schedule.read_beside_sums import is_read_beside

TURN = "turn"
"""Symbol of which of the waves that take turns this one is."""
NEXT_TURN = "turn.next"
"""Signal that gives a turn."""
WAVES_IN_TURN = 2
_OF_A_WORKGROUP = frozenset({"workgroup", "rank"})  # others of its cluster have other numbers
READS = ("memory", "a_memory", "b_memory")
"""Attributes by which an operation names shared memory that it reads."""
_LEAST_LATE = 3
"""Buffers of a ring whose landing is said late: one is read, one is filled, and one of whose landing nobody knows."""
_BESIDE = 0.5
"""Where lanes read tiles for sums: behind the first group of products."""


@dataclass(frozen=True, slots=True)
class BufferRing:
    """The buffers of a loop, or of several that go on where one ends: which one a step uses, in which round."""

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
    landed: bool
    """Whether lanes fill its buffers by asynchronous copies, whose landing they do not wait for."""
    is_carried: bool = False
    """Whether the loop over tiles carries how many steps there were, since these differ in them."""
    begins: bool = True
    """Whether no loop before has steps of the ring."""
    ends: bool = True
    """Whether no loop behind has."""
    is_filled: bool = True
    """Whether the steps from `lower` on up to the end of this loop are copied alike, and those behind it are not."""
    beside: bool = False
    """Whether lanes read what is in it, for the sums of a step."""

    def index(self, step: Expr) -> Expr:
        return (self.done + step) % self.stages

    def round(self, step: Expr) -> Expr:
        """The parity of the round: a signal's phase."""
        return (self.done + step) // self.stages % 2

    @property
    def late(self) -> bool:
        """Whether lanes say what has landed, and make it visible, when they have issued the copies that follow: with
        two buffers there is nothing to be late by."""
        return self.landed and self.stages >= _LEAST_LATE

    @property
    def full(self) -> str:
        return f"{self.name}.full"

    @property
    def empty(self) -> str:
        return f"{self.name}.empty"

    @property
    def turn(self) -> str:
        """Signals of the waves that issue their products in turn."""
        return f"{self.name}.turn"

    @property
    def signals(self) -> tuple[Memory, Memory]:
        return (
            signal(self.full, self.stages, self.full_arrivals),
            signal(self.empty, self.stages, self.empty_arrivals),
        )


def rings_of(kernel: Kernel) -> dict[int, tuple[BufferRing, ...]]:
    """The rings of every loop that has some, by the loop's `id`, in the order in which a step uses them: loops over one
    dim have one induction, and loops behind one another may fill the same memories."""
    rings, known = dict[int, tuple[BufferRing, ...]](), Counter[str]()
    waiting = deque(_loops(kernel, kernel.body, ()))
    while waiting:
        around, filled = waiting[0][1], filled_by(kernel, waiting[0][0])
        chains = [_next_chain(kernel, waiting)]
        while waiting and filled_by(kernel, waiting[0][0]) == filled:
            chains.append(_next_chain(kernel, waiting))
        induction: str = chains[0][0]["induction"]
        name = f"{induction}.{known[induction]}" if known[induction] else induction
        known[induction] += 1
        rings |= _of_chains(kernel, chains, around, name, filled)
    return rings


def _next_chain(kernel: Kernel, waiting: deque[tuple[Op, tuple[Op, ...]]]) -> list[Op]:
    """The next loop, and those that go on from it."""
    chain = [waiting.popleft()[0]]
    while waiting and _goes_on(chain[-1], waiting[0][0], filled_by(kernel, chain[0])):
        chain.append(waiting.popleft()[0])
    return chain


def _of_chains(
    kernel: Kernel, chains: Sequence[Sequence[Op]], around: tuple[Op, ...], name: str, filled: frozenset[str]
) -> dict[int, tuple[BufferRing, ...]]:
    """The rings that loops behind one another fill, each chain with copies of its own."""
    found = dict[int, tuple[BufferRing, ...]]()
    wholes = [chain[-1].with_(lower=chain[0]["lower"]) for chain in chains]
    ring = functools.partial(_ring, kernel, wholes, around)
    apart = _apart(kernel, [chain[0] for chain in chains], ring(name, filled), ring)
    before = const(0)
    for chain, whole in zip(chains, wholes, strict=True):
        step, lower = before + step_of(kernel, whole), whole["lower"]
        own = [replace(one, lower=lower, step=step) for one in apart]
        if chain is not chains[0]:
            own = [replace(one, lets=()) for one in own]
        for loop in chain:
            steps, is_filled = before + trips(loop.with_(lower=lower)), loop is chain[-1]
            begins, ends = loop is chains[0][0], loop is chains[-1][-1]
            found[id(loop)] = tuple(
                replace(one, steps=steps, begins=begins, ends=ends, is_filled=is_filled) for one in own
            )
        before += trips(whole)
    return found


def _apart(
    kernel: Kernel, loops: Sequence[Op], ring: BufferRing, own: Callable[[str, frozenset[str]], BufferRing]
) -> tuple[BufferRing, ...]:
    """A ring for what each group of products reads, where such groups follow each other in a step: its buffer is filled
    again while the next group runs.

    The groups of a product of registers stay apart when steps overlap; lanes that store what they loaded wait for it.
    """
    parts = {_parts(loop.body.ops, ring.filled) for loop in loops}
    bodies = [loop.body.ops for loop in loops]
    if len(parts) > 1 or (any(is_by_lanes(op, ring.filled) for ops in bodies for op in ops) and not ring.landed):
        return (ring,)
    (filled_apart,) = parts
    if len(filled_apart) == 1:
        return (ring,)
    found = list[BufferRing]()
    for filled in filled_apart:
        name = "-".join((ring.name, *(memory.removesuffix(".shared") for memory in sorted(filled))))
        arrivals, landed = _full_arrivals(kernel, bodies, filled), _lands(bodies, filled)
        one = ring
        if max(kernel.memory(memory).buffers for memory in filled) != ring.stages:  # its rounds are counted apart
            one = own(name, filled)
        elif any(other.done is ring.done for other in found):
            one = replace(ring, lets=())
        beside = any(is_read_beside(bodies[0], memory) for memory in filled)
        one = replace(one, name=name, filled=filled, full_arrivals=arrivals, landed=landed, beside=beside)
        found.append(one)
    return tuple(found)


def _parts(ops: Sequence[Op], filled: frozenset[str]) -> tuple[frozenset[str], ...]:
    """What groups of products of registers read, in their order; else all of it."""
    if not any(op.is_(MMA_ASYNC) and len(op.operands) > 1 for op in ops):
        return (filled,)
    used = dict[tuple[float, float], set[str]]()
    for memory in sorted(filled):
        places = readers(ops, frozenset({memory}))
        groups = [sum(op.is_(MMA_COMMIT) for op in ops[:place]) for place in (places[0], places[-1])]
        key = (_BESIDE, _BESIDE) if is_read_beside(ops, memory) else (groups[0], groups[1])
        used.setdefault(key, set()).add(memory)
    return tuple(frozenset(memories) for _, memories in sorted(used.items()))


def rings_outside(kernel: Kernel) -> dict[int, BufferRing]:
    """Of what is filled once in front of loops, by the `id` of the loop around them, or 0: in a loop over tiles it is
    filled again for the next one."""
    found = dict[int, BufferRing]()
    if filled := _filled_once(kernel, kernel.body):
        none, one = const(0), const(1)
        arrivals, landed = _full_arrivals(kernel, [kernel.body], filled), _lands([kernel.body], filled)
        found[0] = BufferRing(_joined(filled), filled, 1, none, (), none, none, one, arrivals, 0, False, landed)
    for loop in kernel.walk():
        around_loops = loop.is_(FOR) and any(filled_by(kernel, inner) for inner in loop.walk() if inner is not loop)
        if around_loops and (filled := _filled_once(kernel, loop.body.ops)):
            found[id(loop)] = _ring(kernel, [loop], (), _joined(filled), filled)
    return found


def _filled_once(kernel: Kernel, ops: Sequence[Op]) -> frozenset[str]:
    """Shared memories that these operations fill, and loops among them read."""
    return frozenset(op["memory"] for op in ops if is_copy(kernel, op))


def _joined(memories: frozenset[str]) -> str:
    return "-".join(sorted(memories))


def _goes_on(first: Op, rest: Op, filled: frozenset[str]) -> bool:
    """Whether a loop copies the same as the one before, from the step on where that ends."""
    if first["induction"] != rest["induction"] or first["upper"] != rest["lower"]:
        return False
    one, other = (_as_written(copies_into(loop.body.ops, filled)) for loop in (first, rest))
    return one == other


def _as_written(ops: Sequence[Op]) -> list[object]:
    """Operations without the names of values, and of symbols that stand for them."""
    names = {op["symbol"]: symbol(f"bound{number}", None) for number, op in enumerate(ops) if op.is_(BIND)}
    return [op.name if op.is_(BIND) else (op.name, substituted(op, names).attributes) for op in ops]


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


def _ring(kernel: Kernel, loops: Sequence[Op], around: tuple[Op, ...], name: str, filled: frozenset[str]) -> BufferRing:
    """Of the first of several loops behind one another."""
    stages, loop = max(kernel.memory(name).buffers for name in filled), loops[0]
    done, lets, is_carried = const(0), tuple[Op, ...](), False
    if around and not all(_is_counted(one, around) for one in loops):
        alike = kernel.distribution.cluster == 1 or all(_is_alike(one, around) for one in loops)
        in_step = TURN not in dict(kernel.waves) and alike
        if not in_step:
            raise StepsNotCounted(loop.span, loop.node)
        done, is_carried = symbol(f"done_{name}", 0, 2 * stages - 1), True
    elif around:
        passed = const(0)
        for outer in around:
            before = const(0) if outer.get("counts_on") else passed * trips(outer)
            passed = before + step_of(kernel, outer)
        done = symbol(f"done_{name}", 0, 2 * stages - 1)
        of_tile = total((trips(one), 1) for one in loops)
        lets = (make("let", symbol=f"done_{name}", value=passed * of_tile % (2 * stages)),)
    bodies = [one.body.ops for one in loops]
    everywhere = any(is_shared(kernel, op) for ops in bodies for op in ops if op.is_(BULK_COPY))
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
        full_arrivals=_full_arrivals(kernel, bodies, filled),
        empty_arrivals=waves * (kernel.cluster if everywhere else 1),
        everywhere=everywhere,
        landed=_lands(bodies, filled),
        is_carried=is_carried,
    )


def _full_arrivals(kernel: Kernel, blocks: Sequence[Sequence[Op]], filled: frozenset[str]) -> int:
    """Every lane that copies in one of the blocks, and the one that has boxes copied."""
    ops = [op for block in blocks for op in block]
    by_lanes = any(is_by_lanes(op, filled) for op in ops)
    return (kernel.lanes * kernel.producers if by_lanes else 0) + any(op.is_(BULK_COPY) for op in ops)


def _lands(blocks: Sequence[Sequence[Op]], filled: frozenset[str]) -> bool:
    """Whether lanes copy into ``filled`` and none stores what it has loaded."""
    by_lanes = [op for block in blocks for op in block if is_by_lanes(op, filled)]
    return bool(by_lanes) and all(op.is_(COPY_ASYNC) for op in by_lanes)


def _is_counted(loop: Op, around: tuple[Op, ...]) -> bool:
    """Whether steps before are a product of trips: no trips change from one time a loop is reached to the next."""
    changing: set[str] = set()
    for outer, inner in pairwise((*around, loop)):
        changing |= {outer["induction"], *(op["symbol"] for op in outer.body.ops if op.is_(NAMES_A_SYMBOL))}
        if not inner.get("counts_on") and not changing.isdisjoint(trips(inner).symbols):
            return False
    return True


def _is_alike(loop: Op, around: tuple[Op, ...]) -> bool:
    """Whether workgroups of a cluster take the same steps: nothing that says how many tells them apart."""
    inside = [op for outer in around for op in outer.body.ops]
    values = {op["symbol"]: op["value"] for op in inside if op.is_(LET)}
    apart = {op["symbol"] for op in inside if op.is_(NAMES_A_SYMBOL) and not op.is_(LET)} | _OF_A_WORKGROUP
    names, todo = set[str](), [trips(loop)]
    while todo:
        fresh = todo.pop().symbols - names
        names |= fresh
        todo += [values[name] for name in fresh if name in values]
    return apart.isdisjoint(names)


def filled_by(kernel: Kernel, loop: Op) -> frozenset[str]:
    """Shared memories that a loop's body fills with tiles of tensors and reads in the same step."""
    if not loop.is_(FOR):
        return frozenset()
    written = {op["memory"] for op in loop.body.ops if is_copy(kernel, op)}
    others = [op for op in loop.body.ops if not op.is_(FILLS, STORE_MATRIX)]
    read = {name for op in others for key, name in op.attributes if key in READS}
    return frozenset(written & read)


def readers(ops: Sequence[Op], memories: frozenset[str]) -> list[int]:
    """The places in ``ops`` of what reads these memories, itself or inside of it."""
    return [
        number
        for number, op in enumerate(ops)
        if not op.is_(FILLS) and any(inner.get(key) in memories for inner in op.walk() for key in READS)
    ]


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
    parted = box.get("windows") is not None or box["box"][row_axis(box["box"])] % kernel.cluster == 0
    if kernel.distribution.cluster == 1 or not parted:
        return False
    loads = {value.name: op.symbols for op in kernel.walk() if op.is_(LOAD) for value in op.results}
    bound = {op["symbol"]: loads.get(op.operands[0].name) for op in kernel.walk() if op.is_(BIND)}
    used = set[str]().union(*(coordinate.symbols for coordinate in box["corner"]))
    waiting = [*used]
    while waiting:
        if (name := waiting.pop()) in bound:
            if (behind := bound[name]) is None:  # who knows what it is made of
                return False
            waiting += behind - used
            used |= behind
    return "wg0" not in used


def copies_into(ops: Sequence[Op], filled: frozenset[str]) -> list[Op]:
    """The copies into ``filled`` with all that computes what they store and where that is, in order."""
    copies = [number for number, op in enumerate(ops) if op.is_(FILLS) and op["memory"] in filled]
    return [ops[number] for number in sorted({*copies, *feeding(ops, copies)})]


def step_of(kernel: Kernel, loop: Op) -> Expr:
    """How often a loop's body ran before, the last times it was reached included where it counts on."""
    if loop.get("counts_on"):
        return kernel.symbol(loop["induction"])
    return (kernel.symbol(loop["induction"]) - loop["lower"]) // loop["step"]


def trips(loop: Op) -> Expr:
    """How often a loop's body runs; some begin behind their end, as those of shares of a split without steps and of
    bounds that a call says do."""
    extent, step = maximum(loop["upper"] - loop["lower"], 0), loop["step"]
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

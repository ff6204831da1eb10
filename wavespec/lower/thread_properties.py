"""Thread kernels, and kernels of both levels, go in; what breaks a property that passes rely on comes out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Final

from wavespec.ir.declarations import Trait
from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.names import dim_of_size, dim_of_wave, is_operand
from wavespec.ir.thread_ops import (
    ASYNC_WAIT,
    BARRIER,
    BULK_COPY,
    BULK_STORE,
    COPY_ASYNC,
    FILLS,
    FOR,
    FROM_LANE,
    MMA,
    MMA_ASYNC,
    PURE,
    READS_MEMORY,
    ROLE,
    SEND,
    SHUFFLE,
    THREAD_OPS,
    WRITES_MEMORY,
)
from wavespec.ir.tile_ops import CLUSTER_EXTREME, CLUSTER_SUM, COPY, READ, SPREAD_SUM, TILE_OPS, WRITE
from wavespec.lower.contracts import Breach, Property, property_of
from wavespec.ops.staged_writes import shared_bytes_of_all
from wavespec.schedule.buffer_ring import READS
from wavespec.targets.machine import Machine

_NAMES_A_SYMBOL: Final = THREAD_OPS.having(Trait.NAMES_A_SYMBOL) | TILE_OPS.having(Trait.NAMES_A_SYMBOL)
_COPIES: Final = COPY_ASYNC | BULK_COPY
_PRODUCTS: Final = MMA | MMA_ASYNC
_LAUNCH_AXES: Final = 3
_TAKES: Final = READS_MEMORY | BULK_STORE | READ
_PUTS: Final = WRITES_MEMORY | FILLS | SEND | WRITE | COPY | CLUSTER_EXTREME | CLUSTER_SUM | SPREAD_SUM
_READ_FROM: Final = {"memory": "buffer", "a_memory": "a_buffer", "b_memory": "b_buffer"}
_BUFFERED: Final = (
    ("memory", "buffer"),
    ("a_memory", "a_buffer"),
    ("b_memory", "b_buffer"),
    ("signal", "index"),
)
"""Attributes that name a memory, and those that say which copy of it."""


@property_of(None)
def symbols_are_in_scope(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """The induction of a loop is used in the loop alone, and what an operation lets a symbol stand for behind it."""
    bound = _bound(kernel)

    def block(ops: tuple[Op, ...], around: frozenset[str]) -> Iterator[Breach]:
        scope = set(around)
        for op in ops:
            if not op.symbols.isdisjoint(bound):
                for name in sorted((op.symbols & bound) - scope):
                    yield op, f"'{name}' means nothing here"
            if op.region:
                yield from block(op.region.ops, frozenset((*scope, op.get("induction", ""))))
            if op.is_(_NAMES_A_SYMBOL):
                scope.add(op["symbol"])

    for name in sorted(bound & {name for extent in kernel.grid for name in extent.symbols}):
        yield None, f"its grid has as many workgroups as '{name}' says, which it counts itself"
    yield from block(kernel.body, frozenset())


@property_of(None)
def shared_memory_fits(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Staged tiles, all buffers of them, take no more shared memory than the machine has."""
    needed = shared_bytes_of_all(kernel.memories)
    if needed > machine.shared.bytes:
        yield None, f"it needs {needed} bytes; {machine.variant} has {machine.shared.bytes}"


@property_of(None)
def memories_are_filled_first(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """What a workgroup keeps in memory is read behind what puts it there: in the first step of a loop, too, and from
    the same buffer."""
    local = {memory.name for memory in kernel.memories if memory.space != "global"}
    filled: dict[str, set[Expr]] = {}

    def fill(op: Op, first: Mapping[str, Expr]) -> None:
        if op.is_(_PUTS):
            filled.setdefault(op["memory"], set()).add(_buffer(op, "buffer", first))

    def block(ops: tuple[Op, ...], first: Mapping[str, Expr]) -> Iterator[Breach]:
        for role in ops:
            for op in role.walk() if role.is_(ROLE) else ():  # roles run at the same time
                fill(op, {})
        for op in ops:
            for key, name in op.attributes:
                if key not in _READ_FROM or name not in local or (key == "memory" and not op.is_(_TAKES)):
                    continue
                if op.get("onto"):  # of sums, the first step only stores
                    continue
                if not _may_have(filled.get(name, set[Expr]()), _buffer(op, _READ_FROM[key], first)):
                    yield op, f"nothing is in '@{name}' yet"
            fill(op, first)
            if op.region and not (op.is_(FOR) and op["upper"].substitute(first) == const(0)):  # else it has no step yet
                start = {op["induction"]: op.get("lower", const(0))} if op.get("induction") else {}
                yield from block(op.region.ops, {**first, **start})

    yield from block(kernel.body, {})


def _buffer(op: Op, index: str, first: Mapping[str, Expr]) -> Expr:
    """Which copy of its memory an operation touches in the first steps of the loops around it."""
    place: Expr | None = dict(op.attributes).get(index)
    return const(0) if place is None else place.substitute(first)


def _may_have(filled: Set[Expr], place: Expr) -> bool:
    return place in filled or any(not (place.is_const and other.is_const) for other in filled)


@property_of("thread")
def is_of_lanes(kernel: Kernel, machine: Machine) -> Iterable[Breach]:
    """Operations are what one lane does."""
    return ()  # what `check` says of the level is all


@property_of("thread")
def lanes_are_in_reach(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Lanes exchange registers with those that the machine runs as one wave, of which a matrix instruction may take
    several."""
    for op in kernel.walk():
        if op.is_(SHUFFLE) and op["bits"] >= machine.lanes:
            yield op, f"it asks a lane {op['bits']} away; {machine.variant} has waves of {machine.lanes}"
        if op.is_(FROM_LANE) and not (op["lane"] < op["lanes"] <= machine.lanes):
            yield op, f"it asks lane {op['lane']} of {op['lanes']}; {machine.variant} has waves of {machine.lanes}"


@property_of("thread")
def buffers_are_in_range(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Every access is to a buffer that its memory has."""
    symbols = {known.args[0]: known for known in kernel.symbols}

    def block(ops: tuple[Op, ...], counted: Mapping[str, Expr]) -> Iterator[Breach]:
        for op in ops:
            has = dict(op.attributes)
            for memory, index in _BUFFERED:
                place: Expr | None = has.get(index)
                if not has.get(memory) or place is None:  # signals are named later
                    continue
                count, buffer = kernel.memory(has[memory]).buffers, place.substitute(counted)
                if buffer.low is None or buffer.high is None or buffer.low < 0 or buffer.high >= count:
                    yield op, f"it takes buffer {place} of '@{has[memory]}', which has {count}"
            known = symbols.get(op.get("induction", ""))
            step = known and _between_ends(op, known, counted)
            if op.region and not (known and step is None):
                yield from block(op.region.ops, {**counted, known.args[0]: step} if known and step else counted)

    yield from block(kernel.body, {})


def _between_ends(loop: Op, induction: Expr, counted: Mapping[str, Expr]) -> Expr | None:
    """What a loop counts, of which one behind another may have a part alone; None where it has no step."""
    first, end = loop["lower"].substitute(counted), loop["upper"].substitute(counted)
    lows = [one.low for one in (induction, first) if one.low is not None]
    highs = [high for high in (induction.high, None if end.high is None else end.high - 1) if high is not None]
    low, high = max(lows, default=None), min(highs, default=None)
    if low is not None and high is not None and low > high:
        return None
    return symbol(induction.args[0], low, high, induction.divisor)


@property_of("thread")
def values_are_used(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Around the loops nothing is computed that nothing needs."""
    used = {value.name for op in kernel.walk() for value in (*op.operands, *(op.region.yields if op.region else ()))}
    for op in kernel.body:
        if op.is_(PURE) and op.result.name not in used:
            yield op, f"nothing uses %{op.result.name}"


@property_of("thread")
def tiles_are_walked_over(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Workgroups of which there is one per processor say themselves which tile they are at."""
    if not kernel.distribution.persistent:
        return
    if len(kernel.grid) != 1:
        yield None, f"its grid has {len(kernel.grid)} axes"
    yield from _uncounted(kernel, counted=0)


@property_of("thread")
def roles_are_apart(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Where some waves only copy, copies and products have a role, and no role has both."""
    if not kernel.producers:
        return
    roles = [(role, tuple(role.walk())) for role in _roles(kernel)]
    inside = {id(op) for _, ops in roles for op in ops}
    for op in kernel.walk():
        if op.is_(_COPIES, _PRODUCTS) and id(op) not in inside:
            yield op, "it has no role"
    for role, ops in roles:
        if any(op.is_(_COPIES) for op in ops) and any(op.is_(_PRODUCTS) for op in ops):
            yield role, "it copies and multiplies"


@property_of("thread")
def waves_are_loops(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """No waves are left, but as inductions of loops."""
    if kernel.waves:
        yield None, f"it has waves '{kernel.waves[0][0]}'"
    bound = _bound(kernel)
    for op in kernel.walk():
        for name in sorted(op.symbols - bound):
            if dim_of_wave(name) and not dim_of_size(name):
                yield op, f"no loop counts '{name}'"


@property_of("thread")
def invariants_are_outside(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """No loop but a branch computes what is the same in all of its steps."""
    for loop in kernel.walk():
        if not loop.is_(FOR) or loop.get("once"):
            continue
        made = {value.name for value in loop.body.arguments}
        made |= {value.name for op in loop.body.ops for value in op.results}
        changing = {loop["induction"], *(op["symbol"] for op in loop.body.ops if op.is_(_NAMES_A_SYMBOL))}
        for op in loop.body.ops:
            if op.is_(PURE) and changing.isdisjoint(op.symbols) and not any(v.name in made for v in op.operands):
                yield op, f"%{op.result.name} is the same in every step of '{loop['induction']}'"


@property_of("thread")
def accesses_are_ordered(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Between a write to shared memory and a read of the same buffer lanes meet, along each block and from one step of
    a loop to the next; signals order what roles hand each other."""
    if kernel.threads == 1:
        return
    roles = _roles(kernel)
    named = [{dict(op.attributes).get(key) for op in role.walk() for key in READS} for role in roles]
    handed = {name for number, names in enumerate(named) for other in named[:number] for name in names & other}
    shared = {memory.name for memory in kernel.memories if memory.space == "shared" and not memory.own} - handed
    yield from _Meetings(frozenset(shared)).block(kernel.body)


class _Meetings:
    """What was written and read since lanes last met, and is in flight; by memory and buffer."""

    def __init__(self, shared: frozenset[str]) -> None:
        self.shared = shared
        self.written: set[tuple[str, Expr | None]] = set()
        self.read: set[tuple[str, Expr | None]] = set()
        self.flying: set[tuple[str, Expr | None]] = set()

    def block(self, ops: tuple[Op, ...]) -> Iterator[Breach]:
        for op in ops:
            if op.region:
                yield from self.block(op.region.ops)
                if op.is_(FOR) and not op.get("once"):
                    self._forget_changing()
                    yield from self.block(op.region.ops)
                self._forget_changing()
            elif op.is_(BARRIER):
                self.written.clear()
                self.read.clear()
            elif op.is_(ASYNC_WAIT):
                self.written |= self.flying
                self.flying.clear()
            elif op.get("memory") in self.shared and op.get("rank") is None:
                yield from self._access(op)

    def _access(self, op: Op) -> Iterator[Breach]:
        place = op["memory"], op.get("buffer")
        if op.is_(READS_MEMORY):
            if place in self.written | self.flying:
                yield op, f"it reads '@{op['memory']}', which other lanes have just written to"
            self.read.add(place)
        elif op.is_(WRITES_MEMORY, COPY_ASYNC):
            if place in self.read:
                yield op, f"it writes to '@{op['memory']}', which other lanes may still be reading"
            (self.flying if op.is_(COPY_ASYNC) else self.written).add(place)

    def _forget_changing(self) -> None:
        """Buffers whose number depends on a symbol are others in the next step."""
        for places in (self.written, self.read, self.flying):
            places -= {place for place in places if place[1] is not None and not place[1].is_const}


@property_of("thread")
def grid_is_of_a_launch(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """The grid has at most three axes; places in it that the launch does not count, the kernel says itself."""
    if len(kernel.grid) > _LAUNCH_AXES or kernel.joined:
        yield None, f"its grid has {len(kernel.grid)} axes, {len(kernel.joined)} of them joined"
    yield from _uncounted(kernel, counted=len(kernel.grid))


def _bound(kernel: Kernel) -> frozenset[str]:
    """Symbols that the kernel gives a meaning to by itself."""
    loops = (op["induction"] for op in kernel.walk() if op.get("induction") is not None)
    named = (op["symbol"] for op in kernel.walk() if op.is_(_NAMES_A_SYMBOL))
    return frozenset(name for name in (*loops, *named) if not is_operand(name))


def _roles(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.walk() if op.is_(ROLE)]


def _uncounted(kernel: Kernel, counted: int) -> Iterator[Breach]:
    """Uses of places in the grid beyond the axes that the launch counts."""
    known = _bound(kernel) | {f"wg{axis}" for axis in range(counted)}
    for op in kernel.walk():
        for name in sorted(op.symbols - known):
            if name.startswith("wg") and name[2:].isdecimal():
                yield op, f"nothing says what '{name}' is"


THREAD_PROPERTIES: Final[tuple[Property, ...]] = tuple(one for one in globals().values() if isinstance(one, Property))

"""A place of a kernel in; what the lanes of a workgroup have there, when they come by for the n-th time, out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import FOR, LET
from wavespec.sim.elements import Array, Flags, Integers
from wavespec.sim.memories import SimulatedMemory
from wavespec.sim.symbols import SymbolValues


@dataclass(frozen=True, slots=True)
class Registers:
    """Registers of some lanes, ``values[lanes, elements]``, and where in memory they are read or written, if they are:
    the place of the first element of each lane."""

    name: str
    values: Array
    memory: SimulatedMemory | None = None
    places: Integers | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """Lanes that stand still behind an operation: ``first`` is the number of the first of them in the workgroup.

    ``counters``: where loops, and the workgroup in the grid, are, without what follows from them.  ``enabled``: the
    lanes that take part.
    """

    op: Op
    first: int
    counters: Mapping[str, int]
    enabled: Flags
    registers: tuple[Registers, ...]


@dataclass(slots=True)
class StopAt:
    """Stops each wave of one workgroup behind the operations for which ``matches`` holds, those of one block together,
    when it comes by for the time ``step``, counted from 0.  What they left in registers is in ``stops``, one entry for
    lanes that run in step; ``passed`` counts how often each came by, by its first lane."""

    kernel: Kernel
    matches: Callable[[Op], bool]
    step: int = 0
    workgroup: int = 0
    stops: list[Stop] = field(default_factory=list[Stop])
    passed: dict[int, int] = field(default_factory=dict[int, int])
    _behind: dict[int, tuple[Op, ...]] = field(default_factory=dict[int, tuple[Op, ...]])
    _counters: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._behind = {id(ops[-1]): ops for ops in _together(self.kernel.body, self.matches)}
        loops = {op["induction"] for op in self.kernel.walk() if op.is_(FOR)}
        axes = {f"wg{axis}" for axis in range(len(self.kernel.grid))}
        follow = {op["symbol"] for op in self.kernel.walk() if op.is_(LET)}
        self._counters = frozenset((loops | axes) - follow)

    def reached(
        self,
        op: Op,
        workgroup: int,
        symbols: SymbolValues,
        values: Mapping[str, Array],
        memories: Mapping[str, SimulatedMemory],
        enabled: Flags,
    ) -> bool:
        """Whether the lanes that did an operation of a workgroup stop here; what they have is noted."""
        ops = self._behind.get(id(op))
        if ops is None or workgroup != self.workgroup:
            return False
        times = self.passed[symbols.first] = self.passed.get(symbols.first, 0) + 1
        if times != self.step + 1:
            return False
        counters = {name: value for name, value in symbols.values.items() if name in self._counters}
        whole = {name: int(value) for name, value in counters.items() if not getattr(value, "shape", ())}
        registers = tuple(_registers(ops, symbols, values, memories))
        self.stops.append(Stop(op, symbols.first, whole, enabled.copy(), registers))
        return True


def _together(ops: tuple[Op, ...], matches: Callable[[Op], bool]) -> Iterator[tuple[Op, ...]]:
    """The operations of each block that match; those inside of one that does belong to it."""
    if found := tuple(op for op in ops if matches(op)):
        yield found
    for op in ops:
        if op.region and not matches(op):
            yield from _together(op.region.ops, matches)


def _registers(
    ops: tuple[Op, ...], symbols: SymbolValues, values: Mapping[str, Array], memories: Mapping[str, SimulatedMemory]
) -> Iterator[Registers]:
    """What the operations make together, or what those that make nothing take."""
    used = {value.name for op in ops for value in op.operands}
    for op in ops:
        for value in op.results or op.operands:
            if value.name not in values or (op.results and value.name in used):
                continue
            memory = memories.get(op.get("memory") or "")
            if memory is None or op.get("offset") is None:
                yield Registers(value.name, values[value.name])
            else:
                buffer = 0 if op.get("buffer") is None else symbols.per_thread(op["buffer"])
                places = symbols.per_thread(op["offset"]) + buffer * memory.elements
                yield Registers(value.name, values[value.name], memory, places)

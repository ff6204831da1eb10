"""A thread-level kernel and its tensors in, results and findings out.

A workgroup runs as one strand of lanes in lock-step; where waves have roles or wait for signals, as a strand per wave.
The workgroups of a cluster run together, all others one after another.
The shadow memory reports every pair of accesses that only lock-step, or the order in which strands happen to run,
orders: what is reported clean is right in any order of waves and lanes.  Loops check that control flow is uniform.

Figures of `SimulationReport.counts`, with `<verb>` one of load, store, atomic, matrix load, matrix store, async store,
bulk load, bulk store and matrix unit load:

- the name of each operation: times issued.  ``mma`` counts once per group of lanes that issues it; ``for``,
  ``async_commit`` and ``async_wait`` once per strand; ``barrier`` once for all that meet; others once per wave;
- ``<space> <verb> bytes``: bytes of unmasked elements;
- ``<space> <verb> <width> B``: threads that made an access that wide.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from wavespec.ir.kernel import Kernel
from wavespec.ir.names import dim_of_size, scalar_name, size_name
from wavespec.ir.strided import number_of
from wavespec.ir.thread_ops import BULK_COPY, BULK_STORE, MMA_ASYNC, ROLE, SEND, SIGNAL_ARRIVE, SIGNAL_WAIT, STAGGER
from wavespec.runtime.scalars import held, rounded
from wavespec.sim.clocks import Clocks
from wavespec.sim.elements import Array
from wavespec.sim.findings import FindingList, SimulationReport
from wavespec.sim.interleaving import Meetings, Order, interleave
from wavespec.sim.memories import SimulatedMemory, numbers_of_tensors, tensors_to_memories, workgroup_memories
from wavespec.sim.signals import fresh_signals
from wavespec.sim.statistics import Statistics
from wavespec.sim.steps import Program
from wavespec.sim.stops import StopAt
from wavespec.sim.strand import Stopped, Strand, program_of
from wavespec.sim.symbols import SymbolValues, outside_range
from wavespec.sim.workgroup import Workgroup
from wavespec.targets.machine import Machine

_APART = ROLE | STAGGER | SIGNAL_WAIT | SIGNAL_ARRIVE | BULK_COPY | BULK_STORE | SEND | MMA_ASYNC
"""Operations that make the waves of a kernel run apart."""


def simulate(
    kernel: Kernel,
    machine: Machine,
    tensors: Mapping[str, Array],
    sizes: Mapping[str, int],
    *,
    workgroups: Iterable[tuple[int, ...]] | None = None,
    order: Order = "forward",
    scalars: Mapping[str, bool | int | float] | None = None,
    stop_at: StopAt | None = None,
) -> SimulationReport:
    """Run a thread-level kernel.

    Args:
        kernel: at thread level; before or after its waves were made loops.
        machine: the row of its target, for matrix instructions and shared memory.
        tensors: every input, what is changed in place, and outputs whose old content matters, by memory name; never
            written to. bf16 is the numpy type of ``ml_dtypes``.
        sizes: the value of every dim.
        workgroups: the ids to run, one number per grid axis; the whole grid where left out.
        scalars: the numbers of a call that has some.
        stop_at: where to stop; then only its workgroup, and those of its cluster, run.
        order: which strand goes on where several can; whether a kernel is found right does not depend on it.

    Raises:
        ValueError: tensors, sizes or scalars do not fit the kernel; it uses an unknown operation or matrix
            instruction.
    """
    if kernel.level != "thread":
        raise ValueError(f"kernel '{kernel.name}' is at {kernel.level} level, the simulator runs thread level")
    values = numbers_of_call(kernel, tensors, sizes, scalars or {})
    _check_sizes(kernel, values)
    if kernel.launched is not None:  # waves share out one dim, so that one symbol has fewer values
        launched = int(kernel.launched.evaluate(values))
        kernel = replace(kernel, waves=tuple((name, min(count, launched)) for name, count in kernel.waves))
    grid = tuple(int(extent.evaluate(values)) for extent in kernel.grid)
    findings, statistics = FindingList(kernel), Statistics(machine, kernel)
    memories = tensors_to_memories(kernel, tensors, values)
    call = _Call(kernel, machine, values, grid, memories, findings, statistics, stop_at)
    everything = itertools.product(*(range(extent) for extent in grid))
    chosen = everything if workgroups is None else workgroups
    if stop_at is not None:
        chosen = (one for one in everything if _number_of(one, grid) == stop_at.workgroup)
    start = 1
    for ids in _clusters(chosen, grid, kernel.cluster):
        start = call.run(ids, start, order)
        statistics.measure_banks = False
    if workgroups is None and stop_at is None:
        _check_outputs(memories, findings)
    return SimulationReport(
        {name: memory.tensor for name, memory in memories.items() if memory.memory.space == "global"},
        findings.in_order(),
        dict(statistics.counts),
        statistics.bank_conflicts(),
        statistics.slow_accesses(findings),
    )


@dataclass(frozen=True)
class _Call:
    """What the workgroups of a call have in common."""

    kernel: Kernel
    machine: Machine
    values: Mapping[str, int]
    grid: tuple[int, ...]
    memories: Mapping[str, SimulatedMemory]
    findings: FindingList
    statistics: Statistics
    stop_at: StopAt | None

    @cached_property
    def strand_lanes(self) -> int:
        return self.kernel.threads // strands_of(self.kernel)

    @cached_property
    def program(self) -> Program:
        return program_of(self.kernel, self.machine, self.strand_lanes)

    def run(self, ids: Sequence[tuple[int, ...]], start: int, order: Order) -> int:
        """Run the workgroups of a cluster, whose clocks begin at ``start``; the time at their end."""
        numbers = [_number_of(one, self.grid) for one in ids]
        clocks, landing = Clocks(self.kernel, numbers, self.strand_lanes, start), deque[Callable[[], None]]()
        cluster: list[Workgroup] = []
        strands: list[Strand] = []
        for rank, (one, number) in enumerate(zip(ids, numbers, strict=True)):
            workgroup = Workgroup(
                self.kernel,
                self.machine,
                {**self.memories, **workgroup_memories(self.kernel, self.values)},
                self.findings,
                self.statistics,
                clocks,
                fresh_signals(clocks, self.findings, rank),
                landing,
                number,
                rank,
                cluster,
            )
            cluster.append(workgroup)
            meetings = Meetings(workgroup)
            for first in range(0, self.kernel.threads, self.strand_lanes):
                symbols = SymbolValues(self.kernel, self.values, one, first, self.strand_lanes)
                strands.append(Strand(workgroup, symbols, meetings, self.program, self.stop_at))
        try:
            _run(cluster, strands, order)
        finally:
            cluster.clear()  # workgroups refer to each other: their memories would stay until someone looks for cycles
        return clocks.now


def strands_of(kernel: Kernel) -> int:
    """The parts of a workgroup whose lanes run in step: all of it, or each wave where they have roles, wait, or have
    loops of their own."""
    ops = kernel.walk()
    apart = kernel.producers > 0 or any(op.is_(_APART) or op.get("waves") or op.get("of_wave") for op in ops)
    return kernel.threads // kernel.lanes if apart else 1


def numbers_of_call(
    kernel: Kernel,
    tensors: Mapping[str, Array],
    sizes: Mapping[str, int],
    scalars: Mapping[str, bool | int | float],
) -> dict[str, int]:
    """What a call says in numbers, by symbol: sizes, offsets and strides, scalars.

    Raises:
        ValueError: a scalar has no number.
    """
    values = {size_name(dim): size for dim, size in sizes.items()}
    return values | numbers_of_tensors(kernel, tensors, values) | _numbers_of_scalars(kernel, scalars)


def _number_of(ids: tuple[int, ...], grid: tuple[int, ...]) -> int:
    """The number of a workgroup: the first axis counts fastest."""
    return sum(index * int(np.prod(grid[:axis])) for axis, index in enumerate(ids))


def _numbers_of_scalars(kernel: Kernel, scalars: Mapping[str, bool | int | float]) -> dict[str, int]:
    for name, _ in kernel.scalars:
        if name not in scalars:
            raise ValueError(f"kernel '{kernel.name}' has the scalar {name}, which has no number")
    numbers = ((name, dtype.name, scalars[name]) for name, dtype in kernel.scalars)
    return {scalar_name(name): held(rounded(number, dtype), dtype) for name, dtype, number in numbers}


def _check_sizes(kernel: Kernel, values: Mapping[str, int]) -> None:
    """
    Raises:
        ValueError: the kernel was not compiled for such a size.
    """
    for known in kernel.symbols:
        name = known.args[0]
        if name in values and outside_range(known, values[name]):
            what = number_of(name) or f"size {dim_of_size(name) or name}"
            raise ValueError(f"{what} = {values[name]} is outside what the kernel was compiled for: {known.args}")


def _clusters(
    workgroups: Iterable[tuple[int, ...]], grid: tuple[int, ...], size: int
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """The ids of workgroups that run together: neighbours along the first axis of the grid."""
    if size == 1:
        yield from ((tuple(one),) for one in workgroups)
        return
    if grid[0] % size:
        raise ValueError(f"a grid of {grid} workgroups is not made of clusters of {size}")
    for first, *rest in dict.fromkeys((one[0] // size * size, *one[1:]) for one in workgroups):
        yield tuple((first + rank, *rest) for rank in range(size))


def _run(cluster: Sequence[Workgroup], strands: Sequence[Strand], order: Order) -> None:
    """Run workgroups, then report what they leave undone."""
    landing, findings = cluster[0].landing, cluster[0].findings
    try:
        with np.errstate(all="ignore"):  # numbers of lanes overflow, and may be NaN: once for all operations
            finished = interleave({strand.name: strand.run() for strand in strands}, landing, findings, order)
    except Stopped:
        finished = False
    if not finished:
        return
    for strand in strands:
        strand.bulk.finish()
        strand.memory.finish()
    for workgroup in cluster:
        for signal in (signal for signals in workgroup.signals.values() for signal in signals):
            if signal.bytes:
                findings.add("signal-bytes", None, lambda signal=signal: f"At the end, {signal.state()}.")


def _check_gaps(name: str, memory: SimulatedMemory, findings: FindingList) -> None:
    """Report what was written between the elements of a tensor of any strides, where another tensor may be."""
    if memory.owner is None or memory.places is None:
        return
    is_written = memory.owner != 0
    is_written[memory.places] = False
    if is_written.any():
        place = int(np.argmax(is_written))
        text = f"Workgroups write between the elements of @{name}, at place {place} from its start."
        findings.add("out-of-bounds", None, lambda: text, count=int(is_written.sum()))


def _check_outputs(memories: Mapping[str, SimulatedMemory], findings: FindingList) -> None:
    for name, memory in memories.items():
        if memory.memory.space == "counter" and memory.data.any():
            text = f"At the end, @{name} is {memory.data[memory.data != 0][0]}, and not 0 for the next launch."
            findings.add("counter-left", None, lambda text=text: text)
        _check_gaps(name, memory, findings)
        if memory.shadow is None or memory.given or memory.shadow.written.all():
            continue
        missing = ~memory.shadow.written
        if memory.places is not None:
            missing[np.setdiff1d(np.arange(len(missing)), memory.places)] = False
            if not missing.any():
                continue
        first = [*memory.coordinate_of(int(np.argmax(missing)))]
        findings.add(
            "unwritten-output",
            None,
            lambda n=name, f=first: f"No workgroup writes element {f} of output @{n}.",
            count=int(missing.sum()),
        )

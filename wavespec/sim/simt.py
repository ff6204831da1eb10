"""A thread-level kernel and its tensors in, results and findings out: all lanes of a workgroup run together.

The waves run in lock-step, yet the shadow memory reports every pair of accesses that only lock-step orders:
what is reported clean is right in any order of waves and lanes.  Loops check that control flow is uniform.

Figures of `SimulationReport.counts`, with `<verb>` one of load, store, matrix load and async store:

- the name of each operation: times issued.  ``mma`` counts once per group of lanes that issues it;
  ``barrier``, ``for``, ``async_commit`` and ``async_wait`` once per workgroup; all others once per wave;
- ``<space> <verb> bytes``: bytes of unmasked elements;
- ``<space> <verb> <width> B``: threads that made an access that wide.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from wavespec.ir.kernel import Kernel, Op
from wavespec.sim.accesses import MemoryUnit
from wavespec.sim.elements import Array, converted, numpy_dtype
from wavespec.sim.findings import FindingList, SimulationReport
from wavespec.sim.fragments import MatrixUnit, matrix_unit
from wavespec.sim.memories import SimulatedMemory, tensors_to_memories, workgroup_memories
from wavespec.sim.statistics import Statistics
from wavespec.sim.symbols import SymbolValues, outside_range
from wavespec.targets.machine import Machine

_PER_WORKGROUP = ("mma", "barrier", "for", "async_commit", "async_wait")


def simulate(
    kernel: Kernel,
    machine: Machine,
    tensors: Mapping[str, Array],
    sizes: Mapping[str, int],
    *,
    workgroups: Iterable[tuple[int, ...]] | None = None,
) -> SimulationReport:
    """Run a thread-level kernel.

    Args:
        kernel: at thread level; before or after its waves were made loops.
        machine: the row of its target, for matrix instructions and shared memory.
        tensors: every input, and outputs whose old content matters, by memory name; never written to.
            bf16 is the numpy type of ``ml_dtypes``.
        sizes: the value of every dim.
        workgroups: the ids to run, one number per grid axis; the whole grid where left out.

    Raises:
        ValueError: tensors or sizes do not fit the kernel; it uses an unknown operation or matrix
            instruction.
    """
    if kernel.level != "thread":
        raise ValueError(f"kernel '{kernel.name}' is at {kernel.level} level, the simulator runs thread level")
    for known in kernel.symbols:
        name = known.args[0]
        if name in sizes and outside_range(known, sizes[name]):
            raise ValueError(f"size {name} = {sizes[name]} is outside what the kernel was compiled for: {known.args}")
    grid = tuple(int(extent.evaluate(sizes)) for extent in kernel.grid)
    findings, statistics = FindingList(kernel), Statistics(machine, kernel.lanes)
    tensor_memories = tensors_to_memories(kernel, tensors, sizes)
    units: dict[str, MatrixUnit] = {}
    epoch = 1
    everything = itertools.product(*(range(extent) for extent in grid))
    for workgroup in workgroups if workgroups is not None else everything:
        number = sum(index * int(np.prod(grid[:axis])) for axis, index in enumerate(workgroup))
        memories = {**tensor_memories, **workgroup_memories(kernel, sizes)}
        symbols = SymbolValues(kernel, sizes, tuple(workgroup))
        memory_unit = MemoryUnit(kernel, machine, memories, findings, statistics, symbols, number, epoch)
        _Workgroup(kernel, machine, symbols, memory_unit, findings, statistics, units).run()
        epoch = memory_unit.epoch + 1
        statistics.measure_banks = False
    if workgroups is None:
        _check_outputs(tensor_memories, findings)
    results = {name: memory.data.reshape(memory.shape) for name, memory in tensor_memories.items()}
    return SimulationReport(results, findings.in_order(), dict(statistics.counts), statistics.bank_conflicts())


def _check_outputs(memories: Mapping[str, SimulatedMemory], findings: FindingList) -> None:
    for name, memory in memories.items():
        if memory.shadow is None or memory.given or memory.shadow.written.all():
            continue
        missing = ~memory.shadow.written
        first = [int(part) for part in np.unravel_index(int(np.argmax(missing)), memory.shape)]
        findings.add(
            "unwritten-output",
            None,
            lambda n=name, f=first: f"No workgroup writes element {f} of output @{n}.",
            count=int(missing.sum()),
        )


class _Stopped(Exception):
    """The workgroup cannot go on; the finding says why."""


class _Workgroup:
    """Executes the operations of one workgroup; a value is an array ``[threads, elements]``."""

    def __init__(
        self,
        kernel: Kernel,
        machine: Machine,
        symbols: SymbolValues,
        memory: MemoryUnit,
        findings: FindingList,
        statistics: Statistics,
        units: dict[str, MatrixUnit],
    ) -> None:
        self.kernel, self.machine, self.symbols, self.memory = kernel, machine, symbols, memory
        self.findings, self.counts, self.units = findings, statistics.counts, units
        self.values: dict[str, Array] = {}
        self.declared = {known.args[0]: known for known in kernel.symbols}

    def run(self) -> None:
        for name, value in self.symbols.values.items():
            self._check_symbol(None, name, value)
        try:
            self._run(self.kernel.body)
        except _Stopped:
            return

    def _run(self, ops: Iterable[Op]) -> None:
        for op in ops:
            self.counts[op.name] += 1 if op.name in _PER_WORKGROUP else self.kernel.wave_count
            self._execute(op)

    def _execute(self, op: Op) -> None:
        operands = [self.values[value.name] for value in op.operands]
        match op.name:
            case "constant":
                kind = op.result.vector
                shape = (self.symbols.threads, kind.elements)
                self._define(op, np.full(shape, converted(np.asarray(op["value"]), kind.dtype)))
            case "load":
                self._define(op, self.memory.load(op))
            case "store":
                self.memory.store(op, operands[0])
            case "accumulate":
                self.memory.accumulate(op, operands[0])
            case "prefetch":
                pass
            case "load_tile":
                self._define(op, self.memory.load_tile(op))
            case "load_matrix":
                self._define(op, self.memory.load_matrix(op))
            case "copy_async":
                self.memory.copy_async(op)
            case "async_commit":
                self.memory.commit()
            case "async_wait":
                self.memory.wait(int(op["pending"]))
            case "barrier":
                self.memory.barrier()
            case "mma":
                self._mma(op, *operands)
            case "pack":
                self._define(op, np.concatenate(operands, axis=1))
            case "slice":
                self._define(op, operands[0][:, op["start"] : op["start"] + op["size"]])
            case "transpose":
                blocks = operands[0].reshape(-1, op["rows"], op["columns"], op["unit"])
                self._define(op, blocks.swapaxes(1, 2).reshape(operands[0].shape))
            case "cast":
                self._define(op, converted(operands[0], op.result.vector.dtype))
            case "for":
                self._for(op, operands)
            case _:
                raise ValueError(f"the simulator does not know the operation '{op.name}' ({op.span})")

    def _define(self, op: Op, values: Array) -> None:
        kind = op.result.vector
        expected = (self.symbols.threads, kind.elements)
        if values.shape != expected or values.dtype != numpy_dtype(kind.dtype):
            made = f"{values.dtype} x {values.shape[1:]}"
            raise ValueError(f"'{op.name}' makes {made} but %{op.result.name} is {kind} ({op.span})")
        self.values[op.result.name] = values

    def _mma(self, op: Op, a: Array, b: Array, acc: Array) -> None:
        name: str = op["instruction"]
        if name not in self.units:
            self.units[name] = matrix_unit(self.machine, name)
        unit = self.units[name]
        self.counts["mma"] += self.symbols.threads // unit.instruction.lanes - 1
        result, wrong = unit.run(a, b, acc)
        if wrong:
            self.findings.add(
                "replica-mismatch",
                op,
                lambda: f"Lanes that hold the same element of an operand of '{name}' hold different values.",
                count=wrong,
            )
        self._define(op, result)

    def _for(self, op: Op, carried: list[Array]) -> None:
        induction: str = op["induction"]
        lower, upper, step = (self.symbols.per_thread(op[name]) for name in ("lower", "upper", "step"))
        trips = np.maximum(0, -((lower - upper) // step))
        if (trips != trips[0]).any():
            self.findings.add(
                "non-uniform-loop",
                op,
                lambda: f"Loop '{induction}' runs {trips.min()} times in one lane and {trips.max()} in another.",
            )
            raise _Stopped
        uniform = bool((lower == lower[0]).all() and (step == step[0]).all())
        self.symbols.open_loop(induction)
        for trip in range(int(trips[0])):
            value: Any = int(lower[0]) + trip * int(step[0]) if uniform else lower + trip * step
            self._check_symbol(op, induction, value)
            self.symbols.set_induction(induction, value)
            self.values.update((a.name, v) for a, v in zip(op.body.arguments, carried, strict=True))
            self._run(op.body.ops)
            carried = [self.values[value.name] for value in op.body.yields]
        self.symbols.close_loop(induction)
        self.values.update((r.name, v) for r, v in zip(op.results, carried, strict=True))

    def _check_symbol(self, op: Op | None, name: str, value: Any) -> None:
        known = self.declared.get(name)
        if known is None or not outside_range(known, value):
            return
        _, low, high, divisor = known.args
        declared = f"{low}..{'' if high is None else high} by {divisor}"
        self.findings.add(
            "symbol-range",
            op,
            lambda: f"'{name}' reaches {np.min(value)}..{np.max(value)}, declared as {declared}.",
        )

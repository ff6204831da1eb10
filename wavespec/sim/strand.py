"""Operations in, registers out: what lanes that run in step do, all of a workgroup or one wave of it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from wavespec.ir.dispatch import methods_of
from wavespec.ir.expr import Expr, as_expr, const
from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.thread_ops import THREAD_OPS
from wavespec.sim.accesses import MemoryUnit
from wavespec.sim.bulk import BulkUnit
from wavespec.sim.elements import Array, Integers, some
from wavespec.sim.interleaving import Course, Meetings, Wait
from wavespec.sim.products import ProductUnit
from wavespec.sim.signals import Signal
from wavespec.sim.steps import Program, Step
from wavespec.sim.stops import StopAt
from wavespec.sim.symbols import SymbolValues, outside_range
from wavespec.sim.workgroup import Workgroup
from wavespec.targets.machine import Machine


class Stopped(Exception):
    """The workgroup cannot go on; the finding says why."""


class Strand:
    """Executes the operations of lanes that run in step; a value is an array ``[threads, elements]``."""

    def __init__(
        self,
        workgroup: Workgroup,
        symbols: SymbolValues,
        meetings: Meetings,
        program: Program,
        stop_at: StopAt | None = None,
    ) -> None:
        self.stop_at = stop_at
        self.workgroup, self.symbols, self.meetings, self.program = workgroup, symbols, meetings, program
        self.kernel, self.clocks, self.findings = workgroup.kernel, workgroup.clocks, workgroup.findings
        self.counts = workgroup.statistics.counts
        self.wave = symbols.first // self.kernel.lanes
        self.memory = MemoryUnit(workgroup, symbols)
        self.bulk = BulkUnit(self.memory)
        self.products = ProductUnit(self.memory, program.tiles)
        self.values: dict[str, Array] = {}
        self.declared = {known.args[0]: known for known in self.kernel.symbols}

    @property
    def name(self) -> str:
        """Words for its wave."""
        return f"wave {self.wave} of workgroup {self.workgroup.number}"

    def run(self) -> Course:
        """All of the kernel; hands out what it has to wait for."""
        for name, value in self.symbols.values.items():
            self._check_symbol(None, name, value)
        yield from self._block(self.kernel.body)

    def _block(self, ops: tuple[Op, ...], asked: Expr | None = None) -> Generator[Wait, None, bool]:
        """Runs operations; returns whether ``asked`` is not 0 behind the last of them."""
        opened, values, symbols = 0, self.values, self.symbols
        for step in self.program.block(ops):
            op, form = step.op, step.form
            self.clocks.step()
            if form.by_all_lanes and not self.memory.everybody:
                text = f"Only some lanes of wave {self.wave} execute '{op.name}', which takes all of them."
                self.findings.add("divergent-operation", op, lambda text=text: text)
            if form.waits_for_products:
                self.products.check_complete(op)
            if form.issues:
                self.counts[op.name] += form.issues
            if form.value is not None:
                self._define(step, form.value(op, [values[name] for name in step.operands], symbols))
            else:
                outcome: Course | Array | None = form.method(self, op)
                if isinstance(outcome, np.ndarray):
                    self._define(step, outcome)
                elif outcome is not None:
                    yield from outcome
            if self.stop_at is not None and self._stops(op, self.stop_at):
                yield Wait(op, lambda: False, lambda: "where it is to stop", is_stop=True)
            opened += form.opens_symbol
        answer = asked is None or self._holds(asked)
        for _ in range(opened):
            symbols.close()
        return answer

    def _define(self, step: Step, values: Array) -> None:
        """Put what an operation made where its result is."""
        op = step.op
        if values.shape != step.shape or values.dtype != step.dtype:
            made = f"{values.dtype} x {values.shape[1:]}"
            raise ValueError(f"'{op.name}' makes {made} but %{op.result.name} is {op.result.vector} ({op.span})")
        self.values[op.results[0].name] = values
        if step.form.writes_registers:
            self.products.wrote(op.results[0])

    def _stops(self, op: Op, stop_at: StopAt) -> bool:
        memory = self.memory
        return stop_at.reached(op, self.workgroup.number, self.symbols, self.values, memory.memories, memory.enabled)

    def _holds(self, asked: Expr) -> bool:
        return bool(self.symbols.per_thread(asked)[self.memory.enabled].all())

    def _waves_of(self, op: Op) -> range:
        """The waves that ``first`` and ``waves`` of an operation name; all of the workgroup where they are absent."""
        if op.get("waves") is None:
            return range(self.kernel.threads // self.kernel.lanes)
        first = int(self.symbols.per_thread(as_expr(op["first"]))[0])
        return range(first, first + int(op["waves"]))

    def _operands(self, op: Op) -> list[Array]:
        return [self.values[value.name] for value in op.operands]

    # ------------------------------------------------------------ control: what an operation waits for, if anything

    def _let(self, op: Op) -> None:
        value = self.symbols.value(op["value"])
        self._check_symbol(op, op["symbol"], value[self.memory.enabled] if isinstance(value, np.ndarray) else value)
        self.symbols.open(op["symbol"], value)

    def _bind(self, op: Op) -> None:
        value = self._operands(op)[0][:, 0].astype(np.int64)
        taking_part = value[self.memory.enabled]
        if op.get("of_any"):
            value, taking_part = np.full_like(value, taking_part.any()), np.asarray([taking_part.any()], value.dtype)
        self._check_symbol(op, op["symbol"], taking_part)
        if op.get("uniform") and (taking_part != taking_part[0]).any():
            self.findings.add("non-uniform-loop", op, lambda: f"'{op['symbol']}' is not the same in all lanes.")
            raise Stopped
        self.symbols.open(op["symbol"], value)

    def _role(self, op: Op) -> Course | None:
        return self._run(op.body.ops) if self.wave in self._waves_of(op) else None

    def _run(self, ops: tuple[Op, ...]) -> Course:
        yield from self._block(ops)

    def _if(self, op: Op) -> Course:
        before = self.memory.enabled
        self.memory.enable(self.memory.holds(op["mask"]))
        if some(self.memory.enabled):
            yield from self._block(op.body.ops)
        self.memory.enable(before)

    def _for(self, op: Op) -> Course:
        induction: str = op["induction"]
        lower, upper, step = (self.symbols.per_thread(op[name]) for name in ("lower", "upper", "step"))
        trips = np.maximum(0, -((lower - upper) // step))[self.memory.enabled]
        if (trips != trips[0]).any():
            self.findings.add(
                "non-uniform-loop",
                op,
                lambda: f"Loop '{induction}' runs {trips.min()} times in one lane and {trips.max()} in another.",
            )
            raise Stopped
        uniform = bool((lower == lower[0]).all() and (step == step[0]).all())
        carried, asked = op.operands, op.get("goes_on")
        goes_on = asked is None or self._holds(asked)
        self.symbols.open(induction)
        for trip in range(int(trips[0])):
            if not goes_on:
                break
            value: Any = int(lower[0]) + trip * int(step[0]) if uniform else lower + trip * step
            self._check_symbol(op, induction, value if uniform else value[self.memory.enabled])
            self.symbols.set(induction, value)
            self._rename(carried, op.body.arguments)
            goes_on = yield from self._block(op.body.ops, asked)
            carried = op.body.yields
        self.symbols.close()
        self._rename(carried, op.results)

    def _barrier(self, op: Op) -> Course:
        if self.symbols.threads == self.kernel.threads:
            self.counts["barrier"] += 1
            self.clocks.barrier(self.memory.lanes)
            return
        waves = frozenset(self._waves_of(op))
        if self.wave not in waves:
            raise ValueError(f"wave {self.wave} is at a barrier of the waves {sorted(waves)} ({op.span})")
        yield self.meetings.come(op, self.wave, waves)

    def _stagger(self, op: Op) -> Course:
        """The half of the waves that falls behind, or catches up, waits for one barrier more."""
        waves = self.kernel.threads // self.kernel.lanes
        if (self.wave >= waves // 2) == bool(op["ahead"]):
            yield self.meetings.come(op, self.wave, frozenset(range(waves)))

    def _signal_wait(self, op: Op) -> Course:
        for index, parity, lanes in self._signals(op, op["phase"]):
            signal = self.workgroup.signals[op["signal"]][index]

            def over(signal: Signal = signal, parity: int = parity, lanes: Integers = lanes) -> bool:
                return signal.passes(lanes, parity)

            def words(signal: Signal = signal, parity: int = parity) -> str:
                return f"for a phase of parity {parity} ({signal.state()})"

            yield Wait(op, over, words)
            self.clocks.step()
            signal.acquire(op, lanes, parity)
            if op.get("landed"):
                self.clocks.see_landed(lanes)

    def _signals(self, op: Op, phase: Expr) -> Iterator[tuple[int, int, Integers]]:
        """Index and parity of each signal that lanes name, and those lanes."""
        index, parity = self.symbols.value(op["index"]), self.symbols.value(phase)
        enabled = self.memory.enabled
        if isinstance(index, int) and isinstance(parity, int):
            named = [(index, parity)]
        else:
            index, parity = self.symbols.per_thread(op["index"]), self.symbols.per_thread(phase)
            named = sorted({(int(i), int(p)) for i, p in zip(index[enabled], parity[enabled], strict=True)})
        for number, wanted in named:
            if not 0 <= number < len(self.workgroup.signals[op["signal"]]) or wanted not in (0, 1):
                text = f"'{op.name}' names phase {wanted} of @{op['signal']}[{number}]."
                self.findings.add("out-of-bounds", op, lambda text=text: text)
                raise Stopped
            yield number, wanted, self.memory.lanes[enabled & (index == number) & (parity == wanted)]

    # --------------------------------------------------------------------------------------------------------- memory

    def _load(self, op: Op) -> Array:
        return self.memory.load(op)

    def _store(self, op: Op) -> None:
        self.memory.store(op, *self._operands(op))

    def _accumulate(self, op: Op) -> None:
        self.memory.accumulate(op, *self._operands(op))

    def _atomic(self, op: Op) -> Array | None:
        old = self.memory.combine(op, *self._operands(op))
        return old if op.results else None

    def _load_tile(self, op: Op) -> Array:
        return self.memory.load_tile(op)

    def _load_matrix(self, op: Op) -> Array:
        return self.memory.load_matrix(op)

    def _store_matrix(self, op: Op) -> None:
        self.memory.store_matrix(op, *self._operands(op))

    def _copy_async(self, op: Op) -> None:
        self.memory.copy_async(op)

    def _async_commit(self, op: Op) -> None:
        self.memory.commit()

    def _async_wait(self, op: Op) -> None:
        self.memory.wait(op["pending"])

    def _bulk_copy(self, op: Op) -> None:
        self.bulk.copy(op)

    def _send(self, op: Op) -> None:
        (values,) = self._operands(op)
        self.bulk.send(op, values)

    def _bulk_store(self, op: Op) -> None:
        self.bulk.store(op)

    def _bulk_commit(self, op: Op) -> None:
        self.bulk.commit()

    def _bulk_wait(self, op: Op) -> None:
        self.bulk.wait(op["pending"])

    def _signal_arrive(self, op: Op) -> None:
        if op.get("landed"):
            self.memory.land()
        for index, _, lanes in self._signals(op, const(0)):
            for workgroup, own in self._receivers(op, lanes):
                workgroup.signals[op["signal"]][index].arrive(op, own, op["bytes"])

    def _receivers(self, op: Op, lanes: Integers) -> Iterator[tuple[Workgroup, Integers]]:
        """The workgroups on whose signals lanes arrive, each with these lanes."""
        if op.get("receiver") is None:
            yield from ((one, lanes) for one in (self.workgroup.cluster if op.get("everywhere") else [self.workgroup]))
            return
        numbers = self.symbols.per_thread(op["receiver"])[np.isin(self.memory.lanes, lanes)]
        for number in sorted(set(numbers.tolist())):
            yield self.workgroup.cluster[number], lanes[numbers == number]

    def _fence_async(self, op: Op) -> None:
        self.clocks.fence(self.memory.lanes[self.memory.enabled])

    def _hint(self, op: Op) -> None:
        """What a machine may do sooner or later, with the same result."""

    _prefetch = _schedule_fence = _schedule_group = _priority = _hint

    # ------------------------------------------------------------------------------------------------------- products

    def _mma(self, op: Op) -> Array:
        unit = self.program.unit(op)
        self.counts["mma"] += self.symbols.threads // unit.instruction.lanes - 1
        a, b, acc = self._operands(op)
        return self._product(op, *unit.run(a, b, acc))

    def _mma_async(self, op: Op) -> Array:
        *registers, acc = self._operands(op)
        acc = np.zeros_like(acc) if op.get("fresh") else acc
        unit = self.program.unit(op)
        return self._product(op, *self.products.multiply(op, unit, registers[0] if registers else None, acc))

    def _product(self, op: Op, result: Array, wrong: int) -> Array:
        if wrong:
            text = f"Lanes that hold the same element of an operand of '{op['instruction']}' hold different values."
            self.findings.add("replica-mismatch", op, lambda: text, count=wrong)
        return result

    def _mma_fence(self, op: Op) -> None:
        self.products.fence()

    def _mma_commit(self, op: Op) -> None:
        self.products.commit()

    def _mma_wait(self, op: Op) -> None:
        self.products.wait(op)
        self._rename(op.operands, op.results)

    def _rename(self, values: tuple[Value, ...], names: tuple[Value, ...]) -> None:
        """The same registers under other names."""
        registers = [self.values[value.name] for value in values]
        self.values.update((name.name, held) for name, held in zip(names, registers, strict=True))
        self.products.rename(values, names)

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


def _unknown(strand: Strand, op: Op) -> None:
    raise ValueError(f"the simulator does not know the operation '{op.name}' ({op.span})")


def program_of(kernel: Kernel, machine: Machine, strand_lanes: int) -> Program:
    """A kernel for strands of so many lanes."""
    return Program(kernel, machine, strand_lanes, methods_of(Strand, THREAD_OPS), _unknown)

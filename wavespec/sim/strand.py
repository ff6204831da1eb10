"""Operations in, registers out: what lanes that run in step do, all of a workgroup or one wave of it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any

import numpy as np

from wavespec.ir.declarations import Trait
from wavespec.ir.expr import Expr, as_expr, const
from wavespec.ir.kernel import Op, Value
from wavespec.ir.thread_ops import MMA_ASYNC, THREAD_OPS
from wavespec.sim.accesses import MemoryUnit
from wavespec.sim.bulk import BulkUnit
from wavespec.sim.elements import Array, Flags, Integers, converted, elementwise, joined, numpy_dtype
from wavespec.sim.fragments import MatrixUnit, matrix_unit
from wavespec.sim.interleaving import Course, Meetings, Wait
from wavespec.sim.products import ProductUnit
from wavespec.sim.signals import Signal
from wavespec.sim.symbols import SymbolValues, outside_range
from wavespec.sim.workgroup import Workgroup

_PER_STRAND = ("mma", "for", "async_commit", "async_wait")
_BY_ALL_LANES = THREAD_OPS.having(Trait.BY_ALL_LANES)
_TAKES_RESULTS_IN_FLIGHT = frozenset(("mma_async", "mma_wait"))


class Stopped(Exception):
    """The workgroup cannot go on; the finding says why."""


class Strand:
    """Executes the operations of lanes that run in step; a value is an array ``[threads, elements]``."""

    def __init__(
        self, workgroup: Workgroup, symbols: SymbolValues, meetings: Meetings, units: dict[str, MatrixUnit]
    ) -> None:
        self.workgroup, self.symbols, self.meetings, self.units = workgroup, symbols, meetings, units
        self.kernel, self.clocks, self.findings = workgroup.kernel, workgroup.clocks, workgroup.findings
        self.counts, self.waves = workgroup.statistics.counts, symbols.threads // self.kernel.lanes
        self.wave = symbols.first // self.kernel.lanes
        self.memory = MemoryUnit(workgroup, symbols)
        self.bulk = BulkUnit(self.memory)
        self.products = ProductUnit(self.memory)
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

    def _block(self, ops: Iterable[Op], asked: Expr | None = None) -> Generator[Wait, None, bool]:
        """Runs operations; returns whether ``asked`` is not 0 behind the last of them."""
        lets = 0
        for op in ops:
            self.clocks.step()
            if op.is_(_BY_ALL_LANES) and not self.memory.enabled.all():
                text = f"Only some lanes of wave {self.wave} execute '{op.name}', which takes all of them."
                self.findings.add("divergent-operation", op, lambda text=text: text)
            match op.name:
                case "let":
                    value = self.symbols.per_thread(op["value"])
                    self._check_symbol(op, op["symbol"], value[self.memory.enabled])
                    self.symbols.open(op["symbol"], value)
                    lets += 1
                case "bind":
                    (held,) = op.operands
                    value = self.values[held.name][:, 0].astype(np.int64)
                    self._check_symbol(op, op["symbol"], value[self.memory.enabled])
                    if op.get("uniform") and (value != value[0]).any():
                        text = f"'{op['symbol']}' is not the same in all lanes."
                        self.findings.add("non-uniform-loop", op, lambda text=text: text)
                        raise Stopped
                    self.symbols.open(op["symbol"], value)
                    lets += 1
                case "role":
                    if self.wave in self._waves_of(op):
                        yield from self._block(op.body.ops)
                case "if":
                    yield from self._if(op)
                case "for":
                    self.counts[op.name] += 1
                    yield from self._for(op)
                case "barrier":
                    yield from self._barrier(op)
                case "stagger":
                    yield from self._stagger(op)
                case "signal_wait":
                    self.counts[op.name] += self.waves
                    yield from self._signal_wait(op)
                case _:
                    self.counts[op.name] += 1 if op.name in _PER_STRAND else self.waves
                    self._execute(op)
        answer = asked is None or self._holds(asked)
        for _ in range(lets):
            self.symbols.close()
        return answer

    def _holds(self, asked: Expr) -> bool:
        return bool(self.symbols.per_thread(asked)[self.memory.enabled].all())

    def _waves_of(self, op: Op) -> range:
        """The waves that ``first`` and ``waves`` of an operation name; all of the workgroup where they are absent."""
        if op.get("waves") is None:
            return range(self.kernel.threads // self.kernel.lanes)
        first = int(self.symbols.per_thread(as_expr(op["first"]))[0])
        return range(first, first + int(op["waves"]))

    def _if(self, op: Op) -> Course:
        before = self.memory.enabled
        self.memory.enabled = self.memory.holds(op["mask"])
        if self.memory.enabled.any():
            yield from self._block(op.body.ops)
        self.memory.enabled = before

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

    def _signals(self, op: Op, phase: Expr) -> Iterator[tuple[int, int, Integers]]:
        """Index and parity of each signal that lanes name, and those lanes."""
        index, parity = self.symbols.per_thread(op["index"]), self.symbols.per_thread(phase)
        enabled = self.memory.enabled
        named = sorted({(int(i), int(p)) for i, p in zip(index[enabled], parity[enabled], strict=True)})
        for number, wanted in named:
            if not 0 <= number < len(self.workgroup.signals[op["signal"]]) or wanted not in (0, 1):
                text = f"'{op.name}' names phase {wanted} of @{op['signal']}[{number}]."
                self.findings.add("out-of-bounds", op, lambda text=text: text)
                raise Stopped
            yield number, wanted, self.memory.lanes[enabled & (index == number) & (parity == wanted)]

    def _execute(self, op: Op) -> None:
        operands = [self.values[value.name] for value in op.operands]
        if op.name not in _TAKES_RESULTS_IN_FLIGHT:
            self.products.check_complete(op)
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
            case "atomic":
                self.memory.combine(op, operands[0])
            case "prefetch" | "schedule_fence" | "schedule_group" | "priority":
                pass
            case "load_tile":
                self._define(op, self.memory.load_tile(op))
            case "load_matrix":
                self._define(op, self.memory.load_matrix(op))
            case "store_matrix":
                self.memory.store_matrix(op, operands[0])
            case "copy_async":
                self.memory.copy_async(op)
            case "async_commit":
                self.memory.commit()
            case "async_wait":
                self.memory.wait(int(op["pending"]))
            case "bulk_copy":
                self.bulk.copy(op)
            case "bulk_store":
                self.bulk.store(op)
            case "bulk_commit":
                self.bulk.commit()
            case "bulk_wait":
                self.bulk.wait(int(op["pending"]))
            case "signal_arrive":
                for index, _, lanes in self._signals(op, const(0)):
                    for workgroup in self.workgroup.cluster if op.get("everywhere") else [self.workgroup]:
                        workgroup.signals[op["signal"]][index].arrive(op, lanes, int(op["bytes"]))
            case "fence_async":
                self.clocks.fence(self.memory.lanes[self.memory.enabled])
            case "mma":
                self._mma(op, *operands)
            case "mma_async":
                self._mma_async(op, operands)
            case "mma_fence":
                self.products.fence()
            case "mma_commit":
                self.products.commit()
            case "mma_wait":
                self.products.wait(op)
                self._rename(op.operands, op.results)
            case "pack":
                self._define(op, np.concatenate(operands, axis=1))
            case "slice":
                self._define(op, operands[0][:, op["start"] : op["start"] + op["size"]])
            case "transpose":
                blocks = operands[0].reshape(-1, op["rows"], op["columns"], op["unit"])
                self._define(op, blocks.swapaxes(1, 2).reshape(operands[0].shape))
            case "cast":
                dtype = op.result.vector.dtype
                result = converted(operands[0], dtype)
                if bias := op.get("bias"):  # -0.0 + 0 would be another zero
                    result = result + numpy_dtype(dtype).type(bias)
                self._define(op, result)
            case "coordinates":
                places = [self.symbols.per_thread(place) for place in op["places"]]
                self._define(op, np.stack(places, axis=1).astype(numpy_dtype(op.result.vector.dtype)))
            case "bitcast":
                self._define(op, np.ascontiguousarray(operands[0]).view(numpy_dtype(op.result.vector.dtype)))
            case "broadcast":
                self._define(op, np.repeat(operands[0], op.result.vector.elements, axis=1))
            case "reduce":
                self._define(op, joined(op["function"], operands[0]))
            case "shuffle":
                lanes = np.arange(self.symbols.threads)
                self._define(op, operands[0][lanes ^ op["bits"]])
            case "pad":
                self._define(op, self._padded(op, operands[0]))
            case "elementwise":
                self._define(op, elementwise(op["function"], operands))
            case _:
                raise ValueError(f"the simulator does not know the operation '{op.name}' ({op.span})")

    def _padded(self, op: Op, values: Array) -> Array:
        steps: Integers = np.arange(values.shape[1], dtype=np.int64) * int(op["stride"])
        places = self.symbols.per_thread(op["start"])[:, None] + steps
        inside: Flags = places < self.symbols.per_thread(op["limit"])[:, None]
        return np.where(inside, values, converted(np.asarray(op["value"]), op.result.vector.dtype))

    def _define(self, op: Op, values: Array) -> None:
        kind = op.result.vector
        expected = (self.symbols.threads, kind.elements)
        if values.shape != expected or values.dtype != numpy_dtype(kind.dtype):
            made = f"{values.dtype} x {values.shape[1:]}"
            raise ValueError(f"'{op.name}' makes {made} but %{op.result.name} is {kind} ({op.span})")
        self.values[op.result.name] = values
        if not op.is_(MMA_ASYNC):
            self.products.wrote(op.result)

    def _rename(self, values: tuple[Value, ...], names: tuple[Value, ...]) -> None:
        """The same registers under other names."""
        registers = [self.values[value.name] for value in values]
        self.values.update((name.name, held) for name, held in zip(names, registers, strict=True))
        self.products.rename(values, names)

    def _mma(self, op: Op, a: Array, b: Array, acc: Array) -> None:
        unit = self._unit(op)
        self.counts["mma"] += self.symbols.threads // unit.instruction.lanes - 1
        self._define_product(op, *unit.run(a, b, acc))

    def _mma_async(self, op: Op, operands: list[Array]) -> None:
        registers = operands[0] if len(operands) == 2 else None
        self._define_product(op, *self.products.multiply(op, self._unit(op), registers, operands[-1]))

    def _unit(self, op: Op) -> MatrixUnit:
        name: str = op["instruction"]
        if name not in self.units:
            self.units[name] = matrix_unit(self.workgroup.machine, name)
        return self.units[name]

    def _define_product(self, op: Op, result: Array, wrong: int) -> None:
        if wrong:
            text = f"Lanes that hold the same element of an operand of '{op['instruction']}' hold different values."
            self.findings.add("replica-mismatch", op, lambda: text, count=wrong)
        self._define(op, result)

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

"""Quotients by one number that many elements share: its reciprocal is computed once, and each quotient corrected."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence

from wavespec.emit.elementwise import select
from wavespec.emit.function import Emitter, Function
from wavespec.emit.lane_operations import LaneOperations
from wavespec.emit.mlir_text import MlirText
from wavespec.emit.registers import Part, vector_type
from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import CAST, ELEMENTWISE

_HIDES_BITS = 16
_LEAST, _MOST, _LOWEST = 1.0, 2.0**100, -3.4028234663852886e38


class SharedDivisors(Emitter):
    """Divisions by one f32 that was broadcast: those that follow each other share one test of it, and have two forms."""

    def __init__(self, function: Function, lanes: LaneOperations) -> None:
        super().__init__(function)
        self.lanes = lanes
        self.shared: dict[str, str] = {}  # of values that repeat one f32: its name
        self.rounded = _rounded(self.kernel) if self.machine.lanes > 1 else frozenset[str]()

    def emit_broadcast(self, op: Op) -> None:
        self.lanes.emit_broadcast(op)
        if op.result.vector.dtype.name == "f32" and op.result.vector.elements > 1:
            self.shared[op.result.name] = self.function.whole(op.operands[0])

    def emit_slice(self, op: Op) -> None:
        self.lanes.emit_slice(op)
        if (name := self.shared.get(op.operands[0].name)) is not None:
            self.shared[op.result.name] = name

    def run(self, ops: Sequence[Op], start: int) -> int:
        stop = start
        while stop < len(ops) and self._is_one(ops[stop]) and ops[stop].operands[1] == ops[start].operands[1]:
            stop += 1
        if stop > start:
            self._quotients(ops[start:stop])
        return stop

    def _is_one(self, op: Op) -> bool:
        is_one = op.is_(ELEMENTWISE) and op["function"] == "div" and op.operands[1].name in self.shared
        return is_one and self.machine.fused_steps  # which quotients are corrected by

    def _quotients(self, ops: Sequence[Op]) -> None:
        divisor = ops[0].operands[1]
        hides = all(op.result.name in self.rounded for op in ops)
        sizes = self.lanes.native_sizes(divisor.vector.dtype, divisor.vector.elements)

        def form(divided: Callable[[str, str, int], str]) -> list[str]:
            by = self.function.parts(divisor, sizes)
            pairs = [pair for op in ops for pair in zip(self.function.parts(op.operands[0], sizes), by, strict=True)]
            return [divided(part.name, other.name, part.size) for part, other in pairs]

        def corrected(name: str, by: str, size: int) -> str:
            return (product_of_reciprocal if hides else quotient)(self.text, name, by, size)

        def plain(name: str, by: str, size: int) -> str:
            return self.text.op(f"arith.divf {name}, {by} : {vector_type(divisor.vector.dtype, size)}")

        types = [vector_type(divisor.vector.dtype, size) for _ in ops for size in sizes]
        condition = is_moderate(self.text, self.shared[divisor.name])
        result = self.function.either(condition, lambda: form(corrected), lambda: form(plain), types)
        names = (Part(f"{result}#{number}", size) for number, size in enumerate(sizes * len(ops)))
        for op in ops:
            self.values[op.result.name] = tuple(itertools.islice(names, len(sizes)))


def is_moderate(text: MlirText, divisor: str) -> str:
    """Whether `quotient` may take an f32 for a divisor: no quotient is larger than what is divided, and the reciprocal is
    a normal number."""
    least = text.op(f"arith.cmpf ole, {text.constant(_LEAST, 'f32')}, {divisor} : f32")
    most = text.op(f"arith.cmpf ole, {divisor}, {text.constant(_MOST, 'f32')} : f32")
    return text.op(f"arith.andi {least}, {most} : i1")


def _rounded(kernel: Kernel) -> frozenset[str]:
    """Values that all who take them round to 16 bits or fewer, which hides what a quotient is off by in its last
    places."""
    uses, hidden = Counter[str](), Counter[str]()
    for op in kernel.walk():
        uses.update(value.name for value in (*op.operands, *(op.region.yields if op.region else ())))
        if op.is_(CAST) and op.result.vector.dtype.is_float and op.result.vector.dtype.bits <= _HIDES_BITS:
            hidden[op.operands[0].name] += 1
    return frozenset(name for name, count in hidden.items() if count == uses[name])


def product_of_reciprocal(text: MlirText, name: str, divisor: str, size: int) -> str:
    """``size`` elements of f32 by a moderate divisor, off by two units of their last place at most."""
    type_ = vector_type(DTYPES["f32"], size)
    reciprocal = text.op(f"arith.divf {text.constant(1.0, type_)}, {divisor} : {type_}")
    return text.op(f"arith.mulf {name}, {reciprocal} : {type_}")


def quotient(text: MlirText, name: str, divisor: str, size: int) -> str:
    """``size`` elements of f32 by a moderate divisor, as division rounds them.

    With ``r`` the rounded reciprocal of ``d``, ``q = x · r`` is off by an ulp at most, ``e = q · d - x`` is exact, and
    ``q - e · r`` is the rounded quotient: Markstein, "Computation of elementary functions on the IBM RISC System/6000
    processor" (1990).  Of an infinite x the error is no number, and any other takes its place; of an x below 2⁻¹⁰⁴ it may
    have more bits than numbers so small, and the quotient be off by one in its last place.
    """
    type_ = vector_type(DTYPES["f32"], size)

    def minus(operand: str) -> str:
        return text.op(f"arith.negf {operand} : {type_}")

    reciprocal = text.op(f"arith.divf {text.constant(1.0, type_)}, {divisor} : {type_}")
    near = text.op(f"arith.mulf {name}, {reciprocal} : {type_}")
    error = text.op(f"math.fma {near}, {divisor}, {minus(name)} : {type_}")
    lowest = text.constant(_LOWEST, type_)
    larger = text.op(f"arith.cmpf ogt, {error}, {lowest} : {type_}")
    error = select(text, larger, error, lowest, vector_type(DTYPES["bool"], size), type_)
    return text.op(f"math.fma {error}, {minus(reciprocal)}, {near} : {type_}")

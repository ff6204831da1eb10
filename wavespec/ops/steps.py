"""Steps of arithmetic in, operations of one lane out: what the functions of elementwise ops are written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.kernel import Value
from wavespec.ir.thread import ThreadBuilder
from wavespec.targets.machine import Machine

Operand = Value | float | int


@dataclass(frozen=True, slots=True)
class StepsOfMachine:
    """What a machine has, or is slow with, beside the steps that all have."""

    close_powers: bool = False
    """Whether its step ``exp2`` is as close as libraries for it are."""
    close_ratios: bool = False
    """Whether it has the step ``ratio``."""
    close_roots: bool = False
    """Whether it has the step ``rsqrt``."""
    scales: bool = False
    """Whether it has the step ``times_power``, of two vectors: the first times two to the power of the second, which is
    whole; 0 where that is less than -150, whatever the first is."""
    slow_subnormals: bool = False
    """Whether steps with results below the smallest normal number are better left out."""

    @staticmethod
    def of(machine: Machine) -> StepsOfMachine:
        return StepsOfMachine(
            close_powers=machine.close_powers,
            close_ratios=bool(machine.ratio),
            close_roots=bool(machine.inverse_root),
            scales=bool(machine.times_power),
            slow_subnormals=machine.slow_subnormals,
        )


OF_ALL: Final = StepsOfMachine()


class Steps:
    """Steps on ``size`` elements of one lane; a number stands for that many, of the type of the value beside it."""

    def __init__(self, build: ThreadBuilder, like: Value, hint: str, machine: StepsOfMachine = OF_ALL) -> None:
        self.build, self.hint, self.machine = build, hint, machine
        self.dtype, self.size = like.vector.dtype, like.vector.elements

    def __call__(self, function: str, *operands: Operand) -> Value:
        kinds = [operand.vector.dtype for operand in operands if isinstance(operand, Value)]
        kind = next((kind for kind in reversed(kinds) if kind.kind != "bool"), self.dtype)
        values = [operand if isinstance(operand, Value) else self.constant(operand, kind) for operand in operands]
        return self.build.elementwise(function, *values, hint=self.hint)

    def ratio(self, x: Operand, y: Operand) -> Value:
        """A quotient that may be off by two units in the last place, which takes no branch."""
        return self("ratio" if self.machine.close_ratios and self.dtype.name == "f32" else "div", x, y)

    def constant(self, number: float | int, kind: DType) -> Value:
        exact = float(number) if kind.is_float else int(number)
        return self.build.constant(exact, kind, self.size)

    def cast(self, value: Value, dtype: str) -> Value:
        return self.build.cast(value, DTYPES[dtype], self.hint)

    def bits(self, value: Value, dtype: str) -> Value:
        """The bits of a value as another type of the same size."""
        return self.build.bitcast(value, DTYPES[dtype], self.hint)

    def polynomial(self, x: Value, *coefficients: float) -> Value:
        """``Σ coefficients[i] · xⁱ``."""
        *rest, last = coefficients
        total: Operand = last
        for coefficient in reversed(rest):
            total = self("fma", total, x, coefficient)
        assert isinstance(total, Value), "a polynomial has at least two coefficients"
        return total

"""Quotients by one number that many elements share: its reciprocal is computed once, and each quotient corrected."""

from __future__ import annotations

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.registers import vector_type
from wavespec.ir.dtype import DTYPES

_LEAST, _MOST, _LOWEST = 1.0, 2.0**100, -3.4028234663852886e38


def is_moderate(text: MlirText, divisor: str) -> str:
    """Whether `quotient` may take an f32 for a divisor: no quotient is larger than what is divided, and the reciprocal is
    a normal number."""
    least = text.op(f"arith.cmpf ole, {text.constant(_LEAST, 'f32')}, {divisor} : f32")
    most = text.op(f"arith.cmpf ole, {divisor}, {text.constant(_MOST, 'f32')} : f32")
    return text.op(f"arith.andi {least}, {most} : i1")


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
    flags = vector_type(DTYPES["bool"], size)
    error = text.op(f"arith.select {larger}, {error}, {lowest} : {flags}, {type_}")
    return text.op(f"math.fma {error}, {minus(reciprocal)}, {near} : {type_}")

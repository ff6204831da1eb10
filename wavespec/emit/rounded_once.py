"""Three numbers go in, ``a · b + c``, rounded once, comes out: for machines without an instruction for it."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.emit.elementwise import select
from wavespec.emit.mlir_text import MlirText
from wavespec.emit.registers import vector_type
from wavespec.ir.dtype import DTYPES, DType

_SPLIT = 2.0**27 + 1  # an f64 times it begins with the upper half of its bits


def rounded_once(text: MlirText, names: Sequence[str], dtype: DType, size: int) -> str:
    """``size`` elements of f32, or of f64 between 2⁻⁴⁸⁰ and 2⁴⁸⁰, or zero; beyond those they may be rounded twice.

    Sums are rounded to odd: where one is not exact, the last bit of what it is cut off to is set, after which rounding
    to fewer bits is as of the sum itself: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved
    algorithms using rounding to odd" (2008).
    """
    return (_of_f32 if dtype.bits == 32 else _of_f64)(_Steps(text, size), *names)


def _of_f32(steps: _Steps, a: str, b: str, c: str) -> str:
    """In f64, where the product is exact."""
    wide = [steps.text.op(f"arith.extf {name} : {steps.f32} to {steps.f64}") for name in (a, b, c)]
    total = steps.odd(*steps.sum(steps("mulf", wide[0], wide[1]), wide[2]))
    return steps.text.op(f"arith.truncf {total} : {steps.f64} to {steps.f32}")


def _of_f64(steps: _Steps, a: str, b: str, c: str) -> str:
    """As two numbers, the product and what it lacks."""
    product = steps("mulf", a, b)
    (a_high, a_low), (b_high, b_low) = steps.halves(a), steps.halves(b)
    lacks = steps("subf", steps("mulf", a_high, b_high), product)
    for one, other in ((a_high, b_low), (a_low, b_high), (a_low, b_low)):
        lacks = steps("addf", lacks, steps("mulf", one, other))
    small, smaller = steps.sum(c, lacks)
    large, rest = steps.sum(product, small)
    result = steps("addf", large, steps.odd(*steps.sum(smaller, rest)))
    plain = steps("addf", product, c)
    # Of parts that are infinite the result is no number, and of those that cancel a zero without their sign.
    is_found = steps.text.op(f"arith.cmpf one, {result}, {steps.text.constant(0, steps.f64)} : {steps.f64}")
    return steps.select(is_found, result, plain, steps.f64)


class _Steps:
    """Steps on so many numbers of f64."""

    def __init__(self, text: MlirText, size: int) -> None:
        self.text = text
        self.f32, self.f64, self.i64, self.flags = (
            vector_type(DTYPES[name], size) for name in ("f32", "f64", "i64", "bool")
        )

    def __call__(self, verb: str, left: str, right: str, type_: str = "") -> str:
        return self.text.op(f"arith.{verb} {left}, {right} : {type_ or self.f64}")

    def sum(self, a: str, b: str) -> tuple[str, str]:
        """The rounded sum, and what it lacks: Knuth, "The Art of Computer Programming", volume 2, 4.2.2."""
        total = self("addf", a, b)
        other = self("subf", total, a)
        return total, self("addf", self("subf", a, self("subf", total, other)), self("subf", b, other))

    def halves(self, name: str) -> tuple[str, str]:
        """Two numbers of half the bits, whose sum it is: Dekker, "A floating-point technique" (1971)."""
        large = self("mulf", name, self.text.constant(_SPLIT, self.f64))
        high = self("subf", large, self("subf", large, name))
        return high, self("subf", name, high)

    def odd(self, total: str, lost: str) -> str:
        """A sum, and what it lacks, rounded to odd."""
        bits, lost_bits = (self.text.op(f"arith.bitcast {name} : {self.f64} to {self.i64}") for name in (total, lost))
        is_beyond = self("shrui", self("xori", bits, lost_bits, self.i64), self.text.constant(63, self.i64), self.i64)
        odd = self("ori", self("subi", bits, is_beyond, self.i64), self.text.constant(1, self.i64), self.i64)
        is_inexact = self.text.op(f"arith.cmpf one, {lost}, {self.text.constant(0, self.f64)} : {self.f64}")
        return self.text.op(f"arith.bitcast {self.select(is_inexact, odd, bits, self.i64)} : {self.i64} to {self.f64}")

    def select(self, condition: str, then: str, otherwise: str, type_: str) -> str:
        return select(self.text, condition, then, otherwise, self.flags, type_)

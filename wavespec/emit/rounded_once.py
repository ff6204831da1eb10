"""Three numbers of f32 go in, ``a · b + c``, rounded once, comes out: for machines without an instruction for it."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.registers import vector_type
from wavespec.ir.dtype import DTYPES


def rounded_once(text: MlirText, names: Sequence[str], size: int) -> str:
    """``size`` elements of f32, by way of f64.

    The product is exact there.  The sum is rounded to odd: where it is not exact, the last bit of what it is cut off to
    is set, after which rounding to f32 is as of the sum itself: Boldo and Melquiond, "Emulation of FMA and correctly
    rounded sums: proved algorithms using rounding to odd" (2008).
    """
    f32, f64, i64 = (vector_type(DTYPES[name], size) for name in ("f32", "f64", "i64"))
    flags = vector_type(DTYPES["bool"], size)

    def step(verb: str, left: str, right: str, type_: str = f64) -> str:
        return text.op(f"arith.{verb} {left}, {right} : {type_}")

    a, b, c = (text.op(f"arith.extf {name} : {f32} to {f64}") for name in names)
    product = step("mulf", a, b)
    total = step("addf", product, c)
    # What the sum lacks: Knuth, "The Art of Computer Programming", volume 2, 4.2.2.
    other = step("subf", total, product)
    lost = step("addf", step("subf", product, step("subf", total, other)), step("subf", c, other))
    bits, lost_bits = (text.op(f"arith.bitcast {name} : {f64} to {i64}") for name in (total, lost))
    is_beyond = step("shrui", step("xori", bits, lost_bits, i64), text.constant(63, i64), i64)  # further from zero
    odd = step("ori", step("subi", bits, is_beyond, i64), text.constant(1, i64), i64)
    is_inexact = text.op(f"arith.cmpf one, {lost}, {text.constant(0, f64)} : {f64}")  # of infinity it is NaN
    bits = text.op(f"arith.select {is_inexact}, {odd}, {bits} : {f'{flags}, ' if size > 1 else ''}{i64}")
    return text.op(f"arith.truncf {text.op(f'arith.bitcast {bits} : {i64} to {f64}')} : {f64} to {f32}")

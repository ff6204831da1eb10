"""Registers of one lane in, those of its accumulator out: NVIDIA's matrix instructions, and multiply-adds."""

from __future__ import annotations

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.registers import mlir_type
from wavespec.targets.matrix_instruction import Fragment, MatrixInstruction

_LOW_BITS = 13  # of the 23 that tf32 leaves off a significand


def word_type(row: MatrixInstruction) -> str:
    """MLIR type in which the instruction takes 32 bits of its operands."""
    return "vector<2xf16>" if row.a.dtype.name == "f16" else "i32"


def mma_sync(text: MlirText, row: MatrixInstruction, left: list[str], right: list[str], total: list[str]) -> list[str]:
    """One matrix instruction; operands in words of `word_type`, accumulators as scalars."""
    word, element = word_type(row), mlir_type(row.acc.dtype)
    operands = [*((name, word) for name in (*left, *right)), *((name, element) for name in total)]
    kind = {"i8": "s8", "f32": "tf32"}.get(row.a.dtype.name, row.a.dtype.name)
    attributes = [
        f"operandSegmentSizes = array<i32: {len(left)}, {len(right)}, {len(total)}>",
        "layoutA = #nvvm.mma_layout<row>",
        "layoutB = #nvvm.mma_layout<col>",
        f"multiplicandAPtxType = #nvvm.mma_type<{kind}>",
        f"multiplicandBPtxType = #nvvm.mma_type<{kind}>",
        f"shape = #nvvm.shape<m = {row.m}, n = {row.n}, k = {row.k}>",
    ]
    if not row.acc.dtype.is_float:
        attributes.append("intOverflowBehavior = #nvvm.mma_int_overflow<wrapped>")
    names, types = (", ".join(pair[i] for pair in operands) for i in (0, 1))
    struct = f"!llvm.struct<({', '.join([element] * len(total))})>"
    result = text.op(f'"nvvm.mma.sync"({names}) <{{{", ".join(attributes)}}}> : ({types}) -> {struct}')
    return [text.op(f"llvm.extractvalue {result}[{i}] : {struct}") for i in range(len(total))]


def mma_sync_split(
    text: MlirText, row: MatrixInstruction, left: list[str], right: list[str], total: list[str]
) -> list[str]:
    """f32 by products of high and low parts, small ones first.

    The matrix unit truncates what it adds up, hence a sum of its own per step, which a rounding addition
    takes to the total.
    """
    (high_a, low_a), (high_b, low_b) = _split(text, left), _split(text, right)
    part = [text.constant(0, "f32")] * len(total)
    for a, b in ((low_a, high_b), (high_a, low_b), (high_a, high_b)):
        part = mma_sync(text, row, a, b, part)
    return [text.op(f"arith.addf {old}, {new} : f32") for old, new in zip(total, part, strict=True)]


def _split(text: MlirText, words: list[str]) -> tuple[list[str], list[str]]:
    """f32 words to the nearest tf32, and what is left: as often below as above zero, so that what the matrix unit cuts off
    of it does not add up."""
    half, mask = text.constant(1 << (_LOW_BITS - 1), "i32"), text.constant(-(1 << _LOW_BITS), "i32")
    high: list[str] = []
    low: list[str] = []
    for word in words:
        nearest = text.op(f"arith.addi {word}, {half} : i32")
        high.append(text.op(f"arith.andi {nearest}, {mask} : i32"))
        a, b = (text.op(f"arith.bitcast {name} : i32 to f32") for name in (word, high[-1]))
        rest = text.op(f"arith.subf {a}, {b} : f32")
        low.append(text.op(f"arith.bitcast {rest} : f32 to i32"))
    return high, low


def outer_product(
    text: MlirText, row: MatrixInstruction, left: list[str], right: list[str], total: list[str]
) -> list[str]:
    """Multiply-adds of one lane: every pair of its rows and columns, k by k; all operands as scalars."""
    rows, columns, depth = _extent(row.a, "m"), _extent(row.b, "n"), _extent(row.a, "k")
    result, type_ = list(total), mlir_type(row.acc.dtype)
    for k in range(depth):
        for m in range(rows):
            for n in range(columns):
                a, b, at = left[m * depth + k], right[n * depth + k], m * columns + n
                result[at] = text.op(f"math.fma {a}, {b}, {result[at]} : {type_}")
    return result


def outer_product_of_sums(
    text: MlirText, row: MatrixInstruction, left: list[str], right: list[str], total: list[str]
) -> list[str]:
    """As `outer_product`, but the products over k are summed up from zero and then added: chains of sums are shorter by
    as much, for one more addition of each element."""
    columns, depth, type_ = _extent(row.b, "n"), _extent(row.a, "k"), mlir_type(row.acc.dtype)
    result: list[str] = []
    for at, old in enumerate(total):
        m, n = divmod(at, columns)
        part = text.op(f"arith.mulf {left[m * depth]}, {right[n * depth]} : {type_}")
        for k in range(1, depth):
            part = text.op(f"math.fma {left[m * depth + k]}, {right[n * depth + k]}, {part} : {type_}")
        result.append(text.op(f"arith.addf {old}, {part} : {type_}"))
    return result


def _extent(fragment: Fragment, dim: str) -> int:
    return next((axis.extent for axis in fragment.layout.axes if axis.stride(dim)), 1)

"""Elements of registers in other places: blocks turned, what is beyond an edge replaced, words of other lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, product

from wavespec.emit.decoded import picked
from wavespec.emit.mlir_text import MlirText
from wavespec.emit.registers import Part, Parts, mlir_type, vector_type
from wavespec.ir.dtype import DTYPES, DType


def turned(text: MlirText, name: str, dtype: DType, rows: int, columns: int, unit: int) -> Parts:
    """The transpose of a whole block, a part for each of its lines; units of several elements travel as one integer."""
    element = mlir_type(dtype) if unit == 1 else f"i{dtype.bits * unit}"
    flat, cells = vector_type(dtype, rows * columns * unit), f"vector<{rows * columns}x{element}>"
    if unit > 1:
        name = as_units(text, name, dtype, flat, cells)
    square, across = f"vector<{rows}x{columns}x{element}>", f"vector<{columns}x{rows}x{element}>"
    name = text.op(f"vector.shape_cast {name} : {cells} to {square}")
    name = text.op(f"vector.transpose {name}, [1, 0] : {square} to {across}")
    lines: list[Part] = []
    for number in range(columns):
        line = text.op(f"vector.extract {name}[{number}] : vector<{rows}x{element}> from {across}")
        if unit > 1:
            line = text.op(f"vector.bitcast {line} : vector<{rows}x{element}> to {vector_type(dtype, rows * unit)}")
        lines.append(Part(line, rows * unit))
    return tuple(lines)


_WORD = 4
_PAIRS = (0x5140, 0x7362)
"""Of two words, their first halves byte by byte in turn, and their second ones."""
_HALVES = (0x5410, 0x7632)
"""The first halves of two words, and their second ones."""


def bytes_turned(text: MlirText, parts: Parts, rows: int, columns: int) -> Parts:
    """The transpose of a block of bytes, a part for each of its lines, on machines that pick four bytes of two words by
    one instruction: eight of them for four words of a square.

    Args:
        parts: the rows, of ``columns`` bytes each. Both numbers are multiples of four.
    """
    words = [_words_of(text, part.name, columns) for part in parts]
    lines = [[""] * (rows // _WORD) for _ in range(columns)]
    for down, across in product(range(rows // _WORD), range(columns // _WORD)):
        square = [words[down * _WORD + row][across] for row in range(_WORD)]
        for number, word in enumerate(_square_turned(text, square)):
            lines[across * _WORD + number][down] = word
    type_ = f"vector<{rows // _WORD}xi32>"
    made = (text.op(f"vector.from_elements {', '.join(line)} : {type_}") for line in lines)
    return tuple(Part(text.op(f"llvm.bitcast {line} : {type_} to vector<{rows}xi8>"), rows) for line in made)


def _words_of(text: MlirText, name: str, count: int) -> list[str]:
    type_ = f"vector<{count // _WORD}xi32>"
    whole = text.op(f"llvm.bitcast {name} : vector<{count}xi8> to {type_}")
    return [text.op(f"vector.extract {whole}[{number}] : i32 from {type_}") for number in range(count // _WORD)]


def _square_turned(text: MlirText, words: Sequence[str]) -> Iterator[str]:
    """Four words, each of the bytes at one place in all of them."""
    first, second, third, fourth = words
    for pair in (text.constant(places, "i32") for places in _PAIRS):
        low, high = picked(text, first, second, pair), picked(text, third, fourth, pair)
        yield from (picked(text, low, high, text.constant(half, "i32")) for half in _HALVES)


def as_units(text: MlirText, name: str, dtype: DType, flat: str, cells: str) -> str:
    """A vector whose type is ``flat``, of elements of ``dtype``, as one of larger integers, ``cells``."""
    cast = "llvm.bitcast" if dtype.bits == 8 else "vector.bitcast"  # what was truncated: see `MaskedWords`
    return text.op(f"{cast} {name} : {flat} to {cells}")


def padded(
    text: MlirText, parts: Iterable[Part], dtype: DType, start: str, limit: str, stride: int, value: float
) -> Parts:
    """``value`` in place of elements whose place, ``start`` and ``stride`` on for each, is not below ``limit``."""
    made: list[Part] = []
    first = 0
    for part in parts:
        word, flags = vector_type(DTYPES["i32"], part.size), vector_type(DTYPES["bool"], part.size)
        places = [text.constant(at * stride, "i32") for at in range(first, first + part.size)]
        if part.size == 1:
            at, end = text.op(f"arith.addi {start}, {places[0]} : i32"), limit
        else:
            steps = text.op(f"vector.from_elements {', '.join(places)} : {word}")
            at = text.op(f"vector.broadcast {start} : i32 to {word}")
            at = text.op(f"arith.addi {at}, {steps} : {word}")
            end = text.op(f"vector.broadcast {limit} : i32 to {word}")
        inside = text.op(f"arith.cmpi slt, {at}, {end} : {word}")
        type_ = vector_type(dtype, part.size)
        other = text.constant(value, type_)
        name = text.op(f"arith.select {inside}, {part.name}, {other} : {flags}, {type_}")
        made.append(Part(name, part.size))
        first += part.size
    return tuple(made)


def window(text: MlirText, name: str, dtype: DType, elements: int, size: int, start: str) -> str:
    """``size`` elements from the ``start``-th on, an ``i32`` of at most as many as there are more: words of 32 bits are
    halved away until one more than needed is left, and each two neighbours are shifted into one.

    Args:
        size: elements that fill whole words; of ``elements`` there are more by a power of two of words, at most twice.
    """
    words, wanted = (count * dtype.bits // 32 for count in (elements, size))
    whole, most = vector_type(dtype, elements), f"vector<{words}xi32>"
    name = text.op(f"llvm.bitcast {name} : {whole} to {most}")
    parts = [text.op(f"vector.extract {name}[{at}] : i32 from {most}") for at in range(words)]
    bits = text.op(f"arith.muli {start}, {text.constant(dtype.bits, 'i32')} : i32")
    step, rest = words - wanted, 1 if dtype.bits < 32 else 0
    while step > 1:
        step //= 2
        left = wanted + step - 1 + rest
        bit = text.op(f"arith.andi {bits}, {text.constant(32 * step, 'i32')} : i32")
        is_set = text.op(f"arith.cmpi ne, {bit}, {text.constant(0, 'i32')} : i32")
        parts = [
            text.op(f"arith.select {is_set}, {behind}, {part} : i32")
            for part, behind in zip(parts[:left], parts[step:], strict=False)
        ]
    if rest:
        parts = [
            text.op(f"llvm.intr.fshr({high}, {low}, {bits}) : (i32, i32, i32) -> i32") for low, high in pairwise(parts)
        ]
    made = text.op(f"vector.from_elements {', '.join(parts)} : vector<{wanted}xi32>")
    return text.op(f"llvm.bitcast {made} : vector<{wanted}xi32> to {vector_type(dtype, size)}")


def moved_by_words(text: MlirText, name: str, dtype: DType, move: Callable[[str], str]) -> str:
    """One element, moved as words of 32 bits: smaller elements travel in one of their own, larger ones in several."""
    type_, bits = mlir_type(dtype), dtype.bits
    pair, small = f"vector<{bits // 32}xi32>", f"i{bits}"
    if bits > 32:
        whole = text.op(f"llvm.bitcast {name} : {type_} to {pair}")
        words = [text.op(f"vector.extract {whole}[{i}] : i32 from {pair}") for i in range(bits // 32)]
        words = [move(word) for word in words]
        name = text.op(f"vector.from_elements {', '.join(words)} : {pair}")
        return text.op(f"llvm.bitcast {name} : {pair} to {type_}")
    word = name if type_ == small else text.op(f"llvm.bitcast {name} : {type_} to {small}")
    word = word if bits == 32 else text.op(f"arith.extui {word} : {small} to i32")
    name = move(word)
    name = name if bits == 32 else text.op(f"arith.trunci {name} : i32 to {small}")
    return name if type_ == small else text.op(f"llvm.bitcast {name} : {small} to {type_}")

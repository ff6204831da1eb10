"""Registers of one lane as SSA values: a value is a list of parts, cut and joined only where an operation wants it
so."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from wavespec.emit.mlir_text import MlirText
from wavespec.ir.dtype import DType


class Part(NamedTuple):
    """``size`` elements in one SSA value: a scalar for 1, else a vector."""

    name: str
    size: int


Parts = tuple[Part, ...]


@cache
def vector_type(dtype: DType, size: int) -> str:
    """MLIR type of ``size`` elements."""
    word = mlir_type(dtype)
    return word if size == 1 else f"vector<{size}x{word}>"


@cache
def mlir_type(dtype: DType) -> str:
    """MLIR type of one element; what has less than 16 bits is a byte for LLVM, whatever it means."""
    return "i8" if 1 < dtype.bits <= 8 else "i1" if dtype.kind == "bool" else dtype.name


def resized(text: MlirText, parts: Parts, dtype: DType, sizes: Sequence[int]) -> Parts:
    """The same registers in parts of the given sizes, whose sum is the number of registers."""
    if [part.size for part in parts] == list(sizes):
        return parts
    result: list[Part] = []
    waiting: list[tuple[Part, int, int]] = []  # part, first element, elements
    source = iter(parts)
    part, used = next(source), 0
    for size in sizes:
        have = 0
        waiting.clear()
        while have < size:
            if used == part.size:
                part, used = next(source), 0
            take = min(size - have, part.size - used)
            waiting.append((part, used, take))
            used, have = used + take, have + take
        result.append(_joined(text, waiting, dtype, size))
    return tuple(result)


def sliced(text: MlirText, parts: Parts, dtype: DType, start: int, size: int) -> Part:
    """``size`` of the registers from ``start`` on, as one part; the others are left as they are."""
    pieces: list[tuple[Part, int, int]] = []  # part, first element, elements
    at = 0
    for part in parts:
        end = at + part.size
        if end > start:
            first, last = max(start, at), min(start + size, end)
            pieces.append((part, first - at, last - first))
        at = end
        if at >= start + size:
            break
    return _joined(text, pieces, dtype, size)


def _joined(text: MlirText, pieces: list[tuple[Part, int, int]], dtype: DType, size: int) -> Part:
    cut = [_cut(text, part, start, count, dtype) for part, start, count in pieces]
    if len(cut) == 1:
        return cut[0]
    whole = vector_type(dtype, size)
    if all(part.size == 1 for part in cut):
        names = ", ".join(part.name for part in cut)
        return Part(text.op(f"vector.from_elements {names} : {whole}"), size)
    total, at = text.constant(0, whole), 0
    for part in cut:
        if part.size == 1:
            total = text.op(f"vector.insert {part.name}, {total} [{at}] : {mlir_type(dtype)} into {whole}")
        else:
            total = text.op(
                f"vector.insert_strided_slice {part.name}, {total} offsets = [{at}], strides = [1] : {vector_type(dtype, part.size)} into {whole}"
            )
        at += part.size
    return Part(total, size)


def _cut(text: MlirText, part: Part, start: int, count: int, dtype: DType) -> Part:
    if count == part.size:
        return part
    whole = vector_type(dtype, part.size)
    if count == 1:
        return Part(text.op(f"vector.extract {part.name}[{start}] : {mlir_type(dtype)} from {whole}"), 1)
    name = text.op(
        f"vector.extract_strided_slice {part.name} offsets = [{start}], sizes = [{count}], strides = [1] : {whole} to {vector_type(dtype, count)}"
    )
    return Part(name, count)

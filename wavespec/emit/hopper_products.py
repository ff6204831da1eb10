"""Descriptors and registers of one lane in, those of its accumulator out: NVIDIA's asynchronous matrix unit."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.emit.mlir_text import MlirText
from wavespec.targets.matrix_instruction import MatrixInstruction

TIED = {"f32": "f", "i32": "r", "f64": "d", "i64": "l"}
"""How assembly calls a register of each type."""


def struct_type(element: str, count: int) -> str:
    return f"!llvm.struct<({', '.join([element] * count)})>"


def packed(text: MlirText, names: Sequence[str], element: str) -> str:
    """Registers as the struct that an instruction takes; no instruction comes of it."""
    struct = struct_type(element, len(names))
    name = undefined(text, element, len(names))
    for index, register in enumerate(names):
        name = text.op(f"llvm.insertvalue {register}, {name}[{index}] : {struct}")
    return name


def undefined(text: MlirText, element: str, count: int) -> str:
    return text.op(f"llvm.mlir.undef : {struct_type(element, count)}")


def unpacked(text: MlirText, name: str, element: str, count: int) -> list[str]:
    """The registers of a struct."""
    struct = struct_type(element, count)
    return [text.op(f"llvm.extractvalue {name}[{index}] : {struct}") for index in range(count)]


def tied(text: MlirText, names: Sequence[str], element: str) -> list[str]:
    """The same registers, which nothing that is computed before this point uses and nothing after it changes."""
    if not names:
        return []
    letter, count = TIED[element], len(names)
    constraints = ",".join([f"={letter}"] * count + [str(index) for index in range(count)])
    result = element if count == 1 else struct_type(element, count)
    types = ", ".join([element] * count)
    name = text.op(
        f'llvm.inline_asm has_side_effects asm_dialect = att "", "{constraints}" {", ".join(names)} : '
        f"({types}) -> {result}"
    )
    return [name] if count == 1 else unpacked(text, name, element, count)


def wgmma(
    text: MlirText,
    row: MatrixInstruction,
    a: str | Sequence[str],
    b: str,
    total: str,
    majors: tuple[str, str],
    *,
    fresh: bool,
) -> str:
    """One asynchronous product; the accumulators as structs.

    Args:
        a: a descriptor, or 32-bit registers as ``i32``.
        majors: ``k`` or ``mn`` of ``a`` (in registers: ``k``) and ``b``.
        fresh: the product alone, instead of its sum with ``total``.
    """
    accumulator, left, right = row.emit.split(".")[-3:]
    count = row.acc.layout.elements
    element = {"f32": "f32", "s32": "i32"}[accumulator]
    struct = struct_type(element, count)
    if not isinstance(a, str):
        return _from_registers(text, row, a, b, total, majors[1], fresh=fresh)
    scale = "zero" if fresh else "one"
    layouts = ("row" if majors[0] == "k" else "col", "col" if majors[1] == "k" else "row")
    return text.op(
        f"nvvm.wgmma.mma_async {a}, {b}, {total}, #nvvm.shape<m = {row.m}, n = {row.n}, k = {row.k}>, "
        f"D [<{accumulator}>, #nvvm.wgmma_scale_out<{scale}>], "
        f"A [<{left}>, #nvvm.wgmma_scale_in<one>, <{layouts[0]}>], "
        f"B [<{right}>, #nvvm.wgmma_scale_in<one>, <{layouts[1]}>] : {struct} -> {struct}"
    )


def _from_registers(
    text: MlirText, row: MatrixInstruction, a: Sequence[str], b: str, total: str, major: str, *, fresh: bool
) -> str:
    """The operation of MLIR takes ``a`` from shared memory only."""
    accumulator, left, _ = row.emit.split(".")[-3:]
    count, element = row.acc.layout.elements, {"f32": "f32", "s32": "i32"}[accumulator]
    struct, letter = struct_type(element, count), TIED[element]
    registers = unpacked(text, total, element, count)
    # Numbers of the operands: results, the same registers as inputs, then `a` and `b`.
    outputs = ", ".join(f"${index}" for index in range(count))
    words = ", ".join(f"${2 * count + index}" for index in range(len(a)))
    # Only products of 16-bit elements have factors for both operands and a choice of the contiguous dim.
    scales = {"s8": "", "u8": ""}.get(left, ", 1, 1")
    transposed = (", 1" if major == "mn" else ", 0") if left in ("f16", "bf16") else ""
    instruction = row.emit.partition(":")[2]
    code = (
        f"{{ .reg .pred p; setp.ne.b32 p, {int(not fresh)}, 0; "
        f"{instruction} {{{outputs}}}, {{{words}}}, ${2 * count + len(a)}, p{scales}{transposed}; }}"
    )
    constraints = [f"={letter}"] * count + [str(index) for index in range(count)] + ["r"] * len(a) + ["l"]
    types = ", ".join([element] * count + ["i32"] * len(a) + ["i64"])
    return text.op(
        f'llvm.inline_asm has_side_effects asm_dialect = att "{code}", "{",".join(constraints)}" '
        f"{', '.join([*registers, *a, b])} : ({types}) -> {struct}"
    )

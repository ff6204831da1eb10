"""A pointer to a tensor, and a value, go in; instructions of PTX that pass the caches by come out.

LLVM makes plain accesses of those that are marked `nontemporal` for these machines.
https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-ld
"""

from __future__ import annotations

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.registers import vector_type
from wavespec.ir.dtype import DType

_WORD_BYTES = 4
_LINE_PART_BYTES = 16


def load_streamed(text: MlirText, pointer: str, dtype: DType, size: int, *, is_read_only: bool) -> str:
    """What is there, which the first cache does not take; the second one takes the line around 16 bytes, of which
    other lanes read the rest soon: memory gives a line faster than its parts one by one."""
    words, bits = _words(dtype, size)
    results = [f"${number}" for number in range(words)]
    constant = ".nc" if is_read_only else ""
    line = ".L2::128B" if words * _WORD_BYTES == _LINE_PART_BYTES else ""
    code = f"ld.global{constant}.L1::no_allocate{line}{_type(words, bits)} {_operand(results)}, [${words}];"
    register, type_ = _register(bits)
    # What nobody writes may be read whenever it suits.
    how, clobbered = ("", "") if is_read_only else ("has_side_effects ", ",~{memory}")
    constraints = f"{','.join([f'={register}'] * words)},l{clobbered}"
    made = type_ if words == 1 else f"!llvm.struct<({', '.join([type_] * words)})>"
    asm = f'llvm.inline_asm {how}asm_dialect = att "{code}", "{constraints}" {pointer} : (!llvm.ptr<1>) -> {made}'
    name = text.op(asm)
    if words > 1:
        names = [text.op(f"llvm.extractvalue {name}[{number}] : {made}") for number in range(words)]
        made = f"vector<{words}xi32>"
        name = text.op(f"vector.from_elements {', '.join(names)} : {made}")
    if bits == 8:
        name, made = text.op(f"arith.trunci {name} : i16 to i8"), "i8"
    return _as_type(text, name, made, vector_type(dtype, size))


def store_streamed(text: MlirText, pointer: str, name: str, dtype: DType, size: int) -> None:
    """A store of what is the first to leave the caches."""
    words, bits = _words(dtype, size)
    operands = [f"${number + 1}" for number in range(words)]
    code = f"st.global.cs{_type(words, bits)} [$0], {_operand(operands)};"
    register, type_ = _register(bits)
    made = f"vector<{words}xi32>" if words > 1 else f"i{bits}"
    name = _as_type(text, name, vector_type(dtype, size), made)
    names = [name]
    if bits == 8:
        names = [text.op(f"arith.extui {name} : i8 to i16")]
    elif words > 1:
        names = [text.op(f"vector.extract {name}[{number}] : i32 from {made}") for number in range(words)]
    constraints = ",".join(["l", *[register] * words, "~{memory}"])
    types = ", ".join(["!llvm.ptr<1>", *[type_] * words])
    text.do(
        f'llvm.inline_asm has_side_effects asm_dialect = att "{code}", "{constraints}" '
        f"{', '.join([pointer, *names])} : ({types}) -> ()"
    )


def _words(dtype: DType, size: int) -> tuple[int, int]:
    """In how many registers an access is, and the bits of each."""
    bytes_ = dtype.bytes * size
    return (bytes_ // _WORD_BYTES, 32) if bytes_ >= _WORD_BYTES else (1, 8 * bytes_)


def _type(words: int, bits: int) -> str:
    return f"{f'.v{words}' if words > 1 else ''}.b{bits}"


def _operand(names: list[str]) -> str:
    return f"{{{', '.join(names)}}}" if len(names) > 1 else names[0]


def _register(bits: int) -> tuple[str, str]:
    """The constraint of a register, and its type: of bytes it has 16 bits."""
    return ("r", "i32") if bits == 32 else ("h", "i16")


def _as_type(text: MlirText, name: str, before: str, after: str) -> str:
    if before == after:
        return name
    if before.startswith("vector") and after.startswith("vector"):
        return text.op(f"vector.bitcast {name} : {before} to {after}")
    return text.op(f"llvm.bitcast {name} : {before} to {after}")

"""Thread kernel in, thread kernel out: memory holds a byte for each bool, registers a bit."""

from __future__ import annotations

import itertools
from dataclasses import replace

from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Kernel, Memory, Op, Value, VectorType, rewrite

_BYTE, _FLAG = DTYPES["u8"], DTYPES["bool"]


def flags_to_bytes(kernel: Kernel) -> Kernel:
    """Loads and stores of bool become those of u8 with a cast behind or before them."""
    flags = {memory.name for memory in kernel.memories if memory.dtype == _FLAG}
    if not flags:
        return kernel
    count = itertools.count()

    def as_bytes(value: Value) -> Value:
        return Value(f"{value.name}.byte{next(count)}", VectorType(_BYTE, value.vector.elements))

    def change(op: Op) -> tuple[Op, ...]:
        if op.get("memory") not in flags:
            return (op,)
        if op.name == "load":
            loaded = as_bytes(op.result)
            return replace(op, results=(loaded,)), replace(op, name="cast", operands=(loaded,), attributes=())
        if op.name == "store":
            stored = as_bytes(op.operands[0])
            return (
                replace(op, name="cast", results=(stored,), attributes=()),
                replace(op, operands=(stored,)),
            )
        return (op,)

    def of_bytes(memory: Memory) -> Memory:
        return replace(memory, dtype=_BYTE) if memory.name in flags else memory

    return replace(kernel, memories=tuple(map(of_bytes, kernel.memories)), body=rewrite(kernel.body, change))

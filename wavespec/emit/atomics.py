"""Atomic operations on elements of tensors, by LLVM's own instruction, which every machine has."""

from __future__ import annotations

from typing import Protocol

from wavespec.emit.function import Emitter, Function
from wavespec.emit.registers import mlir_type
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Memory, Op

_FUNCTIONS = {
    "float": {"add": "fadd", "maximum": "fmaximum", "minimum": "fminimum"},
    "int": {"add": "add", "maximum": "max", "minimum": "min"},
    "uint": {"add": "add", "maximum": "umax", "minimum": "umin"},
}
"""What LLVM calls the functions of an atomic operation."""


class GlobalMemory(Protocol):
    """Who knows where tensors lie."""

    def global_pointer(self, memory: Memory, offset: Expr) -> tuple[str, str]:
        """A pointer to an element of a tensor, and its type."""
        ...


class Atomics(Emitter):
    """``order``: who has to see an operation as one step, in which order, and what else the compiler behind is told."""

    def __init__(self, function: Function, memory: GlobalMemory, order: str = "monotonic") -> None:
        super().__init__(function)
        self.memory, self.order = memory, order

    def emit_atomic(self, op: Op) -> None:
        memory, (value,) = self.function.memory_of(op), op.operands
        type_ = mlir_type(memory.dtype)
        words = _FUNCTIONS["uint" if memory.dtype.kind == "uint" else "float" if memory.dtype.is_float else "int"]
        with self.function.when(op["mask"]):
            for number, name in enumerate(self.function.scalars(value)):
                pointer, place = self.memory.global_pointer(memory, op["offset"] + number)
                how = f"{words[op['function']]} {pointer}, {name} {self.order}"
                self.text.op(f"llvm.atomicrmw {how} : {place}, {type_}")

"""Atomic operations on elements of tensors, by LLVM's own instruction, which every machine has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from wavespec.emit.function import Emitter, Function
from wavespec.emit.registers import Part, mlir_type
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Memory, Op

_OF_BITS = {"and": "_and", "or": "_or", "xor": "_xor", "exchange": "xchg"}
_FUNCTIONS = {
    "float": {"add": "fadd", "maximum": "fmaximum", "minimum": "fminimum", "exchange": "xchg"},
    "int": {**_OF_BITS, "add": "add", "maximum": "max", "minimum": "min"},
    "uint": {**_OF_BITS, "add": "add", "maximum": "umax", "minimum": "umin"},
}
"""What LLVM calls the functions of an atomic operation."""


class GlobalMemory(Protocol):
    """Who knows where tensors lie."""

    def global_pointer(self, memory: Memory, offset: Expr) -> tuple[str, str]:
        """A pointer to an element of a tensor, or of memory of a workgroup that lanes combine elements in, and its type."""
        ...


class Atomics(Emitter):
    """``order``: who has to see an operation as one step, in which order, and what else the compiler behind is told."""

    def __init__(self, function: Function, memory: GlobalMemory, order: str = "monotonic") -> None:
        super().__init__(function)
        self.memory, self.order = memory, order

    def emit_atomic(self, op: Op) -> None:
        memory = self.function.memory_of(op)
        operands = list(zip(*map(self.function.scalars, op.operands), strict=True))
        types = [mlir_type(memory.dtype)] * len(operands) if op.results else []

        def combined() -> list[str]:
            return [
                self.step(op["function"], values, memory, op["offset"] + number, self._order_of(op))
                for number, values in enumerate(operands)
            ]

        if not op["mask"]:
            names = combined()
        elif not op.results:
            with self.function.when(op["mask"]):
                combined()
            return
        else:
            zero = self.text.constant(0.0 if memory.dtype.is_float else 0, types[0])
            condition = self.indices.holds(op["mask"])
            found = self.function.either(condition, combined, lambda: [zero] * len(types), types)
            names = [f"{found}#{number}" for number in range(len(types))]
        if op.results:
            self.values[op.result.name] = tuple(Part(name, 1) for name in names)

    def _order_of(self, op: Op) -> str:
        return self.order.replace("monotonic", "acq_rel") if op.get("ordered") else self.order

    def step(self, function: str, values: Sequence[str], memory: Memory, offset: Expr, order: str) -> str:
        """One element in one indivisible step: what the memory held."""
        pointer, place = self.memory.global_pointer(memory, offset)
        type_ = mlir_type(memory.dtype)
        if function == "compare_and_swap":
            value, expected = values
            how = f"{pointer}, {expected}, {value} {order}"
            words = how.replace("monotonic", "monotonic monotonic")
            pair = self.text.op(f"llvm.cmpxchg {words} : {place}, {type_}")
            return self.text.op(f"llvm.extractvalue {pair}[0] : !llvm.struct<({type_}, i1)>")
        words = _FUNCTIONS["uint" if memory.dtype.kind == "uint" else "float" if memory.dtype.is_float else "int"]
        how = f"{words[function]} {pointer}, {values[0]} {order}"
        return self.text.op(f"llvm.atomicrmw {how} : {place}, {type_}")

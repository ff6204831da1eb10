"""Atomic operations of CPUs; sums of bf16 in a loop, since LLVM would round them by a library that is not linked.

What a launch of one workgroup adds to integers is read, added to and written: nobody else is there, and an indivisible
step takes five times as long.
"""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.emit.atomics import Atomics, GlobalMemory
from wavespec.emit.function import Function
from wavespec.emit.lane_operations import LaneOperations
from wavespec.emit.registers import mlir_type
from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Memory

_MONOTONIC = 2
"""Of the orders of LLVM."""


class CpuAtomics(Atomics):
    """``lanes``: what rounds."""

    def __init__(self, function: Function, memory: GlobalMemory, lanes: LaneOperations) -> None:
        super().__init__(function, memory)
        self.lanes = lanes

    def step(self, function: str, values: Sequence[str], memory: Memory, offset: Expr, order: str) -> str:
        is_alone = all(extent.high == 1 for extent in self.kernel.grid)
        if is_alone and function == "add" and memory.dtype.kind in ("int", "uint"):
            return self._added(values[0], memory, offset)
        if memory.dtype.name != "bf16" or function != "add":
            return super().step(function, values, memory, offset, order)
        text = self.text
        pointer, place = self.memory.global_pointer(memory, offset)
        how = f"alignment = 2 : i64, ordering = {_MONOTONIC} : i64"
        first = text.op(f'"llvm.load"({pointer}) <{{{how}}}> : ({place}) -> i16')
        held, again = text.name(), text.name()
        text.open()
        new = self._sum(held, values[0])
        pair = text.op(f"llvm.cmpxchg {pointer}, {held}, {new} monotonic monotonic : {place}, i16")
        found = text.op(f"llvm.extractvalue {pair}[0] : !llvm.struct<(i16, i1)>")
        done = text.op(f"llvm.extractvalue {pair}[1] : !llvm.struct<(i16, i1)>")
        more = text.op(f"arith.xori {done}, {text.constant(1, 'i1')} : i1")
        text.do(f"scf.condition({more}) {found} : i16")
        before = text.close()
        result = text.name()
        head = f"{result} = scf.while ({held} = {first}) : (i16) -> i16 {{"
        text.blocks[-1] += [head, *before, "} do {", f"^bb0({again}: i16):", f"scf.yield {again} : i16"]
        text.do("}")
        return text.op(f"arith.bitcast {result} : i16 to bf16")

    def _added(self, value: str, memory: Memory, offset: Expr) -> str:
        pointer, place = self.memory.global_pointer(memory, offset)
        text, type_ = self.text, mlir_type(memory.dtype)
        how = f"<{{alignment = {memory.dtype.bytes} : i64}}>"
        held = text.op(f'"llvm.load"({pointer}) {how} : ({place}) -> {type_}')
        total = text.op(f"arith.addi {held}, {value} : {type_}")
        text.do(f'"llvm.store"({total}, {pointer}) {how} : ({type_}, {place}) -> ()')
        return held

    def _sum(self, held: str, value: str) -> str:
        """Of two numbers, the first of them and the result as words."""
        text, (bf16, f32) = self.text, (DTYPES["bf16"], DTYPES["f32"])
        held = text.op(f"arith.bitcast {held} : i16 to bf16")
        wide = [self.lanes.convert(one, bf16, f32, "bf16", "f32") for one in (held, value)]
        total = text.op(f"arith.addf {wide[0]}, {wide[1]} : f32")
        rounded = self.lanes.convert(total, f32, bf16, "f32", "bf16")
        return text.op(f"arith.bitcast {rounded} : bf16 to i16")

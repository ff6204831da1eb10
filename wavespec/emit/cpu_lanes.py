"""What one lane does with registers on CPUs, which are lists of whole machine vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from struct import pack, unpack

from wavespec.emit.elementwise import power_by_polynomial
from wavespec.emit.half_by_bits import float_to_half, half_to_float
from wavespec.emit.lane_operations import LaneOperations
from wavespec.emit.power_by_scaling import power_by_scaling, times_power
from wavespec.emit.rearranged import as_units, padded
from wavespec.emit.registers import Part, Parts, mlir_type, resized, vector_type
from wavespec.emit.rounded_once import rounded_once
from wavespec.emit.rows_joined import rows_joined
from wavespec.emit.transpose import LANE_BYTES, transposed_lines
from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.kernel import Op, Value

_EXACT_BITS = 8
"""Of whole numbers, all of which bf16 has."""
_OF_NUMBERS = {"fmax": "ogt", "fmin": "olt"}
"""Extremes of numbers alone: one instruction, which beside NaN takes its second operand."""


class CpuLanes(LaneOperations):
    """Rounds to bf16 and computes powers by words, and transposes square blocks by shuffles."""

    def width(self, dtype: DType) -> int:
        """Elements of one machine vector."""
        return max(1, self.machine.vector_bytes // dtype.bytes)

    def native_sizes(self, dtype: DType, elements: int) -> list[int]:
        width = self.width(dtype)
        return [width] * (elements // width) + ([elements % width] if elements % width else [])

    def convert(self, name: str, before: DType, after: DType, old: str, new: str) -> str:
        if not self.machine.converts_f16 and {before.name, after.name} == {"f16", "f32"}:
            return (half_to_float if before.name == "f16" else float_to_half)(self.text, name, old)
        if not self.machine.converts_f16 and (before.name, after.name) == ("f16", "f64"):
            middle = old.replace("f16", "f32")
            return self.convert(half_to_float(self.text, name, old), DTYPES["f32"], after, middle, new)
        if after.name == "bf16" and not before.is_float:
            middle = old.replace(mlir_type(before), "f32")
            name = self.convert(name, before, DTYPES["f32"], old, middle)
            return (
                self._cut_to_bf16(name, middle) if before.bits <= _EXACT_BITS else self._rounded_to_bf16(name, middle)
            )
        if (before.name, new) == ("f32", "bf16"):
            return self._rounded_to_bf16(name, old)
        if (before.name, after.name) != ("bf16", "f32"):
            return super().convert(name, before, after, old, new)
        # IREE takes an extension of what was just rounded for the number itself; of words it does not.
        short, word = (old.replace("bf16", integer) for integer in ("i16", "i32"))
        name = self.text.op(f"arith.bitcast {name} : {old} to {short}")
        name = self.text.op(f"arith.extui {name} : {short} to {word}")
        name = self.text.op(f"arith.shli {name}, {self.text.constant(16, word)} : {word}")
        return self.text.op(f"arith.bitcast {name} : {word} to {new}")

    def _cut_to_bf16(self, name: str, type_: str) -> str:
        """Of f32 whose lower half is zeros."""
        word, short, after = (type_.replace("f32", other) for other in ("i32", "i16", "bf16"))
        name = self.text.op(f"arith.bitcast {name} : {type_} to {word}")
        name = self.text.op(f"arith.shrui {name}, {self.text.constant(16, word)} : {word}")
        name = self.text.op(f"arith.trunci {name} : {word} to {short}")
        return self.text.op(f"arith.bitcast {name} : {short} to {after}")

    def _rounded_to_bf16(self, name: str, type_: str) -> str:
        """Of f32, by words: for single numbers, and for whole ones, LLVM calls a library that kernels are not linked
        with."""
        word, short = (type_.replace("f32", integer) for integer in ("i32", "i16"))
        plain = self.text.op(f"arith.bitcast {name} : {type_} to {word}")
        high = self.text.op(f"arith.shrui {plain}, {self.text.constant(16, word)} : {word}")
        odd = self.text.op(f"arith.andi {high}, {self.text.constant(1, word)} : {word}")
        rounded = self.text.op(f"arith.addi {plain}, {odd} : {word}")
        rounded = self.text.op(f"arith.addi {rounded}, {self.text.constant(0x7FFF, word)} : {word}")
        rounded = self.text.op(f"arith.shrui {rounded}, {self.text.constant(16, word)} : {word}")
        quiet = self.text.op(f"arith.ori {high}, {self.text.constant(0x40, word)} : {word}")
        flag = self.text.op(f"arith.cmpf uno, {name}, {name} : {type_}")
        chosen = type_.replace("f32", "i1")
        choice = f"{chosen}, {word}" if chosen != "i1" else word
        rounded = self.text.op(f"arith.select {flag}, {quiet}, {rounded} : {choice}")
        rounded = self.text.op(f"arith.trunci {rounded} : {word} to {short}")
        return self.text.op(f"arith.bitcast {rounded} : {short} to {type_.replace('f32', 'bf16')}")

    def step(self, function: str, names: Sequence[str], dtype: DType, size: int) -> str:
        if function == "fma" and not self.machine.fused_steps:
            return rounded_once(self.text, names, dtype, size)
        if function == "times_power":
            return times_power(self.text, names[0], names[1], size, self.machine)
        if function in _OF_NUMBERS and dtype.is_float:
            type_, chosen = vector_type(dtype, size), vector_type(DTYPES["bool"], size)
            first, second = names
            flags = self.text.op(f"arith.cmpf {_OF_NUMBERS[function]}, {first}, {second} : {type_}")
            return self.text.op(f"arith.select {flags}, {first}, {second} : {chosen}, {type_}")
        if function not in ("maximum", "minimum") or not dtype.is_float:
            return super().step(function, names, dtype, size)
        type_ = vector_type(dtype, size)  # which of two zeros it is takes machines two instructions to tell
        how = f"<{{fastmathFlags = #llvm.fastmath<nsz>}}> : ({type_}, {type_}) -> {type_}"
        return self.text.op(f'"llvm.intr.{function}"({", ".join(names)}) {how}')

    def exp2(self, name: str, size: int) -> str:
        if self.machine.times_power:
            return power_by_scaling(self.text, name, size, self.machine)
        return power_by_polynomial(self.text, name, size, fused=self.machine.fused_steps)

    def emit_pad(self, op: Op) -> None:
        """Of bf16 as words: LLVM chooses between numbers in f32, and rounds what it has chosen."""
        (value,), dtype = op.operands, op.result.vector.dtype
        if dtype.name != "bf16":
            super().emit_pad(op)
            return
        sizes, word = self.native_sizes(dtype, value.vector.elements), DTYPES["i16"]
        parts = [
            Part(self._bits(part.name, dtype, word, part.size), part.size) for part in self.function.parts(value, sizes)
        ]
        start, limit = (self.indices.integer(op[key], 32) for key in ("start", "limit"))
        (bits,) = unpack(">h", pack(">f", op["value"])[: dtype.bytes])  # the upper half of the f32
        padded_words = padded(self.text, parts, word, start, limit, op["stride"], bits)
        self.values[op.result.name] = tuple(
            Part(self._bits(part.name, word, dtype, part.size), part.size) for part in padded_words
        )

    def _bits(self, name: str, before: DType, after: DType, size: int) -> str:
        return self.text.op(f"arith.bitcast {name} : {vector_type(before, size)} to {vector_type(after, size)}")

    def emit_reduce(self, op: Op) -> None:
        """Rows, by shuffles that serve two of them."""
        count, (value,), dtype = op.result.vector.elements, op.operands, op.result.vector.dtype
        if count == 1:
            super().emit_reduce(op)
            return
        width, function = self.width(dtype), op["function"]
        parts = [part.name for part in self.function.parts(value, [width] * (value.vector.elements // width))]
        each = len(parts) // count

        def join(left: str, right: str) -> str:
            return self.step(function, [left, right], dtype, width)

        rows = [reduce(join, parts[at : at + each]) for at in range(0, len(parts), each)]
        name = rows_joined(self.text, rows, width, mlir_type(dtype), join)
        self.values[op.result.name] = resized(
            self.text, (Part(name, width),), dtype, [count, width - count] if count < width else [width]
        )[:1]

    def transposed(self, value: Value, rows: int, columns: int, unit: int) -> Parts:
        dtype = value.vector.dtype
        is_long = columns * unit * dtype.bits >= 8 * LANE_BYTES
        if rows == 2 and unit == 1 and dtype.bits == 16 and is_long:
            return self._in_turn([part.name for part in self.function.parts(value, [columns] * rows)], dtype, columns)
        if rows != columns or not is_long:
            return super().transposed(value, rows, columns, unit)
        lines = [part.name for part in self.function.parts(value, [columns * unit] * rows)]
        element, plain = f"i{dtype.bits * unit}" if unit > 1 else mlir_type(dtype), vector_type(dtype, columns * unit)
        if unit > 1:
            lines = [as_units(self.text, line, dtype, plain, f"vector<{columns}x{element}>") for line in lines]
        lines = transposed_lines(self.text, lines, columns, element)
        if unit > 1:
            turned = vector_type(dtype, rows * unit)
            lines = [self.text.op(f"vector.bitcast {line} : vector<{rows}x{element}> to {turned}") for line in lines]
        return tuple(Part(line, rows * unit) for line in lines)

    def _in_turn(self, lines: Sequence[str], dtype: DType, columns: int) -> Parts:
        """The elements of two vectors in turn, by one shuffle of words."""
        size = 2 * columns
        old, half, both = vector_type(dtype, columns), f"vector<{columns}xi16>", f"vector<{size}xi16>"
        one, other = (self.text.op(f"vector.bitcast {line} : {old} to {half}") for line in lines)
        taken = [at + line * columns for at in range(columns) for line in range(2)]
        name = self.text.op(f"vector.shuffle {one}, {other} {taken} : {half}, {half}")
        name = self.text.op(f"vector.bitcast {name} : {both} to {vector_type(dtype, size)}")
        return (Part(name, size),)

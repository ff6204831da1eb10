"""What one lane does with registers, as MLIR: the operations that mean the same on every machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from wavespec.emit.conversions import converted
from wavespec.emit.elementwise import elementwise
from wavespec.emit.function import Emitter, Function
from wavespec.emit.pack_bits import pack_bits
from wavespec.emit.rearranged import moved_by_words, padded, turned, window
from wavespec.emit.registers import Part, Parts, mlir_type, resized, sliced, vector_type
from wavespec.emit.unpack import unpack
from wavespec.ir.dtype import DType
from wavespec.ir.kernel import Op, Value


class LaneOperations(Emitter, ABC):
    """Values, index symbols and arithmetic; machines say how they hold registers and which instructions they have."""

    def native_sizes(self, dtype: DType, elements: int) -> list[int]:
        """Sizes of the SSA values that hold ``elements`` registers through a loop."""
        return [elements]

    def native_parts(self, value: Value) -> Parts:
        """The registers of a value in parts of these sizes."""
        return self.function.parts(value, self.native_sizes(value.vector.dtype, value.vector.elements))

    def cast_sizes(self, value: Value, after: DType) -> list[int]:
        """Sizes of the SSA values that are converted at a time."""
        return [part.size for part in self.function.held(value)]

    def convert(self, name: str, before: DType, after: DType, old: str, new: str) -> str:
        """Convert one SSA value between element types."""
        return converted(self.text, name, (before, after), (old, new), self.convert)

    def step(self, function: str, names: Sequence[str], dtype: DType, size: int) -> str:
        """A step other than ``exp2`` on ``size`` elements of ``dtype``."""
        return elementwise(self.text, function, names, dtype, size)

    @abstractmethod
    def exp2(self, name: str, size: int) -> str:
        """Two to the power of ``size`` elements of f32."""

    def transposed(self, value: Value, rows: int, columns: int, unit: int) -> Parts:
        """The transpose of a block whose elements are units of several registers."""
        return turned(self.text, self.function.whole(value), value.vector.dtype, rows, columns, unit)

    def uniform(self, name: str, bits: int) -> str:
        """An integer of so many bits that is the same in all lanes, in the form that the machine computes with best."""
        return name

    def of_any(self, name: str) -> str:
        """An ``i32`` that is 1 where a lane of those that run together has another than 0."""
        # A pass binds so where a machine has asynchronous products alone: their emitter has it.
        raise NotImplementedError(f"{type(self).__name__} has no vote of lanes for {name}")

    def emit_constant(self, op: Op) -> None:
        dtype, elements = op.result.vector.dtype, op.result.vector.elements
        sizes = self.native_sizes(dtype, elements)
        self.values[op.result.name] = tuple(
            Part(self.text.constant(op["value"], vector_type(dtype, n)), n) for n in sizes
        )

    def emit_pack(self, op: Op) -> None:
        self.values[op.result.name] = tuple(part for value in op.operands for part in self.function.held(value))

    def emit_unpack(self, op: Op) -> None:
        kind = op.result.vector
        shift = self.indices.integer(op["offset"], 32)
        name = unpack(self.text, self.function.whole(op.operands[0]), kind.dtype, kind.elements, shift)
        self.values[op.result.name] = (Part(name, kind.elements),)

    def emit_pack_bits(self, op: Op) -> None:
        kind = op.operands[0].vector
        name = pack_bits(self.text, self.function.whole(op.operands[0]), kind.dtype, kind.elements)
        self.values[op.result.name] = (Part(name, op.result.vector.elements),)

    def emit_opaque(self, op: Op) -> None:
        """The value itself, where nothing hides it from the compiler behind."""
        self.values[op.result.name] = tuple(self.function.held(op.operands[0]))

    def emit_slice(self, op: Op) -> None:
        (value,) = op.operands
        self.values[op.result.name] = (
            sliced(self.text, self.function.held(value), value.vector.dtype, op["start"], op["size"]),
        )

    def emit_cast(self, op: Op) -> None:
        (value,) = op.operands
        before, after = value.vector.dtype, op.result.vector.dtype
        converted: list[Part] = []
        for part in self.function.parts(value, self.cast_sizes(value, after)):
            types = vector_type(before, part.size), vector_type(after, part.size)
            name = self.convert(part.name, before, after, *types)
            if bias := op.get("bias"):
                name = self.text.op(f"arith.addi {name}, {self.text.constant(bias, types[1])} : {types[1]}")
            converted.append(Part(name, part.size))
        self.values[op.result.name] = tuple(converted)

    def emit_bitcast(self, op: Op) -> None:
        (value,) = op.operands
        before, after = value.vector.dtype, op.result.vector.dtype
        made: list[Part] = []
        for part in self.function.held(value):
            old, new = vector_type(before, part.size), vector_type(after, part.size)
            name = part.name if old == new else self.text.op(f"arith.bitcast {part.name} : {old} to {new}")
            made.append(Part(name, part.size))
        self.values[op.result.name] = tuple(made)

    def emit_coordinates(self, op: Op) -> None:
        """Where elements follow each other in a fixed pattern, the first place plus that pattern."""
        places, dtype, made, start = op["places"], op.result.vector.dtype, list[Part](), 0
        for size in self.native_sizes(dtype, len(places)):
            first, type_ = places[start], vector_type(dtype, size)
            name = self.indices.integer(first, dtype.bits)
            steps = [place - first for place in places[start : start + size]]
            if size > 1 and all(step.is_const for step in steps):
                pattern = ", ".join(str(step.value) for step in steps)
                name = self.text.op(f"vector.broadcast {name} : {dtype} to {type_}")
                pattern = self.text.op(f"arith.constant dense<[{pattern}]> : {type_}")
                name = self.text.op(f"arith.addi {name}, {pattern} : {type_}")
            elif size > 1:
                names = [self.indices.integer(place, dtype.bits) for place in places[start : start + size]]
                name = self.text.op(f"vector.from_elements {', '.join(names)} : {type_}")
            made.append(Part(name, size))
            start += size
        self.values[op.result.name] = tuple(made)

    def emit_broadcast(self, op: Op) -> None:
        (value,), dtype = op.operands, op.result.vector.dtype
        name, element = self.function.whole(value), vector_type(dtype, 1)
        made: dict[int, Part] = {1: Part(name, 1)}
        sizes = self.native_sizes(dtype, op.result.vector.elements)
        for size in sizes:
            if size not in made:
                whole = vector_type(dtype, size)
                made[size] = Part(self.text.op(f"vector.broadcast {name} : {element} to {whole}"), size)
        self.values[op.result.name] = tuple(made[size] for size in sizes)

    def emit_elementwise(self, op: Op) -> None:
        function, kind = op["function"], op.operands[-1].vector
        sizes = self.native_sizes(kind.dtype, kind.elements)
        made: list[Part] = []
        for parts in zip(*(self.function.parts(value, sizes) for value in op.operands), strict=True):
            names, size = [part.name for part in parts], parts[0].size
            name = self.exp2(names[0], size) if function == "exp2" else self.step(function, names, kind.dtype, size)
            made.append(Part(name, size))
        self.values[op.result.name] = tuple(made)

    def emit_reduce(self, op: Op) -> None:
        """Vector registers with each other, then halves of one with each other."""
        (value,), function, dtype = op.operands, op["function"], op.result.vector.dtype
        parts = [*self.function.held(value)]
        while len(parts) > 1 or parts[0].size > 1:
            if len({part.size for part in parts}) > 1:
                parts = [*self.function.parts(value, [1] * value.vector.elements)] if len(parts) > 1 else parts
            if len(parts) == 1:
                half = parts[0].size // 2
                parts = [*resized(self.text, (parts[0],), dtype, [half, half, *([1] * (parts[0].size % 2))])]
                continue
            left, right, *rest = parts
            name = self.step(function, [left.name, right.name], dtype, left.size)
            parts = [*rest, Part(name, left.size)]
        self.values[op.result.name] = (parts[0],)

    def emit_pad(self, op: Op) -> None:
        (value,), dtype = op.operands, op.result.vector.dtype
        start, limit = (self.indices.integer(op[key], 32) for key in ("start", "limit"))
        parts = self.function.parts(value, self.native_sizes(dtype, value.vector.elements))
        self.values[op.result.name] = padded(self.text, parts, dtype, start, limit, op["stride"], op["value"])

    def emit_window(self, op: Op) -> None:
        (value,), kind = op.operands, op.result.vector
        start = self.indices.integer(op["start"], 32)
        name = window(self.text, self.function.whole(value), kind.dtype, value.vector.elements, kind.elements, start)
        self.values[op.result.name] = (Part(name, kind.elements),)

    def emit_transpose(self, op: Op) -> None:
        self.values[op.result.name] = self.transposed(op.operands[0], op["rows"], op["columns"], op["unit"])

    def emit_bind(self, op: Op) -> None:
        (value,) = op.operands
        dtype, bits = value.vector.dtype, max(32, value.vector.dtype.bits)
        name = self.function.whole(value)
        if dtype.bits < bits:
            verb = "extui" if dtype.kind == "uint" else "extsi"
            name = self.text.op(f"arith.{verb} {name} : {mlir_type(dtype)} to i{bits}")
        name = self.of_any(name) if op.get("of_any") else name
        self.indices.define(op["symbol"], self.uniform(name, bits) if op.get("uniform") else name, bits)

    def emit_let(self, op: Op) -> None:
        self.indices.define(op["symbol"], self.indices.integer(op["value"], 32), 32)


class Shuffles(Emitter):
    """Registers of other lanes."""

    def __init__(
        self, function: Function, move: Callable[[str, int], str], take: Callable[[str, int, int], str]
    ) -> None:
        """``move``: a word of 32 bits of the lane whose number differs in the bits of a mask; ``take``: of the lane with
        a number in a group of so many."""
        super().__init__(function)
        self.move, self.take = move, take

    def emit_shuffle(self, op: Op) -> None:
        mask = op["bits"]
        self._moved(op, lambda word: self.move(word, mask))

    def emit_from_lane(self, op: Op) -> None:
        lane, lanes = op["lane"], op["lanes"]
        self._moved(op, lambda word: self.take(word, lane, lanes))

    def _moved(self, op: Op, move: Callable[[str], str]) -> None:
        (value,) = op.operands
        moved = [moved_by_words(self.text, name, value.vector.dtype, move) for name in self.function.scalars(value)]
        self.values[op.result.name] = tuple(Part(name, 1) for name in moved)

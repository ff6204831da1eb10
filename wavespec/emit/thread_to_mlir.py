"""Thread kernel in, the text of one `func.func` out; what differs per machine is in the subclasses."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from wavespec.emit.conversions import converted
from wavespec.emit.elementwise import elementwise
from wavespec.emit.indices import Indices
from wavespec.emit.loops import emit_loop
from wavespec.emit.memory_to_bytes import memory_to_bytes
from wavespec.emit.mlir_text import MlirText
from wavespec.emit.pack_bits import pack_bits
from wavespec.emit.rearranged import moved_by_words, padded, turned
from wavespec.emit.registers import Part, Parts, mlir_type, resized, sliced, vector_type
from wavespec.emit.unpack import unpack
from wavespec.ir.declarations import Group
from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Memory, Op, Value
from wavespec.ir.names import dim_of_size
from wavespec.ir.thread_ops import (
    BULK_COMMIT,
    BULK_COPY,
    BULK_STORE,
    BULK_WAIT,
    FENCE_ASYNC,
    MMA_ASYNC,
    MMA_COMMIT,
    MMA_FENCE,
    MMA_WAIT,
    ROLE,
    SIGNAL_ARRIVE,
    SIGNAL_WAIT,
    STORE_MATRIX,
)
from wavespec.runtime.artifact import Assumption, TensorMap
from wavespec.targets.machine import Machine, MatrixInstruction

_ATOMIC = {
    "float": {"add": "fadd", "maximum": "fmaximum", "minimum": "fminimum"},
    "int": {"add": "add", "maximum": "max", "minimum": "min"},
    "uint": {"add": "add", "maximum": "umax", "minimum": "umin"},
}
"""What LLVM calls the functions of an atomic operation."""

SHARED_ALIGNMENT_BYTES: Final = 16
"""Of each memory of a workgroup: the widest access of a lane."""
BESIDE_LANES: Final = (
    ROLE
    | SIGNAL_ARRIVE
    | SIGNAL_WAIT
    | BULK_COPY
    | BULK_STORE
    | BULK_COMMIT
    | BULK_WAIT
    | FENCE_ASYNC
    | MMA_FENCE
    | MMA_ASYNC
    | MMA_COMMIT
    | MMA_WAIT
    | STORE_MATRIX
)
"""Waves with roles, copy engines and matrix units that work on their own: what few machines have."""


@dataclass(frozen=True, slots=True)
class KernelFunction:
    """The emitted function and what its surroundings need to know.

    ``text``: ``func.func @<name>()``; ``aliases``: attribute and location definitions for the top of the module.
    """

    name: str
    text: str
    aliases: tuple[str, ...]
    shared_bytes: int


class ThreadToMlir:
    """Walks a thread kernel once.  Subclasses say how memory, matrix instructions and barriers are spelled."""

    refuses: ClassVar[Group] = BESIDE_LANES
    """What the machines have no instructions for; all other operations have a method, called like them."""

    index_bits = 32
    """Of loop counters, and of addresses where their range is known to fit."""

    def __init__(self, kernel: Kernel, machine: Machine, layout: str) -> None:
        self.kernel, self.machine, self.layout = memory_to_bytes(kernel), machine, layout
        self.text = MlirText()
        self.indices = Indices(self.text, self.index_bits, self.kernel.present_sizes)
        self.values: dict[str, Parts] = {}
        self.dims = [symbol for symbol in kernel.symbols if dim_of_size(symbol.args[0]) in _dynamic_dims(kernel)]

    # ---------------------------------------------------------------------------------------- what subclasses provide

    def prologue(self) -> None:
        """Define lane, wave and workgroup symbols and get hold of every memory."""
        raise NotImplementedError

    def epilogue(self) -> None:
        """Give back what the prologue took."""

    def native_sizes(self, dtype: DType, elements: int) -> list[int]:
        """Sizes of the SSA values that hold ``elements`` registers through a loop."""
        return [elements]

    def attributes(self) -> str:
        """Attributes of the function."""
        raise NotImplementedError

    def assumptions(self) -> tuple[Assumption, ...]:
        """What the emitted code needs of the sizes of a call."""
        return ()

    @property
    def tensor_maps(self) -> tuple[TensorMap, ...]:
        """What the kernel takes behind its tensors, for copies of boxes."""
        return ()

    def loop_attribute(self) -> str:
        """Attribute dictionary of a loop."""
        return ""

    def end_body(self, op: Op) -> None:
        """What the machine wants at the end of the body of a counted loop."""

    def load(self, op: Op, memory: Memory) -> Parts:
        raise NotImplementedError

    def store(self, op: Op, memory: Memory) -> None:
        raise NotImplementedError

    def accumulate(self, op: Op, memory: Memory) -> None:
        raise NotImplementedError

    def global_pointer(self, memory: Memory, offset: Expr) -> tuple[str, str]:
        """A pointer to an element of a tensor, and its type."""
        raise NotImplementedError

    atomic_order = "monotonic"
    """Who has to see an atomic operation as one step, in which order, and what else the compiler behind is told of it."""

    def prefetch(self, op: Op, memory: Memory) -> None:
        raise NotImplementedError

    def load_tile(self, op: Op, memory: Memory) -> None:
        raise NotImplementedError

    def load_matrix(self, op: Op, memory: Memory) -> Parts:
        raise NotImplementedError

    def copy_async(self, op: Op, source: Memory, memory: Memory) -> None:
        raise NotImplementedError

    def mma(self, op: Op, row: MatrixInstruction, a: Value, b: Value, acc: Value) -> Parts:
        raise NotImplementedError

    def step(self, function: str, names: Sequence[str], dtype: DType, size: int) -> str:
        """A step other than ``exp2`` on ``size`` elements of ``dtype``."""
        return elementwise(self.text, function, names, dtype, size)

    def exp2(self, name: str, size: int) -> str:
        """Two to the power of ``size`` elements of f32."""
        raise NotImplementedError

    def barrier(self, op: Op) -> None:
        raise NotImplementedError

    def schedule_fence(self) -> None:
        """Keep the order of operations here; nothing where the compiler behind decides on its own."""

    def schedule_group(self, kind: str, count: int) -> None:
        """Issue so many operations of a kind next; nothing where the compiler behind decides on its own."""

    def priority(self, level: int) -> None:
        """Raise or lower the wave; nothing where waves have no priorities."""

    def stagger(self, apart: bool) -> None:
        """Let the first half of the waves go one barrier ahead, or meet the other half again."""
        raise NotImplementedError

    def asynchronous(self, op: Op) -> None:
        """``async_commit`` and ``async_wait``."""
        raise NotImplementedError

    # --------------------------------------------------------------------------------------------------------- shared

    def function(self) -> KernelFunction:
        """Emit everything."""
        self.load_constants()
        self.prologue()
        self.block(self.kernel.body)
        self.epilogue()
        lines = [*self.text.lines(), "return"]
        body = "\n".join("  " + line for line in lines)
        text = f"func.func @{self.kernel.name}() attributes {{{self.attributes()}}} {{\n{body}\n}}"
        return KernelFunction(self.kernel.name, text, tuple(self.text.location_lines()), self.shared_bytes())

    def shared_bytes(self) -> int:
        """Bytes of workgroup memory, every buffer included; each memory starts at a multiple of its alignment."""
        sizes = (m.elements.value * m.dtype.bytes * m.buffers for m in self.kernel.memories if m.space == "shared")
        return sum(-(-size // SHARED_ALIGNMENT_BYTES) * SHARED_ALIGNMENT_BYTES for size in sizes)

    def load_constants(self) -> None:
        for ordinal, symbol in enumerate(self.dims):
            name = self.text.op(f"hal.interface.constant.load layout({self.layout}) ordinal({ordinal}) : i32")
            self.indices.define(symbol.args[0], name, 32)

    def bindings(self) -> list[Memory]:
        """Memories that are arguments, in the order of the call."""
        return [memory for memory in self.kernel.memories if memory.space == "global"]

    def workgroup_ids(self) -> None:
        """Define the symbols of a workgroup's place along the axes of the launch: `id0` where a `let` says which tile that
        is, `launch0` where axes of the grid share one of the launch, else that of the grid itself."""
        declared = {symbol.args[0] for symbol in self.kernel.symbols}
        of_axes = [(axis, [f"{name}{axis}" for name in ("id", "launch", "wg")]) for axis in range(3)]
        for axis, names in (*of_axes, (0, ["workgroup"])):
            for name in [name for name in names if name in declared][:1]:
                index = self.text.op(f"hal.interface.workgroup.id[{axis}] : index")
                self.indices.define(name, self.text.op(f"arith.index_cast {index} : index to i32"), 32)

    def lanes_and_waves(self, thread: str) -> None:
        """Define ``lane`` and the wave symbols from the flat thread number, an ``i32``; the last wave symbol runs
        fastest."""
        lanes = self.text.constant(self.kernel.lanes, "i32")
        self.indices.define("lane", self.text.op(f"arith.remui {thread}, {lanes} : i32"), 32)
        rest = self.wave_number(self.text.op(f"arith.divui {thread}, {lanes} : i32"))
        for name, count in reversed(self.kernel.waves):
            size = self.text.constant(count, "i32")
            self.indices.define(name, self.text.op(f"arith.remui {rest}, {size} : i32"), 32)
            rest = self.text.op(f"arith.divui {rest}, {size} : i32")

    def wave_number(self, name: str) -> str:
        """The wave of this lane, in the form that the machine computes with best."""
        return name

    def block(self, ops: Sequence[Op]) -> None:
        for op in ops:
            self.text.span = op.span
            method = None if op.is_(self.refuses) else getattr(self, f"_{op.name}", None)
            if method is None:
                raise ValueError(f"{type(self).__name__} has no instructions for '{op.name}' ({op.span})")
            method(op)

    def parts(self, value: Value, sizes: Sequence[int]) -> Parts:
        """The registers of a value in parts of the given sizes."""
        return resized(self.text, self.values[value.name], value.vector.dtype, sizes)

    def held(self, value: Value) -> Parts:
        """The registers of a value in the parts that they are in."""
        return self.values[value.name]

    def whole(self, value: Value) -> str:
        """The registers of a value as one SSA value."""
        return self.parts(value, [value.vector.elements])[0].name

    def memory_of(self, op: Op) -> Memory:
        return self.kernel.memory(op["memory"])

    def buffered(self, op: Op, memory: Memory) -> Expr:
        """Element offset including the rotation."""
        return op["offset"] + op["buffer"] * memory.elements if memory.buffers > 1 else op["offset"]

    @contextmanager
    def when(self, mask: tuple[tuple[Expr, Expr], ...]) -> Generator[None]:
        """What is emitted inside runs only where the mask holds."""
        if not mask:
            yield
            return
        condition = self.indices.holds(mask)
        self.text.open()
        self.indices.open()
        yield
        self.indices.close()
        lines = self.text.close()
        self.text.blocks[-1].append(f"scf.if {condition} {{")
        self.text.blocks[-1].extend(lines)
        self.text.do("}")

    def _constant(self, op: Op) -> None:
        dtype, elements = op.result.vector.dtype, op.result.vector.elements
        sizes = self.native_sizes(dtype, elements)
        self.values[op.result.name] = tuple(
            Part(self.text.constant(op["value"], vector_type(dtype, n)), n) for n in sizes
        )

    def _load(self, op: Op) -> None:
        self.values[op.result.name] = self.load(op, self.memory_of(op))

    def _store(self, op: Op) -> None:
        self.store(op, self.memory_of(op))

    def _accumulate(self, op: Op) -> None:
        self.accumulate(op, self.memory_of(op))

    def _atomic(self, op: Op) -> None:
        memory = self.memory_of(op)
        type_ = mlir_type(memory.dtype)
        words = _ATOMIC["uint" if memory.dtype.kind == "uint" else "float" if memory.dtype.is_float else "int"]
        with self.when(op["mask"]):
            for number, part in enumerate(self.parts(op.operands[0], [1] * op.operands[0].vector.elements)):
                pointer, place = self.global_pointer(memory, op["offset"] + number)
                how = f"{words[op['function']]} {pointer}, {part.name} {self.atomic_order}"
                self.text.op(f"llvm.atomicrmw {how} : {place}, {type_}")

    def _prefetch(self, op: Op) -> None:
        self.prefetch(op, self.memory_of(op))

    def _load_tile(self, op: Op) -> None:
        self.load_tile(op, self.memory_of(op))

    def _load_matrix(self, op: Op) -> None:
        self.values[op.result.name] = self.load_matrix(op, self.memory_of(op))

    def _copy_async(self, op: Op) -> None:
        self.copy_async(op, self.kernel.memory(op["source"]), self.memory_of(op))

    def _async_commit(self, op: Op) -> None:
        self.asynchronous(op)

    def _async_wait(self, op: Op) -> None:
        self.asynchronous(op)

    def _schedule_fence(self, op: Op) -> None:
        self.schedule_fence()

    def _schedule_group(self, op: Op) -> None:
        self.schedule_group(op["kind"], op["count"])

    def _stagger(self, op: Op) -> None:
        self.stagger(op["ahead"] == 1)

    def _priority(self, op: Op) -> None:
        self.priority(op["level"])

    def _barrier(self, op: Op) -> None:
        self.barrier(op)

    def _mma(self, op: Op) -> None:
        name, _, swapped = op["instruction"].partition(":")
        row = self.machine.instruction(name)
        assert row is not None
        a, b, acc = op.operands
        if swapped:
            a, b = b, a
        self.values[op.result.name] = self.mma(op, row, a, b, acc)

    def _pack(self, op: Op) -> None:
        self.values[op.result.name] = tuple(part for value in op.operands for part in self.held(value))

    def _unpack(self, op: Op) -> None:
        kind = op.result.vector
        shift = self.indices.integer(op["offset"], 32)
        name = unpack(self.text, self.whole(op.operands[0]), kind.dtype, kind.elements, shift)
        self.values[op.result.name] = (Part(name, kind.elements),)

    def _pack_bits(self, op: Op) -> None:
        kind = op.operands[0].vector
        name = pack_bits(self.text, self.whole(op.operands[0]), kind.dtype, kind.elements)
        self.values[op.result.name] = (Part(name, op.result.vector.elements),)

    def _slice(self, op: Op) -> None:
        (value,) = op.operands
        self.values[op.result.name] = (
            sliced(self.text, self.held(value), value.vector.dtype, op["start"], op["size"]),
        )

    def _cast(self, op: Op) -> None:
        (value,) = op.operands
        before, after = value.vector.dtype, op.result.vector.dtype
        converted: list[Part] = []
        for part in self.parts(value, self.cast_sizes(value, after)):
            types = vector_type(before, part.size), vector_type(after, part.size)
            name = self.convert(part.name, before, after, *types)
            if bias := op.get("bias"):
                name = self.text.op(f"arith.addi {name}, {self.text.constant(bias, types[1])} : {types[1]}")
            converted.append(Part(name, part.size))
        self.values[op.result.name] = tuple(converted)

    def cast_sizes(self, value: Value, after: DType) -> list[int]:
        """Sizes of the SSA values that are converted at a time."""
        return [part.size for part in self.held(value)]

    def convert(self, name: str, before: DType, after: DType, old: str, new: str) -> str:
        """Convert one SSA value between element types."""
        return converted(self.text, name, (before, after), (old, new), self.convert)

    def _bitcast(self, op: Op) -> None:
        (value,) = op.operands
        before, after = value.vector.dtype, op.result.vector.dtype
        made: list[Part] = []
        for part in self.held(value):
            old, new = vector_type(before, part.size), vector_type(after, part.size)
            name = part.name if old == new else self.text.op(f"arith.bitcast {part.name} : {old} to {new}")
            made.append(Part(name, part.size))
        self.values[op.result.name] = tuple(made)

    def _coordinates(self, op: Op) -> None:
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

    def _broadcast(self, op: Op) -> None:
        (value,), dtype = op.operands, op.result.vector.dtype
        name, element = self.whole(value), vector_type(dtype, 1)
        made: dict[int, Part] = {1: Part(name, 1)}
        sizes = self.native_sizes(dtype, op.result.vector.elements)
        for size in sizes:
            if size not in made:
                whole = vector_type(dtype, size)
                made[size] = Part(self.text.op(f"vector.broadcast {name} : {element} to {whole}"), size)
        self.values[op.result.name] = tuple(made[size] for size in sizes)

    def _elementwise(self, op: Op) -> None:
        function, kind = op["function"], op.operands[-1].vector
        sizes = self.native_sizes(kind.dtype, kind.elements)
        made: list[Part] = []
        for parts in zip(*(self.parts(value, sizes) for value in op.operands), strict=True):
            names, size = [part.name for part in parts], parts[0].size
            name = self.exp2(names[0], size) if function == "exp2" else self.step(function, names, kind.dtype, size)
            made.append(Part(name, size))
        self.values[op.result.name] = tuple(made)

    def _reduce(self, op: Op) -> None:
        """Vector registers with each other, then halves of one with each other."""
        (value,), function, dtype = op.operands, op["function"], op.result.vector.dtype
        parts = [*self.held(value)]
        while len(parts) > 1 or parts[0].size > 1:
            if len({part.size for part in parts}) > 1:
                parts = [*self.parts(value, [1] * value.vector.elements)] if len(parts) > 1 else parts
            if len(parts) == 1:
                half = parts[0].size // 2
                parts = [*resized(self.text, (parts[0],), dtype, [half, half, *([1] * (parts[0].size % 2))])]
                continue
            left, right, *rest = parts
            name = self.step(function, [left.name, right.name], dtype, left.size)
            parts = [*rest, Part(name, left.size)]
        self.values[op.result.name] = (parts[0],)

    def _shuffle(self, op: Op) -> None:
        (value,) = op.operands

        def move(word: str) -> str:
            return self.shuffle(word, op["bits"])

        parts = self.parts(value, [1] * value.vector.elements)
        moved = [moved_by_words(self.text, part.name, value.vector.dtype, move) for part in parts]
        self.values[op.result.name] = tuple(Part(name, 1) for name in moved)

    def shuffle(self, word: str, mask: int) -> str:
        """A word of 32 bits of the lane whose number differs in the bits of ``mask``."""
        raise NotImplementedError

    def _pad(self, op: Op) -> None:
        (value,), dtype = op.operands, op.result.vector.dtype
        start, limit = (self.indices.integer(op[key], 32) for key in ("start", "limit"))
        parts = self.parts(value, self.native_sizes(dtype, value.vector.elements))
        self.values[op.result.name] = padded(self.text, parts, dtype, start, limit, op["stride"], op["value"])

    def _transpose(self, op: Op) -> None:
        (value,), shape = op.operands, (op["rows"], op["columns"], op["unit"])
        self.values[op.result.name] = turned(self.text, self.whole(value), value.vector.dtype, *shape)

    def _bind(self, op: Op) -> None:
        (value,) = op.operands
        dtype, bits = value.vector.dtype, max(32, value.vector.dtype.bits)
        name = self.whole(value)
        if dtype.bits < bits:
            verb = "extui" if dtype.kind == "uint" else "extsi"
            name = self.text.op(f"arith.{verb} {name} : {mlir_type(dtype)} to i{bits}")
        self.indices.define(op["symbol"], self.uniform(name, bits) if op.get("uniform") else name, bits)

    def _let(self, op: Op) -> None:
        self.indices.define(op["symbol"], self.indices.integer(op["value"], 32), 32)

    def uniform(self, name: str, bits: int) -> str:
        """An integer of so many bits that is the same in all lanes, in the form that the machine computes with best."""
        return name

    def _if(self, op: Op) -> None:
        with self.when(op["mask"]):
            self.block(op.body.ops)

    def counter_bits(self, op: Op) -> int:
        """Of the counter of a loop: enough for the number that ends it, which may be a step beyond the last one."""
        beyond = (op["upper"] + op["step"]).high
        return self.index_bits if beyond is None or beyond < 2**31 else 64

    def _for(self, op: Op) -> None:
        emit_loop(self, op)


def _dynamic_dims(kernel: Kernel) -> list[str]:
    names: dict[str, None] = {}
    for memory in kernel.memories:
        for dim, extent in zip(memory.dims, memory.shape, strict=True):
            if memory.space == "global" and not extent.is_const:
                names[dim] = None
    names.update((dim, None) for dim, size in kernel.sizes if not size.is_const)
    return list(names)

"""Thread kernel in, the text of one `func.func` out, written by the emitters that a backend puts together."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from wavespec.emit.indices import Indices
from wavespec.emit.join_loads import join_loads
from wavespec.emit.look_up_codes import look_up_codes
from wavespec.emit.memory_to_bytes import memory_to_bytes
from wavespec.emit.mlir_text import MlirText, indented
from wavespec.emit.registers import Parts, resized
from wavespec.ir.declarations import Group
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Memory, Op, Value
from wavespec.ir.names import dim_of_size, scalar_name
from wavespec.ir.strided import names_of_tensor, symbol_of
from wavespec.ir.thread import Mask
from wavespec.ir.thread_ops import DOT, MMA
from wavespec.runtime.artifact import Assumption, TensorMap
from wavespec.runtime.scalars import words_of
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import MatrixInstruction

# LLVM makes instructions of it that flush (`.ftz`), or has the machine's mode say so; on CPUs the frame does that, and
# LLVM computes nothing beforehand that would be another number then.
_FLUSHED = (
    "denormal_fpenv = #llvm.denormal_fpenv<default_output_mode = ieee, default_input_mode = ieee, "
    "float_output_mode = preservesign, float_input_mode = preservesign>"
)


@dataclass(frozen=True, slots=True)
class KernelFunction:
    """The emitted function and what its surroundings need to know.

    ``text``: ``func.func @<name>()``; ``aliases``: attribute and location definitions for the top of the module;
    ``tensor_maps``: what it takes behind its tensors, for copies of boxes; ``assumptions``: what it needs of the sizes of
    a call.
    """

    name: str
    text: str
    aliases: tuple[str, ...]
    shared_bytes: int
    tensor_maps: tuple[TensorMap, ...]
    assumptions: tuple[Assumption, ...]


Run = Callable[[Sequence[Op], int], int]
"""What writes operations together from some place on, and says where they end: there, if it writes none."""


class Function:
    """A function that is being written: which emitter writes what, and what all of them share.

    Args:
        index_bits: of loop counters, and of addresses where their range is known to fit.
        bounded_waits: have a wait for a signal trap that takes seconds, which makes an error of a hang.
    """

    def __init__(
        self, kernel: Kernel, machine: Machine, layout: str, index_bits: int, *, bounded_waits: bool = False
    ) -> None:
        has_tables = bool(machine.word_table or machine.byte_table)
        kernel = memory_to_bytes(join_loads(kernel) if has_tables else kernel)
        self.kernel = look_up_codes(kernel) if has_tables else kernel
        self.machine, self.layout = machine, layout
        self.index_bits, self.bounded_waits = index_bits, bounded_waits
        self.text = MlirText(machine.most_lines)
        self.indices = Indices(self.text, index_bits, self.kernel.present_sizes)
        has_products = any(op.is_(MMA, DOT) for op in self.kernel.walk())
        self.indices.reciprocals = not (machine.concurrent_waves or has_products)
        self.values: dict[str, Parts] = {}
        self.renamed: list[tuple[str, Parts]] = []
        """Values that a block has under other names, and what they are called around it."""
        self.elsewhere: dict[str, Callable[[Value, Sequence[int] | None], Parts]] = {}
        """Of values that registers do not hold: what reads them, in parts of these sizes or of those that suit it."""
        self.emitters: list[Emitter] = []
        self.methods: dict[str, Callable[[Op], None]] = {}
        self.memories = {memory.name: memory for memory in self.kernel.memories}
        self.runs: dict[str, list[Run]] = {}
        """By the name of the operation that they begin with."""
        self.attributes = [_FLUSHED] if self.kernel.flushes else []
        self.shared_bytes = 0
        self.tensor_maps: list[TensorMap] = []
        self.assumptions: list[Assumption] = []

    def use(self, *emitters: Emitter) -> None:
        """Have operations written by their methods ``emit_OPERATION``; where several have one, by the last."""
        for emitter in emitters:
            self.emitters.append(emitter)
            self.methods |= {name: getattr(emitter, f"emit_{name}") for name in emitter.operations()}

    def together(self, run: Run, first: Group) -> None:
        """Have operations from one of ``first`` on written by ``run``, where that writes any."""
        for name in first.names:
            self.runs.setdefault(name, []).append(run)

    def write(self) -> KernelFunction:
        """Emit everything."""
        dims = _dynamic_dims(self.kernel)
        sizes = [symbol.args[0] for symbol in self.kernel.symbols if dim_of_size(symbol.args[0]) in dims]
        for ordinal, size in enumerate(sizes):
            name = self.text.op(f"hal.interface.constant.load layout({self.layout}) ordinal({ordinal}) : i32")
            self.indices.define(size, name, 32)
        self._load_scalars(self._define_numbers(len(sizes)))
        for emitter in self.emitters:
            emitter.begin()
        self.block(self.kernel.body)
        for emitter in self.emitters:
            emitter.end()
        # They know the function: nobody has to look for the cycle.
        self.emitters, self.methods, self.runs, self.elsewhere = [], {}, {}, {}
        name, body = self.kernel.name, indented("\n".join([*self.text.lines(), "return"]), 2)
        text = f"func.func @{name}() attributes {{{', '.join(self.attributes)}}} {{\n{body}\n}}"
        beside = tuple(self.tensor_maps), tuple(self.assumptions)
        return KernelFunction(name, text, tuple(self.text.location_lines()), self.shared_bytes, *beside)

    def _define_numbers(self, ordinal: int) -> int:
        """What says where elements of strided tensors are, behind the sizes, each in two halves; returns what is next."""
        declared = {symbol.args[0] for symbol in self.kernel.symbols}
        for memory in (memory for memory in self.tensors() if memory.is_strided):
            for symbol in map(symbol_of, names_of_tensor(memory.name, memory.dims)):
                if symbol in declared:
                    self.indices.define(symbol, self._long(ordinal), 64)
                ordinal += 2
        return ordinal

    def _load_scalars(self, ordinal: int) -> None:
        """Define the symbols of scalars, whose words are the constants from ``ordinal`` on."""
        used = {known.args[0] for known in self.kernel.symbols}
        for name, dtype in self.kernel.scalars:
            words, number = words_of(dtype.name), scalar_name(name)
            if number in used and words == 1:
                self.indices.define(number, self._word(ordinal), 32)
            elif number in used:
                self.indices.define(number, self._long(ordinal), 64)
            ordinal += words

    def _word(self, ordinal: int) -> str:
        return self.text.op(f"hal.interface.constant.load layout({self.layout}) ordinal({ordinal}) : i32")

    def _long(self, ordinal: int) -> str:
        """The number of two words, the lower one first."""
        low = self.text.op(f"arith.extui {self._word(ordinal)} : i32 to i64")
        high = self.text.op(f"arith.extsi {self._word(ordinal + 1)} : i32 to i64")
        high = self.text.op(f"arith.shli {high}, {self.text.constant(32, 'i64')} : i64")
        return self.text.op(f"arith.ori {high}, {low} : i64")

    def block(self, ops: Sequence[Op]) -> None:
        """Write operations one after another, those of a run together."""
        at, before = 0, len(self.renamed)
        while at < len(ops):
            op, start = ops[at], at
            self.text.span = op.span
            for run in self.runs.get(op.name, ()):
                at = run(ops, start)
                if at > start:
                    break
            else:
                if op.name not in self.methods:
                    raise ValueError(f"'{self.machine.backend}' has no instructions for '{op.name}' ({op.span})")
                self.methods[op.name](op)
                at += 1
        while len(self.renamed) > before:
            name, parts = self.renamed.pop()
            self.values[name] = parts

    def parts(self, value: Value, sizes: Sequence[int]) -> Parts:
        """The registers of a value in parts of the given sizes."""
        if value.name in self.elsewhere:
            return self.elsewhere[value.name](value, sizes)
        parts = self.values[value.name]
        if len(parts) == len(sizes) == 1:  # all of the registers both times
            return parts
        return resized(self.text, parts, value.vector.dtype, sizes)

    def held(self, value: Value) -> Parts:
        """The registers of a value in the parts that they are in."""
        if value.name in self.elsewhere:
            return self.elsewhere[value.name](value, None)
        return self.values[value.name]

    def whole(self, value: Value) -> str:
        """The registers of a value as one SSA value."""
        return self.parts(value, [value.vector.elements])[0].name

    def scalars(self, value: Value) -> list[str]:
        """The registers of a value, each as an SSA value of its own."""
        return [part.name for part in self.parts(value, [1] * value.vector.elements)]

    def tensors(self) -> list[Memory]:
        """Memories that are arguments, in the order of the call."""
        return [memory for memory in self.kernel.memories if memory.space == "global"]

    def memory_of(self, op: Op) -> Memory:
        return self.memories[op["memory"]]

    def buffered(self, op: Op, memory: Memory) -> Expr:
        """Element offset including the rotation."""
        return op["offset"] + op["buffer"] * memory.elements if memory.buffers > 1 else op["offset"]

    def product_of(self, op: Op) -> tuple[MatrixInstruction, Value, Value, Value]:
        """The instruction of a product, and its operands in the order that this takes them in."""
        name, _, swapped = op["instruction"].partition(":")
        row = self.machine.instruction(name)
        assert row is not None
        a, b, acc = op.operands
        return (row, b, a, acc) if swapped else (row, a, b, acc)

    def nested(self, emit: Callable[[], object]) -> list[str]:
        """The lines of a block of its own."""
        self.text.open()
        self.indices.open()
        emit()
        self.indices.close()
        return self.text.close()

    @contextmanager
    def when(self, mask: Mask) -> Generator[None]:
        """What is emitted inside runs only where the mask holds."""
        if not mask:
            yield
            return
        condition = self.indices.holds(mask)
        self.text.open()
        self.indices.open()
        yield
        self.indices.close()
        self.text.branch(condition, self.text.close())

    def either(
        self,
        condition: str,
        then: Callable[[], Sequence[str]],
        otherwise: Callable[[], Sequence[str]],
        types: Sequence[str] = (),
    ) -> str:
        """``MlirText.either``, of forms that compute indices of their own."""

        def apart(form: Callable[[], Sequence[str]]) -> Sequence[str]:
            self.indices.open()
            names = form()
            self.indices.close()
            return names

        return self.text.either(condition, lambda: apart(then), lambda: apart(otherwise), types)


class Emitter:
    """Writes some of the operations of a function, by methods called ``emit_`` and their name."""

    def __init__(self, function: Function) -> None:
        self.function, self.kernel, self.machine = function, function.kernel, function.machine
        self.text, self.indices, self.values = function.text, function.indices, function.values

    @classmethod
    @cache
    def operations(cls) -> frozenset[str]:
        """The names of those that it writes."""
        return frozenset(name.removeprefix("emit_") for name in dir(cls) if name.startswith("emit_"))

    def begin(self) -> None:
        """Write what comes before all operations."""

    def end(self) -> None:
        """Write what comes after them."""


def _dynamic_dims(kernel: Kernel) -> set[str]:
    extents = (pair for m in kernel.memories if m.space == "global" for pair in zip(m.dims, m.shape, strict=True))
    return {dim for dim, extent in (*extents, *kernel.sizes) if not extent.is_const}

"""Thread kernels for CPUs: vector loads with plain and masked forms."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from wavespec.emit.cpu_products import CpuProducts
from wavespec.emit.elementwise import power_by_polynomial
from wavespec.emit.masked_words import MaskedWords, are_words
from wavespec.emit.rearranged import as_units
from wavespec.emit.registers import Part, Parts, mlir_type, vector_type
from wavespec.emit.shared_divisor import is_moderate, quotient
from wavespec.emit.thread_to_mlir import BESIDE_LANES
from wavespec.emit.transpose import transposed_lines
from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Memory, Op
from wavespec.ir.thread import Mask
from wavespec.ir.thread_ops import (
    ACCUMULATE,
    ASYNC_COMMIT,
    ASYNC_WAIT,
    ATOMIC,
    COPY_ASYNC,
    ELEMENTWISE,
    FOR,
    LOAD,
    LOAD_MATRIX,
    LOAD_TILE,
    SHUFFLE,
    STAGGER,
    STORE,
)

LOCAL = "#iree_codegen.workgroup_local"
_MANY_ACCESSES = 256
"""Vectors that one step of a loop loads and stores, from which on it is a long loop."""
_FLUSH = 0x8040  # results to zero, and operands: https://cdrdv2.intel.com/v1/dl/getContent/671200, 10.2.3


class ThreadToCpu(CpuProducts):
    """Emits for the ``llvm-cpu`` backend.  Registers are lists of whole machine vectors.

    Runs of loads or stores that need bound checks are tested once: all inside takes the plain form, else every access is
    masked.  Interior tiles so pay one branch, and the compiler sees plain vector moves.
    """

    refuses = BESIDE_LANES | SHUFFLE | LOAD_TILE | LOAD_MATRIX | COPY_ASYNC | ASYNC_COMMIT | ASYNC_WAIT | STAGGER

    index_bits = 64

    def prologue(self) -> None:
        zero = self.text.constant(0, "index")
        self.buffers: dict[str, tuple[str, str]] = {}
        self.addresses: dict[str, str] = {}
        self.shared: dict[str, str] = {}  # of values that repeat one f32: its name
        self._keep_small_numbers()
        for number, memory in enumerate(self.bindings()):
            type_ = f"memref<?x{mlir_type(memory.dtype)}, #hal.descriptor_type<storage_buffer>>"
            read_only = " flags(ReadOnly)" if memory.role == "input" else ""
            count = self.indices.index(memory.elements)
            name = self.text.op(
                f"hal.interface.binding.subspan layout({self.layout}) binding({number}) alignment(16) offset({zero}){read_only} : {type_}{{{count}}}"
            )
            self.buffers[memory.name] = name, type_
        for memory in self.kernel.memories:
            if memory.space != "global":
                type_ = f"memref<{memory.elements.value * memory.buffers}x{mlir_type(memory.dtype)}, {LOCAL}>"
                name = self.text.op(
                    f'"memref.alloc"() <{{alignment = 64 : i64, operandSegmentSizes = array<i32: 0, 0>}}> : () -> {type_}'
                )
                self.buffers[memory.name] = name, type_
        self.workgroup_ids()

    def epilogue(self) -> None:
        if any(memory.streamed for memory in self.kernel.memories):  # no other store waits for streamed ones
            self.text.do('llvm.call_intrinsic "llvm.x86.sse.sfence"() : () -> ()')
        self._call_with("ldmxcsr", self.modes[0])

    def _keep_small_numbers(self) -> None:
        """IREE has its threads take numbers below the smallest normal one for zero; the caller's torch does not."""
        one = self.text.constant(1, "i32")
        self.modes = tuple(self.text.op(f"llvm.alloca {one} x i32 : (i32) -> !llvm.ptr") for _ in range(2))
        theirs, ours = self.modes
        self._call_with("stmxcsr", theirs)
        bits = self.text.op(f"llvm.load {theirs} : !llvm.ptr -> i32")
        bits = self.text.op(f"arith.andi {bits}, {self.text.constant(~_FLUSH, 'i32')} : i32")
        self.text.do(f"llvm.store {bits}, {ours} : i32, !llvm.ptr")
        self._call_with("ldmxcsr", ours)

    def _call_with(self, instruction: str, place: str) -> None:
        self.text.do(f'llvm.call_intrinsic "llvm.x86.sse.{instruction}"({place}) : (!llvm.ptr) -> ()')

    def attributes(self) -> str:
        return "translation_info = #iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline>"

    def end_body(self, op: Op) -> None:
        """Close long loops with an access that stays.

        LLVM compares each access of an innermost loop with each other one, to see whether it could be vectorized or its
        loads be carried, which for 800 of them takes 16 of 18 seconds and finds nothing.  It gives up at an access that
        it must not move, of which this is the cheapest.
        """
        if any(inner.is_(FOR) for one in op.body.ops for inner in one.walk()):
            return
        accesses = (inner for one in op.body.ops for inner in one.walk() if inner.get("memory"))
        if sum(map(self._vectors_accessed, accesses)) > _MANY_ACCESSES:
            self.text.op(f"llvm.load volatile {self.modes[0]} : !llvm.ptr -> i32")

    def _vectors_accessed(self, op: Op) -> int:
        (value,) = (*op.operands, *op.results) or (None,)
        return len(self.native_sizes(value.vector.dtype, value.vector.elements)) if value else 0

    # ----------------------------------------------------------------------------------------------------------- memory

    def block(self, ops: Sequence[Op]) -> None:
        start = 0
        while start < len(ops):
            stop = start + 1
            while stop < len(ops) and self._joins(ops[start], ops[stop]):
                stop += 1
            self.text.span = ops[start].span
            if self._shares_divisor(ops[start]):
                self._quotients(ops[start:stop])
            elif ops[start].is_(ACCUMULATE):
                self._accumulated(ops[start:stop])
            elif stop > start + 1 and ops[start].is_(ATOMIC):
                self._atomics(ops[start:stop])
            elif stop > start + 1:
                self._together(ops[start:stop])
            else:
                super().block(ops[start:stop])
            start = stop

    def _joins(self, first: Op, other: Op) -> bool:
        """Whether an operation shares the test of the one before."""
        if first.is_(ACCUMULATE) and other.is_(ACCUMULATE):
            return first["onto"] == other["onto"]
        if self._shares_divisor(first) and self._shares_divisor(other):
            return first.operands[1] == other.operands[1]
        return first.name == other.name and _bounded(first) and _bounded(other)

    def _shares_divisor(self, op: Op) -> bool:
        return op.is_(ELEMENTWISE) and op["function"] == "div" and op.operands[1].name in self.shared

    def _together(self, ops: Sequence[Op]) -> None:
        """Loads or stores with bound checks: one test, two forms."""
        types = [vector_type(op.result.vector.dtype, op.result.vector.elements) for op in ops if op.results]

        def form(*, masked: bool) -> list[str]:
            return [self._access(op, self.memory_of(op), masked=masked) for op in ops]

        condition = self.indices.holds(_all_inside(ops))
        result = self._either(condition, lambda: form(masked=False), lambda: form(masked=True), types)
        for number, op in enumerate(op for op in ops if op.results):
            self.values[op.result.name] = (Part(f"{result}#{number}", op.result.vector.elements),)

    def _atomics(self, ops: Sequence[Op]) -> None:
        """One test, two forms here too."""

        def form(each: Sequence[Op]) -> list[str]:
            for op in each:
                self._atomic(op)
            return []

        condition = self.indices.holds(_all_inside(ops))
        self._either(condition, lambda: form([op.with_(mask=()) for op in ops]), lambda: form(ops))

    def _broadcast(self, op: Op) -> None:
        super()._broadcast(op)
        if op.result.vector.dtype.name == "f32" and op.result.vector.elements > 1:
            self.shared[op.result.name] = self.whole(op.operands[0])

    def _quotients(self, ops: Sequence[Op]) -> None:
        """Divisions by the same number: one test of it, two forms."""
        divisor = ops[0].operands[1]
        sizes = self.native_sizes(divisor.vector.dtype, divisor.vector.elements)

        def form(divided: Callable[[str, str, int], str]) -> list[str]:
            by = self.parts(divisor, sizes)
            pairs = [pair for op in ops for pair in zip(self.parts(op.operands[0], sizes), by, strict=True)]
            return [divided(part.name, other.name, part.size) for part, other in pairs]

        def corrected(name: str, by: str, size: int) -> str:
            return quotient(self.text, name, by, size)

        def plain(name: str, by: str, size: int) -> str:
            return self.text.op(f"arith.divf {name}, {by} : {vector_type(divisor.vector.dtype, size)}")

        types = [vector_type(divisor.vector.dtype, size) for _ in ops for size in sizes]
        condition = is_moderate(self.text, self.shared[divisor.name])
        result = self._either(condition, lambda: form(corrected), lambda: form(plain), types)
        names = (Part(f"{result}#{number}", size) for number, size in enumerate(sizes * len(ops)))
        for op in ops:
            self.values[op.result.name] = tuple(itertools.islice(names, len(sizes)))

    def accumulate(self, op: Op, memory: Memory) -> None:
        self._accumulated([op])

    def _accumulated(self, ops: Sequence[Op]) -> None:
        """Sums into memory.  Each value is read, added and stored on its own, so that few of them need a register at a time."""

        def form(*, masked: bool, add: bool) -> list[str]:
            for op in ops:
                self._accumulate_one(op, self.memory_of(op), masked=masked, add=add)
            return []

        def inside() -> list[str]:
            onto: tuple[tuple[Expr, Expr], ...] = ops[0]["onto"]
            if not onto:
                return form(masked=False, add=True)
            self._either(
                self.indices.holds(onto), lambda: form(masked=False, add=True), lambda: form(masked=False, add=False)
            )
            return []

        checks = _all_inside(ops)
        if checks:
            self._either(self.indices.holds(checks), inside, lambda: form(masked=True, add=True))
        else:
            inside()

    def _accumulate_one(self, op: Op, memory: Memory, *, masked: bool, add: bool) -> None:
        vector, offset = op.operands[0].vector, self.buffered(op, memory)
        type_ = vector_type(vector.dtype, vector.elements)
        value = self.whole(op.operands[0])
        if add:
            mask = (*op["mask"], *op["onto"])
            before = (
                self._masked(memory, offset, vector.elements, mask, op["valid"])
                if masked
                else self._plain(memory, offset, vector.elements)
            )
            value = self.text.op(f"arith.{'addf' if vector.dtype.is_float else 'addi'} {value}, {before} : {type_}")
        if masked:
            self._masked(memory, offset, vector.elements, op["mask"], op["valid"], store=value)
        else:
            self._plain(memory, offset, vector.elements, store=value)

    def _either(
        self,
        condition: str,
        then: Callable[[], list[str]],
        otherwise: Callable[[], list[str]],
        types: Sequence[str] = (),
    ) -> str:
        """``MlirText.either``, of forms that compute indices of their own."""

        def apart(form: Callable[[], list[str]]) -> list[str]:
            self.indices.open()
            names = form()
            self.indices.close()
            return names

        return self.text.either(condition, lambda: apart(then), lambda: apart(otherwise), types)

    def load(self, op: Op, memory: Memory) -> Parts:
        sizes = (
            [op.result.vector.elements] if _bounded(op) else self.native_sizes(memory.dtype, op.result.vector.elements)
        )
        if len(sizes) == 1:
            return (Part(self._access(op, memory, masked=_bounded(op)), sizes[0]),)
        starts = itertools.accumulate(sizes, initial=0)
        offset = self.buffered(op, memory)
        return tuple(
            Part(self._plain(memory, offset + at, size), size) for at, size in zip(starts, sizes, strict=False)
        )

    def store(self, op: Op, memory: Memory) -> None:
        if _bounded(op):
            self._access(op, memory, masked=True)
            return
        (value,), offset = op.operands, self.buffered(op, memory)
        for part in self.parts(value, self.native_sizes(memory.dtype, value.vector.elements)):
            self._store_whole(memory, offset, part)
            offset = offset + part.size

    def global_pointer(self, memory: Memory, offset: Expr) -> tuple[str, str]:
        if memory.name not in self.addresses:
            buffer, type_ = self.buffers[memory.name]
            start = self.text.op(f"memref.extract_aligned_pointer_as_index {buffer} : {type_} -> index", 0)
            self.addresses[memory.name] = self.text.op(f"arith.index_cast {start} : index to i64", 0)
        start = self.addresses[memory.name]
        bytes_ = self.indices.integer(offset * memory.dtype.bytes, 64)
        address = self.text.op(f"arith.addi {start}, {bytes_} : i64")
        return self.text.op(f"llvm.inttoptr {address} : i64 to !llvm.ptr"), "!llvm.ptr"

    def prefetch(self, op: Op, memory: Memory) -> None:
        (buffer, type_), use = self.buffers[memory.name], "read" if memory.role == "input" else "write"
        self.text.do(
            f"memref.prefetch {buffer}[{self.indices.index(op['offset'])}], {use}, locality<3>, data : {type_}"
        )

    def _access(self, op: Op, memory: Memory, *, masked: bool) -> str:
        """One load (returns the value) or store (returns nothing of use)."""
        size, offset = (op.result if op.results else op.operands[0]).vector.elements, self.buffered(op, memory)
        value = self.whole(op.operands[0]) if op.operands else ""
        if masked:
            return self._masked(memory, offset, size, op["mask"], op["valid"], store=value)
        if not value:
            return self._plain(memory, offset, size)
        self._store_whole(memory, offset, Part(value, size))
        return ""

    def _masked(self, memory: Memory, offset: Expr, size: int, mask: Mask, valid: Expr | None, store: str = "") -> str:
        (buffer, type_), at = self.buffers[memory.name], self.indices.index(offset)
        value_type, lanes = vector_type(memory.dtype, size), f"vector<{size}xi1>"
        vector_text = value_type if size > 1 else f"vector<1x{value_type}>"
        count = self.indices.index(valid) if valid is not None else self.text.constant(size, "index")
        if mask:
            holds, none = self.indices.holds(mask), self.text.constant(0, "index")
            count = self.text.op(f"arith.select {holds}, {count}, {none} : index")
        if self.machine.masked_bits > memory.dtype.bits and are_words(memory.dtype, size):
            return self._masked_words(memory, offset, size, count, store, is_cut=valid is not None)
        some = self.text.op(f"vector.create_mask {count} : {lanes}")
        if not store:
            zero = self.text.constant(0, vector_text)
            name = self.text.op(
                f"vector.maskedload {buffer}[{at}], {some}, {zero} : {type_}, {lanes}, {vector_text} into {vector_text}"
            )
            return name if size > 1 else self.text.op(f"vector.extract {name}[0] : {value_type} from {vector_text}")
        if size == 1:
            store = self.text.op(f"vector.broadcast {store} : {value_type} to {vector_text}")
        self.text.do(f"vector.maskedstore {buffer}[{at}], {some}, {store} : {type_}, {lanes}, {vector_text}")
        return ""

    def _masked_words(self, memory: Memory, offset: Expr, size: int, count: str, store: str, *, is_cut: bool) -> str:
        if is_cut:
            none, all_ = (self.text.constant(number, "index") for number in (0, size))
            count = self.text.op(f"arith.maxsi {count}, {none} : index")
            count = self.text.op(f"arith.minsi {count}, {all_} : index")
        pointer, at = self.global_pointer(memory, offset)[0], self.indices.index(offset)
        words = MaskedWords(self.text, memory.dtype, size, pointer, *self.buffers[memory.name], at, count, is_cut)
        if not store:
            return words.load()
        words.store(store)
        return ""

    def _plain(self, memory: Memory, offset: Expr, size: int, store: str = "") -> str:
        (buffer, type_), at = self.buffers[memory.name], self.indices.index(offset)
        value_type = vector_type(memory.dtype, size)
        if store:
            text = (
                f"vector.store {store}, {buffer}[{at}] : {type_}, {value_type}"
                if size > 1
                else f"memref.store {store}, {buffer}[{at}] : {type_}"
            )
            self.text.do(text)
            return ""
        return self.text.op(
            f"vector.load {buffer}[{at}] : {type_}, {value_type}"
            if size > 1
            else f"memref.load {buffer}[{at}] : {type_}"
        )

    def _store_whole(self, memory: Memory, offset: Expr, part: Part) -> None:
        """A store without bound checks: past the caches where that is asked for, and a vector register is whole and
        aligned."""
        unit = self.machine.vector_bytes
        if not memory.streamed or part.size * memory.dtype.bytes % unit or offset.divisor * memory.dtype.bytes % unit:
            self._plain(memory, offset, part.size, store=part.name)
            return
        (buffer, type_), at = self.buffers[memory.name], self.indices.index(offset)
        how = f"<{{alignment = {unit} : i64, nontemporal = true}}>"
        types = f"({vector_type(memory.dtype, part.size)}, {type_}, index) -> ()"
        self.text.do(f'"vector.store"({part.name}, {buffer}, {at}) {how} : {types}')

    def convert(self, name: str, before: DType, after: DType, old: str, new: str) -> str:
        if after.name == "bf16" and not before.is_float:
            middle = old.replace(mlir_type(before), "f32")
            return self._rounded_to_bf16(self.convert(name, before, DTYPES["f32"], old, middle), middle)
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
        if function not in ("maximum", "minimum") or not dtype.is_float:
            return super().step(function, names, dtype, size)
        type_ = vector_type(dtype, size)  # which of two zeros it is takes machines two instructions to tell
        how = f"<{{fastmathFlags = #llvm.fastmath<nsz>}}> : ({type_}, {type_}) -> {type_}"
        return self.text.op(f'"llvm.intr.{function}"({", ".join(names)}) {how}')

    def exp2(self, name: str, size: int) -> str:
        return power_by_polynomial(self.text, name, size)

    def barrier(self, op: Op) -> None:
        raise AssertionError("waves that run one after another need no barrier")

    # ---------------------------------------------------------------------------------------------------------- compute

    def _transpose(self, op: Op) -> None:
        (value,) = op.operands
        rows, columns, unit = op["rows"], op["columns"], op["unit"]
        if rows != columns:
            super()._transpose(op)
            return
        dtype = value.vector.dtype
        lines = [part.name for part in self.parts(value, [columns * unit] * rows)]
        element, plain = f"i{dtype.bits * unit}" if unit > 1 else mlir_type(dtype), vector_type(dtype, columns * unit)
        if unit > 1:
            lines = [as_units(self.text, line, dtype, plain, f"vector<{columns}x{element}>") for line in lines]
        lines = transposed_lines(self.text, lines, columns, element)
        if unit > 1:
            turned = vector_type(dtype, rows * unit)
            lines = [self.text.op(f"vector.bitcast {line} : vector<{rows}x{element}> to {turned}") for line in lines]
        self.values[op.result.name] = tuple(Part(line, rows * unit) for line in lines)


def _bounded(op: Op) -> bool:
    return op.is_(LOAD, STORE, ACCUMULATE, ATOMIC) and (bool(op["mask"]) or op.get("valid") is not None)


def _all_inside(ops: Sequence[Op]) -> tuple[tuple[Expr, Expr], ...]:
    """The fewest comparisons that put every element of every access inside: of a family ``x + c < n`` the largest c."""
    largest: dict[tuple[Expr, Expr], int] = {}
    for op in ops:
        elements = (op.result if op.results else op.operands[0]).vector.elements
        pairs = list(op["mask"])
        if (valid := op.get("valid")) is not None:
            pairs.append((0 - valid + elements - 1, 0 - valid + valid))
        for left, right in pairs:
            key = (left - left.constant_part(), right)
            largest[key] = max(largest.get(key, left.constant_part()), left.constant_part())
    return tuple((base + constant, right) for (base, right), constant in largest.items())

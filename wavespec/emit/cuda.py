"""Thread kernels for NVIDIA: pointers, `cp.async`, `ldmatrix`, `mma.sync`."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.emit.cuda_products import mma_sync, mma_sync_split, outer_product, outer_product_of_sums, word_type
from wavespec.emit.registers import Part, Parts, mlir_type, vector_type
from wavespec.emit.thread_to_mlir import BESIDE_LANES, ThreadToMlir
from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Memory, Op, Value
from wavespec.ir.thread_ops import ACCUMULATE, ASYNC_WAIT, CAST, LOAD_TILE, PREFETCH, SLICE, STAGGER, STORE
from wavespec.targets.machine import MatrixInstruction

_SHARED = "#gpu.address_space<workgroup>"
_ALIGNMENT_BYTES = 16  # of the widest access
_EVERYTHING = 2**63 - 1  # bytes of a binding, as far as the subspan is concerned: bounds are ours


class ThreadToCuda(ThreadToMlir):
    """Emits for the ``cuda`` backend.

    Bare pointers, 64-bit addresses where a tensor may be large, one masked kernel for all sizes.
    """

    refuses = BESIDE_LANES | ACCUMULATE | PREFETCH | LOAD_TILE | STAGGER

    def prologue(self) -> None:
        self.pointers: dict[str, str] = {}
        for number, memory in enumerate(self.bindings()):
            self.pointers[memory.name] = self.binding(number, 1, read_only=memory.role == "input")
        if self.shared_bytes():
            buffer = f"memref<{self.shared_bytes()}xi8, {_SHARED}>"
            place = self.text.op(f"memref.alloc() alignment = 1024 : {buffer}")
            start = self._pointer(place, buffer, "i32", 3)
            for name, bytes_ in self.places().items():
                self.pointers[name] = self.text.op(
                    f"llvm.getelementptr {start}[{bytes_.start}] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8"
                )
        self.workgroup_ids()
        self.lanes_and_waves(self.text.op("nvvm.read.ptx.sreg.tid.x : i32"))

    def places(self) -> dict[str, range]:
        """The bytes of workgroup memory that each memory has."""
        found: dict[str, range] = {}
        end = 0
        for memory in self.kernel.memories:
            if memory.space == "shared":
                start = -(-end // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
                end = start + memory.elements.value * memory.buffers * memory.dtype.bytes
                found[memory.name] = range(start, end)
        return found

    def shared_bytes(self) -> int:
        return max((bytes_.stop for bytes_ in self.places().values()), default=0)

    def binding(self, number: int, space: int, *, read_only: bool = True) -> str:
        """Pointer to an argument; all pointers are made in the outermost block."""
        zero, size = self.text.constant(0, "index"), self.text.constant(_EVERYTHING, "index")
        buffer = "memref<?xi8, #hal.descriptor_type<storage_buffer>>"
        name = self.text.op(
            f"hal.interface.binding.subspan layout({self.layout}) binding({number}) alignment(16) "
            f"offset({zero}){' flags(ReadOnly)' if read_only else ''} : {buffer}{{{size}}}",
            depth=0,
        )
        return self._pointer(name, buffer, "i64", space)

    def _pointer(self, memref: str, type_: str, integer: str, space: int) -> str:
        address = self.text.op(f"memref.extract_aligned_pointer_as_index {memref} : {type_} -> index", depth=0)
        address = self.text.op(f"arith.index_cast {address} : index to {integer}", depth=0)
        return self.text.op(f"llvm.inttoptr {address} : {integer} to !llvm.ptr<{space}>", depth=0)

    def attributes(self) -> str:
        return (
            "translation_info = #iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline "
            f"workgroup_size = [{self.kernel.threads}, 1, 1] subgroup_size = {self.machine.lanes}>"
        )

    def loop_attribute(self) -> str:
        return " {llvm.loop_annotation = #llvm.loop_annotation<unroll = <disable = true>>}"

    def _address(self, memory: Memory, offset: Expr) -> str:
        """Pointer to an element; the constant part of the offset becomes an immediate of the access."""
        constant = offset.constant_part()
        space, bits = (1, 64) if memory.space == "global" else (3, 32)
        element, pointer = mlir_type(memory.dtype), f"!llvm.ptr<{space}>"
        at, start = self.indices.integer(offset - constant, bits), self.pointers[memory.name]
        name = self.text.op(f"llvm.getelementptr {start}[{at}] : ({pointer}, i{bits}) -> {pointer}, {element}")
        if not constant:
            return name
        return self.text.op(f"llvm.getelementptr {name}[{constant}] : ({pointer}) -> {pointer}, {element}")

    atomic_order = 'syncscope("device") monotonic'

    def global_pointer(self, memory: Memory, offset: Expr) -> tuple[str, str]:
        return self._address(memory, offset), "!llvm.ptr<1>"

    def load(self, op: Op, memory: Memory) -> Parts:
        size, dtype = op.result.vector.elements, memory.dtype
        type_ = vector_type(dtype, size)
        zero = self.text.constant(0, type_)
        if not op["mask"]:
            return (Part(self._load_text(memory, op, type_), size),)
        condition = self.indices.holds(op["mask"])
        self.text.open()
        self.indices.open()
        inside = self._load_text(memory, op, type_)
        self.text.do(f"scf.yield {inside} : {type_}")
        self.indices.close()
        lines = self.text.close()
        result = self.text.name()
        block = self.text.blocks[-1]
        block.append(f"{result} = scf.if {condition} -> ({type_}) {{")
        block.extend(lines)
        block.append("} else {")
        block.append(f"  scf.yield {zero} : {type_}")
        self.text.do("}")
        return (Part(result, size),)

    def _load_text(self, memory: Memory, op: Op, type_: str) -> str:
        pointer = self._address(memory, self.buffered(op, memory))
        space = 3 if memory.space == "shared" else 1
        align = op.result.vector.elements * memory.dtype.bytes
        attributes = f"alignment = {align} : i64, ordering = 0 : i64"
        return self.text.op(f'"llvm.load"({pointer}) <{{{attributes}}}> : (!llvm.ptr<{space}>) -> {type_}')

    def store(self, op: Op, memory: Memory) -> None:
        (value,) = op.operands
        with self.when(op["mask"]):
            self._store_text(memory, self.buffered(op, memory), self.whole(value), value.vector.elements)

    def _store_text(self, memory: Memory, offset: Expr, name: str, size: int) -> None:
        pointer, type_ = self._address(memory, offset), vector_type(memory.dtype, size)
        space, align = 3 if memory.space == "shared" else 1, size * memory.dtype.bytes
        attributes = f"alignment = {align} : i64, ordering = 0 : i64"
        types = f"({type_}, !llvm.ptr<{space}>) -> ()"
        self.text.do(f'"llvm.store"({name}, {pointer}) <{{{attributes}}}> : {types}')

    def block(self, ops: Sequence[Op]) -> None:
        """Stores whose alignment the sizes of a call decide come in runs; a run has one uniform branch."""
        start = 0
        for at, op in enumerate(ops):
            if op.is_(STORE) and op["valid"] is not None and at >= start:
                end = next((i for i in range(at, len(ops)) if not self._in_run(ops[i])), len(ops))
                super().block([*ops[start:at], *(one for one in ops[at:end] if not one.is_(STORE))])
                self._store_run([one for one in ops[at:end] if one.is_(STORE)])
                start = end
        super().block(ops[start:])

    def _in_run(self, op: Op) -> bool:
        return op.is_(SLICE, CAST) or (op.is_(STORE) and self.memory_of(op).space == "global")

    def _store_run(self, stores: Sequence[Op]) -> None:
        """Wide stores where rows are multiples of the width: then each is inside its row, or not at all."""
        parts: list[tuple[Op, Memory, list[str]]] = []
        wholes = [self.whole(op.operands[0]) for op in stores]
        rows: dict[Expr, None] = {}
        for op in stores:
            memory, size = self.memory_of(op), op.operands[0].vector.elements
            if op["valid"] is not None:
                rows[memory.shape[-1] % size] = None
            parts.append((op, memory, [part.name for part in self.parts(op.operands[0], [1] * size)]))
        self.text.span = stores[0].span
        condition = self.indices.holds(tuple((left_over, const(1)) for left_over in rows))
        self.text.open()
        self.indices.open()
        for (op, memory, names), whole in zip(parts, wholes, strict=True):
            inside = () if (valid := op["valid"]) is None else ((const(0), valid),)
            with self.when((*op["mask"], *inside)):
                self._store_text(memory, op["offset"], whole, len(names))
        self.indices.close()
        wide = self.text.close()
        self.text.open()
        self.indices.open()
        for op, memory, names in parts:
            for number, name in enumerate(names):
                inside = () if (valid := op["valid"]) is None else ((const(number), valid),)
                with self.when((*op["mask"], *inside)):
                    self._store_text(memory, op["offset"] + number, name, 1)
        self.indices.close()
        narrow = self.text.close()
        self.text.blocks[-1] += [f"scf.if {condition} {{", *wide, "} else {", *narrow]
        self.text.do("}")

    def load_matrix(self, op: Op, memory: Memory) -> Parts:
        count = op["count"]
        pointer = self._address(memory, self.buffered(op, memory))
        struct = "i32" if count == 1 else f"!llvm.struct<({', '.join(['i32'] * count)})>"
        attributes = (
            f"layout = #nvvm.mma_layout<row>, num = {count} : i32, "
            "shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>"
        )
        name = self.text.op(f'"nvvm.ldmatrix"({pointer}) <{{{attributes}}}> : (!llvm.ptr<3>) -> {struct}')
        words = [self.text.op(f"llvm.extractvalue {name}[{i}] : {struct}") for i in range(count)]
        per_word = 4 // memory.dtype.bytes
        type_ = vector_type(memory.dtype, per_word)
        return tuple(Part(self.text.op(f"llvm.bitcast {word} : i32 to {type_}"), per_word) for word in words)

    def copy_async(self, op: Op, source: Memory, memory: Memory) -> None:
        """Zero-fill is a source size of 0, so that a masked-off copy needs no branch."""
        bytes_ = op["elements"] * memory.dtype.bytes
        to = self._address(memory, self.buffered(op, memory))
        start = self._address(source, op["source_offset"])
        cache = "cg" if bytes_ == 16 else "ca"
        size, types = "", "!llvm.ptr<3>, !llvm.ptr<1>"
        if op["mask"]:
            inside = self.indices.holds(op["mask"])
            all_, none = self.text.constant(bytes_, "i32"), self.text.constant(0, "i32")
            size = ", " + self.text.op(f"arith.select {inside}, {all_}, {none} : i32")
            types += ", i32"
        self.text.do(f"nvvm.cp.async.shared.global {to}, {start}, {bytes_}, cache = {cache}{size} : {types}")

    def asynchronous(self, op: Op) -> None:
        wait = op.is_(ASYNC_WAIT)
        self.text.do(f"nvvm.cp.async.wait.group {op['pending']}" if wait else "nvvm.cp.async.commit.group")

    def exp2(self, name: str, size: int) -> str:
        assert size == 1, "registers of floating point are scalars"
        return self.text.op(f'llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"({name}) : (f32) -> f32')

    def barrier(self, op: Op) -> None:
        self.text.do("nvvm.barrier")

    def shuffle(self, word: str, mask: int) -> str:
        everyone, distance, clamp = (self.text.constant(value, "i32") for value in (-1, mask, 31))
        return self.text.op(f"nvvm.shfl.sync bfly {everyone}, {word}, {distance}, {clamp} : i32 -> i32")

    def cast_sizes(self, value: Value, after: DType) -> list[int]:
        elements = value.vector.elements
        before = value.vector.dtype
        by_f32 = before.kind in ("int", "uint") and before.bits < 16  # words of four elements
        if _in_pairs(DTYPES["f32"] if by_f32 else before, after) and elements % 2 == 0:
            return [2] * (elements // 2)
        return super().cast_sizes(value, after)

    def convert(self, name: str, before: DType, after: DType, old: str, new: str) -> str:
        if _in_pairs(before, after) and old.startswith("vector"):  # what LLVM would take apart for narrow stores
            high, low = (self.text.op(f"vector.extract {name}[{i}] : f32 from {old}") for i in (1, 0))
            nearest = "<{rnd = #nvvm.fp_rnd_mode<rn>}>"
            return self.text.op(
                f'"nvvm.convert.f32x2.to.{after.name}x2"({high}, {low}) {nearest} : (f32, f32) -> {new}'
            )
        if _in_pairs(before, after):  # IREE makes integer arithmetic of the dialect-neutral form
            return self.text.op(f"llvm.fptrunc {name} : {old} to {new}")
        return super().convert(name, before, after, old, new)

    def native_sizes(self, dtype: DType, elements: int) -> list[int]:
        """32-bit registers: accumulators as scalars, which LLVM need not take apart, fragments as words."""
        size = 1 if dtype.kind == "bool" else max(1, 4 // dtype.bytes)  # flags are registers of their own
        return [size] * (elements // size) if elements % size == 0 else [1] * elements

    def mma(self, op: Op, row: MatrixInstruction, a: Value, b: Value, acc: Value) -> Parts:
        family = row.emit.split(":")[0]
        make, word = _PRODUCTS[family]
        left, right = (self._words(value, word_type(row)) if word else self._scalars(value) for value in (a, b))
        return tuple(Part(name, 1) for name in make(self.text, row, left, right, self._scalars(acc)))

    def _scalars(self, value: Value) -> list[str]:
        return [part.name for part in self.parts(value, [1] * value.vector.elements)]

    def _words(self, value: Value, word: str) -> list[str]:
        """32-bit registers of an operand, as the instruction takes them."""
        dtype = value.vector.dtype
        size = 4 // dtype.bytes
        type_ = vector_type(dtype, size)
        parts = self.parts(value, [size] * (value.vector.elements // size))
        if type_ == word:
            return [part.name for part in parts]
        return [self.text.op(f"llvm.bitcast {part.name} : {type_} to {word}") for part in parts]


def _in_pairs(before: DType, after: DType) -> bool:
    """Whether one instruction converts two elements."""
    return before.name == "f32" and after.name in ("f16", "bf16")


# How an instruction family is emitted, and whether it takes its operands as 32-bit words.
_PRODUCTS = {
    "fma": (outer_product, False),
    "fma_sums": (outer_product_of_sums, False),
    "mma_sync": (mma_sync, True),
    "mma_sync_split": (mma_sync_split, True),
}

"""Thread kernels for NVIDIA: pointers, `cp.async`, `ldmatrix`, `mma.sync`."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.emit.registers import Part, Parts, mlir_type, vector_type
from wavespec.emit.thread_to_mlir import ThreadToMlir
from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Memory, Op, Value
from wavespec.targets.machine import Fragment, MatrixInstruction

_SHARED = "#gpu.address_space<workgroup>"
_EVERYTHING = 2**63 - 1  # bytes of a binding, as far as the subspan is concerned: bounds are ours


class ThreadToCuda(ThreadToMlir):
    """Emits for the ``cuda`` backend: bare pointers, 64-bit addresses where a tensor may be large, one masked kernel for all sizes."""

    def prologue(self) -> None:
        zero, size = self.text.constant(0, "index"), self.text.constant(_EVERYTHING, "index")
        self.pointers: dict[str, str] = {}
        for number, memory in enumerate(self.bindings()):
            buffer = "memref<?xi8, #hal.descriptor_type<storage_buffer>>"
            read_only = " flags(ReadOnly)" if memory.role == "input" else ""
            name = self.text.op(
                f"hal.interface.binding.subspan layout({self.layout}) binding({number}) alignment(16) offset({zero}){read_only} : {buffer}{{{size}}}"
            )
            self.pointers[memory.name] = self._pointer(name, buffer, "i64", 1)
        if self.shared_bytes():
            buffer = f"memref<{self.shared_bytes()}xi8, {_SHARED}>"
            start = self._pointer(self.text.op(f"memref.alloc() alignment = 1024 : {buffer}"), buffer, "i32", 3)
            offset = 0
            for memory in self.kernel.memories:
                if memory.space == "shared":
                    self.pointers[memory.name] = self.text.op(f"llvm.getelementptr {start}[{offset}] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8")
                    offset += memory.elements.value * memory.buffers * memory.dtype.bytes
        self.workgroup_ids()
        self.lanes_and_waves(self.text.op("nvvm.read.ptx.sreg.tid.x : i32"))

    def workgroup_ids(self) -> None:
        """Workgroups in bands of ``group`` along axis 0, so that those that run together share what they read.

        The machine hands out ids along axis 0 first.  With a group, they walk over a band of ``group`` rows and all columns.
        """
        super().workgroup_ids()
        group = self.kernel.distribution.group if self.kernel.distribution.group > 1 else self.machine.raster_group
        if group == 1 or len(self.kernel.grid) != 2:
            return
        rows, columns = (self.indices.integer(extent, 32) for extent in self.kernel.grid)
        row, column = self.indices.symbols["wg0"].name, self.indices.symbols["wg1"].name

        def compute(verb: str, left: str, right: str) -> str:
            return self.text.op(f"arith.{verb} {left}, {right} : i32")

        size = self.text.constant(group, "i32")
        number = compute("addi", compute("muli", column, rows), row)
        band = compute("muli", columns, size)
        first = compute("muli", compute("divui", number, band), size)
        height = compute("minsi", compute("subi", rows, first), size)
        inside = compute("remui", number, band)
        self.indices.define("wg0", compute("addi", first, compute("remui", inside, height)), 32)
        self.indices.define("wg1", compute("divui", inside, height), 32)

    def _pointer(self, memref: str, type_: str, integer: str, space: int) -> str:
        address = self.text.op(f"memref.extract_aligned_pointer_as_index {memref} : {type_} -> index")
        address = self.text.op(f"arith.index_cast {address} : index to {integer}")
        return self.text.op(f"llvm.inttoptr {address} : {integer} to !llvm.ptr<{space}>")

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
        space, bits = (3, 32) if memory.space == "shared" else (1, 64)
        element, pointer = mlir_type(memory.dtype), f"!llvm.ptr<{space}>"
        at = self.indices.integer(offset - constant, bits)
        name = self.text.op(f"llvm.getelementptr {self.pointers[memory.name]}[{at}] : ({pointer}, i{bits}) -> {pointer}, {element}")
        return self.text.op(f"llvm.getelementptr {name}[{constant}] : ({pointer}) -> {pointer}, {element}") if constant else name

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
        return self.text.op(f'"llvm.load"({pointer}) <{{alignment = {align} : i64, ordering = 0 : i64}}> : (!llvm.ptr<{space}>) -> {type_}')

    def store(self, op: Op, memory: Memory) -> None:
        (value,) = op.operands
        with self.when(op["mask"]):
            self._store_text(memory, self.buffered(op, memory), self.whole(value), value.vector.elements)

    def _store_text(self, memory: Memory, offset: Expr, name: str, size: int) -> None:
        pointer, type_ = self._address(memory, offset), vector_type(memory.dtype, size)
        space, align = 3 if memory.space == "shared" else 1, size * memory.dtype.bytes
        self.text.do(f'"llvm.store"({name}, {pointer}) <{{alignment = {align} : i64, ordering = 0 : i64}}> : ({type_}, !llvm.ptr<{space}>) -> ()')

    def block(self, ops: Sequence[Op]) -> None:
        """Stores whose alignment only the sizes of a call decide come in runs; a run has one branch, the same for all lanes."""
        start = 0
        for at, op in enumerate(ops):
            if op.name == "store" and op["valid"] is not None and at >= start:
                end = next((i for i in range(at, len(ops)) if ops[i].name not in ("store", "slice", "cast")), len(ops))
                super().block([*ops[start:at], *(one for one in ops[at:end] if one.name != "store")])
                self._store_run([one for one in ops[at:end] if one.name == "store"])
                start = end
        super().block(ops[start:])

    def _store_run(self, stores: Sequence[Op]) -> None:
        """Wide stores where rows are multiples of the width, so that a store is inside its row as a whole or not at all."""
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
            inside = () if op["valid"] is None else ((const(0), op["valid"]),)
            with self.when((*op["mask"], *inside)):
                self._store_text(memory, op["offset"], whole, len(names))
        self.indices.close()
        wide = self.text.close()
        self.text.open()
        self.indices.open()
        for op, memory, names in parts:
            for number, name in enumerate(names):
                inside = () if op["valid"] is None else ((const(number), op["valid"]),)
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
        name = self.text.op(
            f'"nvvm.ldmatrix"({pointer}) <{{layout = #nvvm.mma_layout<row>, num = {count} : i32, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, '
            f"eltType = #nvvm.ld_st_matrix_elt_type<b16>}}> : (!llvm.ptr<3>) -> {struct}"
        )
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
        self.text.do("nvvm.cp.async.commit.group" if op.name == "async_commit" else f"nvvm.cp.async.wait.group {op['pending']}")

    def barrier(self) -> None:
        self.text.do("nvvm.barrier")

    def native_sizes(self, dtype: DType, elements: int) -> list[int]:
        """One 32-bit register each: accumulators as scalars, which LLVM need not take apart, fragments as the words of an mma."""
        size = max(1, 4 // dtype.bytes)
        return [size] * (elements // size) if elements % size == 0 else [1] * elements

    def mma(self, op: Op, row: MatrixInstruction, a: Value, b: Value, acc: Value) -> Parts:
        family = row.emit.split(":")[0]
        if family == "fma":
            return self._outer_product(row, a, b, acc)
        word = "vector<2xf16>" if row.a.dtype.name == "f16" else "i32"
        left, right = (self._words(value, word) for value in (a, b))
        total = [part.name for part in self.parts(acc, [1] * acc.vector.elements)]
        if family == "mma_sync":
            return tuple(Part(name, 1) for name in self._mma_sync(row, left, right, total))
        assert family == "mma_sync_split", f"nothing emits '{row.emit}'"
        return tuple(Part(name, 1) for name in self._mma_sync_split(row, left, right, total))

    def _mma_sync_split(self, row: MatrixInstruction, left: list[str], right: list[str], total: list[str]) -> list[str]:
        """Products of high and low parts, small ones first.

        The matrix unit truncates what it adds up, hence a sum of its own per step, which a rounding addition takes to the total.
        """
        (high_a, low_a), (high_b, low_b) = self._split(left), self._split(right)
        part = [self.text.constant(0, "f32")] * len(total)
        for a, b in ((low_a, high_b), (high_a, low_b), (high_a, high_b)):
            part = self._mma_sync(row, a, b, part)
        return [self.text.op(f"arith.addf {old}, {new} : f32") for old, new in zip(total, part, strict=True)]

    def _split(self, words: list[str]) -> tuple[list[str], list[str]]:
        """The leading 11 bits of the significand of f32 words, and what they leave."""
        mask = self.text.constant(-(1 << 13), "i32")
        high = [self.text.op(f"arith.andi {word}, {mask} : i32") for word in words]
        low: list[str] = []
        for word, part in zip(words, high, strict=True):
            a, b = (self.text.op(f"arith.bitcast {name} : i32 to f32") for name in (word, part))
            low.append(self.text.op(f"arith.bitcast {self.text.op(f'arith.subf {a}, {b} : f32')} : f32 to i32"))
        return high, low

    def _mma_sync(self, row: MatrixInstruction, left: list[str], right: list[str], total: list[str]) -> list[str]:
        word = "vector<2xf16>" if row.a.dtype.name == "f16" else "i32"
        element = mlir_type(row.acc.dtype)
        counts, size = [len(left), len(right)], len(total)
        operands = [*((name, word) for name in (*left, *right)), *((name, element) for name in total)]
        kind = {"i8": "s8", "f32": "tf32"}.get(row.a.dtype.name, row.a.dtype.name)
        overflow = "" if row.acc.dtype.is_float else "intOverflowBehavior = #nvvm.mma_int_overflow<wrapped>, "
        struct = f"!llvm.struct<({', '.join([element] * size)})>"
        result = self.text.op(
            f'"nvvm.mma.sync"({", ".join(n for n, _ in operands)}) <{{{overflow}operandSegmentSizes = array<i32: {counts[0]}, {counts[1]}, {size}>, '
            f"layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<{kind}>, "
            f"multiplicandBPtxType = #nvvm.mma_type<{kind}>, shape = #nvvm.shape<m = {row.m}, n = {row.n}, k = {row.k}>}}> : "
            f"({', '.join(t for _, t in operands)}) -> {struct}"
        )
        return [self.text.op(f"llvm.extractvalue {result}[{i}] : {struct}") for i in range(size)]

    def _words(self, value: Value, word: str) -> list[str]:
        """32-bit registers of an operand, as the instruction takes them."""
        dtype = value.vector.dtype
        per_word = 4 // dtype.bytes
        type_ = vector_type(dtype, per_word)
        parts = self.parts(value, [per_word] * (value.vector.elements // per_word))
        return [part.name if type_ == word else self.text.op(f"llvm.bitcast {part.name} : {type_} to {word}") for part in parts]

    def _outer_product(self, row: MatrixInstruction, a: Value, b: Value, acc: Value) -> Parts:
        """Plain multiply-adds of one lane: every pair of its rows and columns, k by k."""
        rows, columns = _extent(row.a, "m"), _extent(row.b, "n")
        depth = _extent(row.a, "k")
        left, right = (self.parts(v, [1] * v.vector.elements) for v in (a, b))
        total = [part.name for part in self.parts(acc, [1] * acc.vector.elements)]
        type_ = mlir_type(acc.vector.dtype)
        for k in range(depth):
            for m in range(rows):
                for n in range(columns):
                    at = m * columns + n
                    total[at] = self.text.op(f"math.fma {left[m * depth + k].name}, {right[n * depth + k].name}, {total[at]} : {type_}")
        return tuple(Part(name, 1) for name in total)


def _extent(fragment: Fragment, dim: str) -> int:
    axes = fragment.layout.axes
    return next((axis.extent for axis in axes if axis.stride(dim)), 1)

"""Thread kernels for CDNA: buffer accesses with hardware bounds, LDS as memrefs, MFMA."""

from __future__ import annotations

from wavespec.emit.indices import uniform_and_varying
from wavespec.emit.registers import Part, Parts, mlir_type, vector_type
from wavespec.emit.thread_to_mlir import ThreadToMlir
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Memory, Op, Value
from wavespec.targets.machine import MatrixInstruction

_LDS = "#gpu.address_space<workgroup>"
_GLOBAL = "#gpu.address_space<global>"
_RECORDS = 0x7FFFFFF0  # bytes that a descriptor covers; an offset of as much is out of range, so it reads 0 and stores nothing
_DESCRIPTOR_FLAGS = 0x27000  # raw buffer, 32-bit data format: CDNA3 ISA, buffer resource descriptor


class ThreadToRocm(ThreadToMlir):
    """Emits for the ``rocm`` backend.

    Global memory goes through buffer descriptors: the base is the 64-bit address of what all lanes share (workgroup and tile),
    the scalar offset is what the loop adds, the vector offset is the lane's own.  A masked-off lane gets an offset that the
    hardware refuses, so there are no branches.  A tile's own offsets must stay below 2 GiB.
    """

    def prologue(self) -> None:
        zero = self.text.constant(0, "index")
        self.pointers: dict[str, str] = {}
        self.descriptors: dict[tuple[str, Expr], str] = {}
        for number, memory in enumerate(self.bindings()):
            element = mlir_type(memory.dtype)
            buffer = f"memref<?x{element}, #hal.descriptor_type<storage_buffer>>"
            read_only = " flags(ReadOnly)" if memory.role == "input" else ""
            count = self.indices.index(memory.elements)
            name = self.text.op(
                f"hal.interface.binding.subspan layout({self.layout}) binding({number}) alignment(16) offset({zero}){read_only} : {buffer}{{{count}}}"
            )
            place = f"memref<?x{element}, {_GLOBAL}>"
            name = self.text.op(f"memref.memory_space_cast {name} : {buffer} to {place}")
            address = self.text.op(f"memref.extract_aligned_pointer_as_index {name} : {place} -> index")
            self.pointers[memory.name] = self.text.op(f"arith.index_cast {address} : index to i64")
        self.shared = {m.name: self.text.op(f"memref.alloc() alignment = 16 : {_lds_type(m)}") for m in self.kernel.memories if m.space == "shared"}
        self.workgroup_ids()
        thread = self.text.op(f"gpu.thread_id x upper_bound {self.kernel.threads}")
        self.lanes_and_waves(self.text.op(f"arith.index_cast {thread} : index to i32"))
        self.varying = frozenset({"lane", *(name for name, _ in self.kernel.waves)})
        self.outside = frozenset(self.indices.symbols)

    def attributes(self) -> str:
        return (
            "translation_info = #iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline "
            f"workgroup_size = [{self.kernel.threads}, 1, 1] subgroup_size = {self.machine.lanes}>"
        )

    def load(self, op: Op, memory: Memory) -> Parts:
        size, dtype = op.result.vector.elements, memory.dtype
        type_ = vector_type(dtype, size)
        if memory.space == "shared":
            index, memref = self.indices.index(self.buffered(op, memory)), _lds_type(memory)
            if size == 1:
                return (Part(self.text.op(f"memref.load {self.shared[memory.name]}[{index}] : {memref}"), 1),)
            align = size * dtype.bytes
            text = f"vector.load {self.shared[memory.name]}[{index}] alignment = {align} : {memref}, {type_}"
            return (Part(self.text.op(text), size),)
        descriptor, lane, scalar = self._place(op, memory)
        raw = _raw_type(size * dtype.bytes)
        name = self.text.op(f"rocdl.raw.ptr.buffer.load {descriptor}, {lane}, {scalar}, 0 : {raw}")
        return (Part(self._bitcast(name, raw, type_), size),)

    def store(self, op: Op, memory: Memory) -> None:
        (value,) = op.operands
        size, dtype = value.vector.elements, memory.dtype
        name, type_ = self.whole(value), vector_type(dtype, size)
        if memory.space == "shared":
            index, memref = self.indices.index(self.buffered(op, memory)), _lds_type(memory)
            with self.when(op["mask"]):
                if size == 1:
                    self.text.do(f"memref.store {name}, {self.shared[memory.name]}[{index}] : {memref}")
                else:
                    align = size * dtype.bytes
                    self.text.do(f"vector.store {name}, {self.shared[memory.name]}[{index}] alignment = {align} : {memref}, {type_}")
            return
        descriptor, lane, scalar = self._place(op, memory)
        raw = _raw_type(size * dtype.bytes)
        self.text.do(f"rocdl.raw.ptr.buffer.store {self._bitcast(name, type_, raw)}, {descriptor}, {lane}, {scalar}, 0 : {raw}")

    def _place(self, op: Op, memory: Memory) -> tuple[str, str, str]:
        """Descriptor, vector offset and scalar offset, in bytes."""
        uniform, lane = uniform_and_varying(op["offset"], self.varying)
        moving, bytes_, constant = const(0), memory.dtype.bytes, uniform.constant_part()
        for coefficient, term in uniform.terms():
            if not term.symbols <= self.outside:
                moving = moving + term * coefficient
        fixed = uniform - constant - moving
        key = (memory.name, fixed)
        if key not in self.descriptors:
            self.descriptors[key] = self._descriptor(memory, fixed)
        offset = self.indices.narrow((lane + constant) * bytes_)
        if op["mask"]:
            inside = self.indices.holds(op["mask"])
            offset = self.text.op(f"arith.select {inside}, {offset}, {self.text.constant(_RECORDS, 'i32')} : i32")
        return self.descriptors[key], offset, self.indices.narrow(moving * bytes_)

    def _descriptor(self, memory: Memory, base: Expr) -> str:
        """A buffer whose first element is ``base``; made in the function body, outside of all loops."""
        add = self.indices.integer(base * memory.dtype.bytes, 64)
        address = self.text.op(f"arith.addi {self.pointers[memory.name]}, {add} : i64", 0)
        pointer = self.text.op(f"llvm.inttoptr {address} : i64 to !llvm.ptr<1>", 0)
        zero, records = self.text.constant(0, "i16"), self.text.constant(_RECORDS, "i64")
        flags = self.text.constant(_DESCRIPTOR_FLAGS, "i32")
        return self.text.op(f"rocdl.make.buffer.rsrc {pointer}, {zero}, {records}, {flags} : <1>, i64 to <8>", 0)

    def _bitcast(self, name: str, before: str, after: str) -> str:
        if before == after:
            return name
        if before.startswith("vector") and after.startswith("vector"):
            return self.text.op(f"vector.bitcast {name} : {before} to {after}")
        return self.text.op(f"llvm.bitcast {name} : {before} to {after}")

    def mma(self, op: Op, row: MatrixInstruction, a: Value, b: Value, acc: Value) -> Parts:
        names = [self.whole(value) for value in (a, b, acc)]
        types = ", ".join(vector_type(v.vector.dtype, v.vector.elements) for v in (a, b, acc))
        result = self.text.op(f"amdgpu.mfma {row.m}x{row.n}x{row.k} {names[0]} * {names[1]} + {names[2]} : {types}")
        return (Part(result, acc.vector.elements),)

    def barrier(self) -> None:
        self.text.do(f"gpu.barrier memfence [{_LDS}]")


def _lds_type(memory: Memory) -> str:
    return f"memref<{memory.elements.value * memory.buffers}x{mlir_type(memory.dtype)}, {_LDS}>"


def _raw_type(size: int) -> str:
    """The integer type in which ``size`` bytes travel through a buffer access."""
    return {1: "i8", 2: "i16", 4: "i32", 8: "vector<2xi32>", 12: "vector<3xi32>", 16: "vector<4xi32>"}[size]

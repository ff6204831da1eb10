"""Memory of CDNA: buffer accesses with hardware bounds, LDS as memrefs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from wavespec.emit.function import Emitter, Function
from wavespec.emit.interface import expr_to_size
from wavespec.emit.registers import Part, mlir_type, vector_type
from wavespec.emit.rocm_symbols import RocmSymbols
from wavespec.emit.store_runs import Forms
from wavespec.emit.uniform_parts import lower_bound, uniform_and_varying
from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, at_most, const, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel, Memory, Op
from wavespec.ir.names import dim_of_size
from wavespec.ir.strided import number_of
from wavespec.ir.thread import Mask
from wavespec.ir.thread_ops import LOAD, PACK
from wavespec.runtime.artifact import Assumption

LDS = "#gpu.address_space<workgroup>"
_GLOBAL = "#gpu.address_space<global>"
_BEYOND = 0x7FFFFFF0
"""Most bytes that a descriptor covers; an offset of as much is out of range: reads 0, stores nothing."""
_WORD_BYTES = 4
_ALIGNMENT_BYTES = 16  # of each memory of a workgroup: the widest access of a lane
_STREAMING = 2  # nt: https://llvm.org/docs/AMDGPUUsage.html, memory model of gfx942
_DESCRIPTOR_FLAGS = 0x27000  # raw buffer, 32-bit data format: CDNA3 ISA, buffer resource descriptor


class RocmMemory(Emitter):
    """Tensors behind descriptors, tiles in LDS.

    Global memory goes through buffer descriptors: the base is the 64-bit address of the workgroup's tile, in persistent
    grids of each one after another, the scalar offset is what the loop adds, the vector offset is the lane's own.  There
    are no branches around accesses, and the offsets inside of a tile must stay below 2 GiB, which the launch checks
    (`end`).

    Note [range check]: a descriptor ends where its tensor ends, so rows beyond the last one need no mask; any other
    masked-off lane gets an offset that is always out of range.  In tensors of any strides, rows beyond the last one may
    be in front of the end, so that all of them need their masks.  Offsets are modulo 2³², so a mask is left out only where
    it is known how many rows lanes are apart, which the launch checks (`end`).  Descriptions of the hardware differ in
    whether the scalar offset takes part in the check; both give the same answer here, because a tile begins inside of its
    tensor and a loop ends before its dim does.
    """

    def __init__(self, function: Function, symbols: RocmSymbols) -> None:
        super().__init__(function)
        self.symbols = symbols
        shared = (m.elements.value * m.buffers * m.dtype.bytes for m in self.kernel.memories if m.space == "shared")
        function.shared_bytes = sum(-(-bytes_ // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES for bytes_ in shared)
        self.pointers: dict[str, str] = {}
        self.shared: dict[str, str] = {}
        self.starts: dict[str, str] = {}
        self.rows: dict[str, int] = {}
        """How far from where their loops are the lanes reach in a tensor, those beyond its end included."""
        self.from_start = set[str]()
        """Tensors that workgroups reach from their first element on, as nobody knows how far in front of a tile."""
        self.wholes = _wholes(self.kernel)
        self.whole = ""

    def begin(self) -> None:
        zero = self.text.constant(0, "index")
        for number, memory in enumerate(self.function.tensors()):
            element = mlir_type(memory.dtype)
            buffer = f"memref<?x{element}, #hal.descriptor_type<storage_buffer>>"
            read_only = " flags(ReadOnly)" if memory.role == "input" else ""
            count = self.indices.index(memory.elements)
            binding = f"layout({self.function.layout}) binding({number}) alignment(16) offset({zero}){read_only}"
            name = self.text.op(f"hal.interface.binding.subspan {binding} : {buffer}{{{count}}}")
            place = f"memref<?x{element}, {_GLOBAL}>"
            name = self.text.op(f"memref.memory_space_cast {name} : {buffer} to {place}")
            self.pointers[memory.name] = self.text.address(name, place)
        for memory in self.kernel.memories:
            if memory.space == "shared":
                buffer = f"memref.alloc() alignment = {_ALIGNMENT_BYTES} : {_lds_type(memory)}"
                self.shared[memory.name] = self.text.op(buffer)

    def end(self) -> None:
        """The rows of a tensor that a workgroup reaches from its base fit a descriptor, and so do those that lanes reach
        beyond its end: offsets of both together are below 2³²."""
        shared_out = {split.dim: split.tile for split in self.kernel.distribution.workgroup}
        for memory in self.function.tensors():
            tiles = {} if memory.mapped or memory.name in self.from_start else shared_out
            if memory.is_strided:
                self._assume(memory, self._reached(memory, tiles) * memory.dtype.bytes)
                continue
            first, row = const(1), const(memory.dtype.bytes)
            for number, (dim, extent) in enumerate(zip(memory.dims, memory.shape, strict=True)):
                if number:
                    row = row * extent
                else:
                    first = const(tiles[dim]) if dim in tiles else extent
            beyond = const(self.rows.get(memory.name, 1))
            for reached in (first * row, *(() if at_most(beyond, maximum(first, 1)) else (beyond * row,))):
                self._assume(memory, reached)

    def _reached(self, memory: Memory, tiles: Mapping[str, int]) -> Expr:
        """Elements of a strided tensor that a workgroup reaches from its base on: along every dim those of its tile, or
        all of them."""
        assert memory.start is not None
        reached = memory.start
        for dim, extent, stride in zip(memory.dims, memory.shape, memory.strides, strict=True):
            reached = reached + (const(tiles[dim]) if dim in tiles else extent) * stride
        return reached

    def _assume(self, memory: Memory, reached: Expr) -> None:
        """Have the launch check that so many bytes are below the limit, unless that is known."""
        if at_most(reached, const(_BEYOND)):
            return
        called = reached.substitute({name: symbol(number_of(name) or dim_of_size(name)) for name in reached.symbols})
        text = f"{_in_words(called)} <= {_BEYOND} (bytes of '{memory.name}' that one workgroup reaches)"
        self.function.assumptions.append(Assumption(text, ("le", expr_to_size(reached), _BEYOND)))

    def global_pointer(self, memory: Memory, offset: Expr) -> tuple[str, str]:
        bytes_ = self.indices.integer(offset * memory.dtype.bytes, 64)
        address = self.text.op(f"arith.addi {self.pointers[memory.name]}, {bytes_} : i64")
        return self.text.op(f"llvm.inttoptr {address} : i64 to !llvm.ptr<1>"), "!llvm.ptr<1>"

    def emit_load(self, op: Op) -> None:
        memory, size = self.function.memory_of(op), op.result.vector.elements
        dtype = memory.dtype
        type_ = vector_type(dtype, size)
        if memory.space == "shared":
            self.values[op.result.name] = (Part(self._load_shared(op, memory, type_), size),)
            return
        descriptor, lane, scalar = self._place(op, memory)
        raw = _raw_type(size * dtype.bytes)
        name = self.text.op(
            f"rocdl.raw.ptr.buffer.load {descriptor}, {self._masked(op, memory, lane)}, {scalar}, {_cache(op)} : {raw}"
        )
        if (valid := op["valid"]) is not None:
            name = self._zeroed(name, valid, size, dtype)
        name = self._as_type(name, raw, type_)
        self.values[op.result.name] = (Part(name, size),)

    def _load_shared(self, op: Op, memory: Memory, type_: str) -> str:
        """Masked-off lanes read the first elements, and take zeros for them."""
        size, memref = op.result.vector.elements, _lds_type(memory)
        self._begin_whole(self.wholes.get(op.result.name, self.whole))
        index = self.indices.index(self.function.buffered(op, memory))
        holds = self._holds(op["mask"]) if op["mask"] else ""
        if holds:
            index = self.text.op(f"arith.select {holds}, {index}, {self.text.constant(0, 'index')} : index")
        place = f"{self.shared[memory.name]}[{index}]"
        if size == 1:
            name = self.text.op(f"memref.load {place} : {memref}")
        else:
            name = self.text.op(f"vector.load {place} alignment = {size * memory.dtype.bytes} : {memref}, {type_}")
        if holds:
            name = self.text.op(f"arith.select {holds}, {name}, {self.text.constant(0, type_)} : {type_}")
        return name

    def _begin_whole(self, whole: str) -> None:
        """LLVM reads two places of LDS at once into registers side by side, and then moves what belongs beside parts of
        another vector: it does not look beyond this."""
        if whole != self.whole:
            self.whole = whole
            self.text.do("amdgpu.sched_barrier allow = all")

    def _zeroed(self, name: str, valid: Expr, size: int, dtype: DType) -> str:
        """A vector as it was loaded, with zeros for the next row's elements; rows consist of whole words."""
        raw, words = _raw_type(size * dtype.bytes), size * dtype.bytes // _WORD_BYTES
        bits = [self._holds(((const(i * size // words), valid),)) for i in range(words)]
        kind = f"vector<{words}xi1>" if words > 1 else "i1"
        mask = self.text.op(f"vector.from_elements {', '.join(bits)} : {kind}") if words > 1 else bits[0]
        return self.text.op(f"arith.select {mask}, {name}, {self.text.constant(0, raw)} : {kind}, {raw}")

    def emit_store(self, op: Op) -> None:
        memory, (value,) = self.function.memory_of(op), op.operands
        size, dtype = value.vector.elements, memory.dtype
        name, type_ = self.function.whole(value), vector_type(dtype, size)
        if memory.space == "shared":
            index, memref = self.indices.index(self.function.buffered(op, memory)), _lds_type(memory)
            with self.function.when(op["mask"]):
                place = f"{self.shared[memory.name]}[{index}]"
                if size == 1:
                    self.text.do(f"memref.store {name}, {place} : {memref}")
                else:
                    self.text.do(f"vector.store {name}, {place} alignment = {size * dtype.bytes} : {memref}, {type_}")
            return
        self._store_global(op, memory, (Part(name, size),))

    def forms(self, stores: Sequence[Op]) -> Forms:
        """Most workgroups store whole vectors only."""
        wholes = [Part(self.function.whole(op.operands[0]), op.operands[0].vector.elements) for op in stores]
        missing: dict[Expr, int] = {}  # what lanes share of `valid`: the most that any lane takes of it
        for op, part in zip(stores, wholes, strict=True):
            if (valid := op["valid"]) is not None:
                uniform, lane = uniform_and_varying(valid, self.symbols.varying)
                base = uniform - uniform.constant_part()
                assert lane.low is not None, f"no bound is known of {lane}"
                missing[base] = max(missing.get(base, 0), part.size - lane.low - uniform.constant_part())

        def store(elements: Callable[[Part, Memory], Sequence[Part]]) -> None:
            for op, part in zip(stores, wholes, strict=True):
                memory = self.function.memory_of(op)
                self._store_global(op, memory, elements(part, memory))

        test = tuple((const(count - 1), base) for base, count in missing.items())
        return Forms(test, lambda: store(lambda part, _: (part,)), lambda: store(self._elements))

    def _elements(self, part: Part, memory: Memory) -> list[Part]:
        if part.size == 1:
            return [part]
        scalar, vector = vector_type(memory.dtype, 1), vector_type(memory.dtype, part.size)
        names = [self.text.op(f"vector.extract {part.name}[{i}] : {scalar} from {vector}") for i in range(part.size)]
        return [Part(name, 1) for name in names]

    def _store_global(self, op: Op, memory: Memory, parts: Sequence[Part]) -> None:
        """One store per part; several parts stand for a vector of which only ``valid`` elements exist."""
        descriptor, lane, scalar = self._place(op, memory)
        valid = op["valid"]
        offset = 0
        for part in parts:
            raw = _raw_type(part.size * memory.dtype.bytes)
            data = self._as_type(part.name, vector_type(memory.dtype, part.size), raw)
            extra: Mask = ((const(offset), valid),) if valid is not None and len(parts) > 1 else ()
            place = self._masked(op, memory, lane, extra)
            if offset:
                place = self.text.op(
                    f"arith.addi {place}, {self.text.constant(offset * memory.dtype.bytes, 'i32')} : i32"
                )
            self.text.do(f"rocdl.raw.ptr.buffer.store {data}, {descriptor}, {place}, {scalar}, {_cache(op)} : {raw}")
            offset += part.size

    def emit_copy_async(self, op: Op) -> None:
        """The lanes of a wave write one after another, so that only the first one's place counts."""
        assert op["valid"] is None, "a copy is inside of a row or not there at all"
        source, memory = self.kernel.memory(op["source"]), self.function.memory_of(op)
        access = op.with_(memory=source.name, offset=op["source_offset"])
        descriptor, lane, scalar = self._place(access, source)
        place = self._masked(access, source, lane)
        first = self.indices.integer(self.function.buffered(op, memory).substitute({"lane": 0}), 32)
        element, pointer = mlir_type(memory.dtype), "!llvm.ptr<3>"
        to = self.text.op(
            f"llvm.getelementptr {self._shared_pointer(memory)}[{first}] : ({pointer}, i32) -> {pointer}, {element}"
        )
        size, zero = self.text.constant(op["elements"] * memory.dtype.bytes, "i32"), self.text.constant(0, "i32")
        types = f"(!llvm.ptr<8>, {pointer}, i32, i32, i32, i32) -> ()"
        how = f"<{{aux = {_STREAMING} : i32}}> " if op.get("cache") else ""
        operands = f"{descriptor}, {to}, {size}, {place}, {scalar}, {zero}"
        self.text.do(f'"rocdl.raw.ptr.buffer.load.async.lds"({operands}) {how}: {types}')

    def _shared_pointer(self, memory: Memory) -> str:
        """The start of a shared memory, made outside of all loops."""
        if memory.name not in self.starts:
            address = self.text.address(self.shared[memory.name], _lds_type(memory), "i32", depth=0)
            self.starts[memory.name] = self.text.op(f"llvm.inttoptr {address} : i32 to !llvm.ptr<3>", 0)
        return self.starts[memory.name]

    def emit_async_commit(self, op: Op) -> None:
        self.text.do("rocdl.asyncmark")

    def emit_async_wait(self, op: Op) -> None:
        self.text.do(f"rocdl.wait.asyncmark {op['pending']}")

    def _place(self, op: Op, memory: Memory) -> tuple[str, str, str]:
        """Descriptor, vector offset and scalar offset, in bytes."""
        uniform, lane = uniform_and_varying(op["offset"], self.symbols.varying)
        moving, base = const(0), const(0)
        lane = lane + uniform.constant_part()
        for coefficient, term in uniform.terms():
            if not term.symbols <= self.symbols.outside:
                moving = moving + term * coefficient
            elif term.symbols & self.symbols.workgroups:
                base = base + term * coefficient
            else:
                lane = lane + term * coefficient
        # The range check takes the lane's own offset for itself, and what is added to it is a number without a sign.
        if any(one.low is None or one.low < 0 for one in (lane, moving)):
            lane, moving = lane + moving, const(0)
            varying = self.symbols.varying | (lane.symbols - self.symbols.outside)
            if not base.is_const:  # below the base are elements
                least = lower_bound(lane, varying)
                if least is None:
                    self.from_start.add(memory.name)
                    least = const(0) - base
                lane, base = lane - least, base + least
        return (
            self.indices.once(memory.name, base, lambda depth: self._descriptor(memory, base, depth)),
            self.indices.narrow(lane * memory.dtype.bytes),
            self.indices.narrow(moving * memory.dtype.bytes),
        )

    def _masked(self, op: Op, memory: Memory, offset: str, extra: Mask = ()) -> str:
        """The vector offset; out of range where the mask does not hold, unless the range check knows.

        It does not know of places that tensors hold, nor of those that a loop passes by: offsets are modulo 2³², and of
        a row far outside may be inside.
        """
        row_elements = const(1)
        for extent in memory.shape[1:]:
            row_elements = row_elements * extent
        mask: Mask = extra
        for left, right in op["mask"]:
            beyond_end = memory.shape and at_most(memory.shape[0], right) and at_most(left * row_elements, op["offset"])
            rows = self._rows(left, memory.shape[0]) if beyond_end and not memory.is_strided else None
            if rows is None:
                mask += ((left, right),)
            else:
                self.rows[memory.name] = max(rows, self.rows.get(memory.name, 0))
        if not mask:
            return offset
        return self.text.op(f"arith.select {self._holds(mask)}, {offset}, {self.text.constant(_BEYOND, 'i32')} : i32")

    def _rows(self, place: Expr, extent: Expr) -> int | None:
        """How many rows lanes reach from where a loop over the tensor is; None where that is not known, or where loops
        or sizes lead further than ``extent``."""
        uniform, lane = uniform_and_varying(place, self.symbols.varying)
        if lane.high is None or not lane.symbols <= self.symbols.varying or place.symbols & self.symbols.data:
            return None
        sizes = const(0)
        for coefficient, term in uniform.terms():
            if not term.symbols <= self.symbols.outside:
                if abs(coefficient) > 1 or term.kind == "product":
                    return None
            elif not term.symbols & self.symbols.workgroups:
                sizes = sizes + term * coefficient
        return lane.high + uniform.constant_part() + 1 if at_most(sizes, extent) else None

    def _holds(self, mask: Mask) -> str:
        """SSA name of the conjunction; what all lanes share stands on one side, for scalar registers, where no number
        is so large that its difference to another wraps."""
        pairs: list[tuple[Expr, Expr]] = []
        for left, right in mask:
            if self._may_wrap(left - right):
                pairs.append((left, right))
                continue
            uniform, lane = uniform_and_varying(left - right, self.symbols.varying)
            pairs.append((lane, const(0) - uniform))
        return self.indices.holds(tuple(pairs))

    def _may_wrap(self, difference: Expr) -> bool:
        """Whether a term made of data is known to no range; sizes and inductions are small."""
        made_of_data = (term for _, term in difference.terms() if term.symbols & self.symbols.data)
        return any(term.low is None or term.high is None for term in made_of_data)

    def _descriptor(self, memory: Memory, base: Expr, depth: int) -> str:
        """A buffer from element ``base`` to the end of the tensor, made outside of all loops over one tile."""
        add = self.indices.integer(base * memory.dtype.bytes, 64)
        address = self.text.op(f"arith.addi {self.pointers[memory.name]}, {add} : i64", depth)
        pointer = self.text.op(f"llvm.inttoptr {address} : i64 to !llvm.ptr<1>", depth)
        left = maximum(0, minimum((memory.elements - base) * memory.dtype.bytes, _BEYOND))
        zero, records, flags = (
            self.text.constant(0, "i16"),
            self.indices.integer(left, 64),
            self.text.constant(_DESCRIPTOR_FLAGS, "i32"),
        )
        return self.text.op(f"rocdl.make.buffer.rsrc {pointer}, {zero}, {records}, {flags} : <1>, i64 to <8>", depth)

    def _as_type(self, name: str, before: str, after: str) -> str:
        if before == after:
            return name
        if before.startswith("vector") and after.startswith("vector"):
            return self.text.op(f"vector.bitcast {name} : {before} to {after}")
        return self.text.op(f"llvm.bitcast {name} : {before} to {after}")


def _cache(op: Op) -> int:
    """The bits of a buffer access that say how caches take it."""
    return _STREAMING if op.get("cache") else 0


def _lds_type(memory: Memory) -> str:
    return f"memref<{memory.elements.value * memory.buffers}x{mlir_type(memory.dtype)}, {LDS}>"


def _wholes(kernel: Kernel) -> dict[str, str]:
    """By the name of a value that is read from shared memory: the vector that it becomes a part of."""
    shared = {memory.name for memory in kernel.memories if memory.space == "shared"}
    read = {op.result.name for op in kernel.walk() if op.is_(LOAD) and op["memory"] in shared}
    packs = [op for op in kernel.walk() if op.is_(PACK)]
    return {value.name: op.result.name for op in packs for value in op.operands if value.name in read}


def _raw_type(size: int) -> str:
    """The integer type in which ``size`` bytes travel through a buffer access."""
    return {1: "i8", 2: "i16", 4: "i32", 8: "vector<2xi32>", 12: "vector<3xi32>", 16: "vector<4xi32>"}[size]


def _in_words(sizes: Expr) -> str:
    """An expression as messages have it: with dims that are expressions themselves in parentheses."""
    return re.sub(r"`(\w+\([^()]*\))`|`([^`]*)`", lambda name: name[1] or f"({name[2]})", str(sizes))

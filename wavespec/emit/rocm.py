"""Thread kernels for CDNA: buffer accesses with hardware bounds, LDS as memrefs, MFMA."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wavespec.emit.indices import lower_bound, uniform_and_varying
from wavespec.emit.interface import expr_to_size
from wavespec.emit.registers import Part, Parts, mlir_type, vector_type
from wavespec.emit.thread_to_mlir import BESIDE_LANES, SHARED_ALIGNMENT_BYTES, ThreadToMlir
from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, at_most, const, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, Value
from wavespec.ir.names import dim_of_size
from wavespec.ir.thread import Mask
from wavespec.ir.thread_ops import (
    ACCUMULATE,
    ASYNC_WAIT,
    CAST,
    COPY_ASYNC,
    LET,
    LOAD_MATRIX,
    LOAD_TILE,
    PREFETCH,
    SLICE,
    STORE,
)
from wavespec.runtime.artifact import Assumption
from wavespec.targets.machine import MatrixInstruction

_LDS = "#gpu.address_space<workgroup>"
_GLOBAL = "#gpu.address_space<global>"
_BEYOND = 0x7FFFFFF0
"""Most bytes that a descriptor covers; an offset of as much is out of range: reads 0, stores nothing."""
_WORD_BYTES = 4
_DESCRIPTOR_FLAGS = 0x27000  # raw buffer, 32-bit data format: CDNA3 ISA, buffer resource descriptor

_GROUPS = {"matrix": "mfma_wmma", "shared_load": "ds_read", "copy": "ldsdma", "global_load": "vmem_read"}


class ThreadToRocm(ThreadToMlir):
    """Emits for the ``rocm`` backend.

    Global memory goes through buffer descriptors: the base is the 64-bit address of the workgroup's tile, in
    persistent grids of each one after another, the scalar offset is what the loop adds, the vector offset is the lane's own.  There are no branches around
    accesses, and the offsets inside of a tile must stay below 2 GiB, which the launch checks (`assumptions`).

    Note [range check]: a descriptor ends where its tensor ends, so rows beyond the last one need no mask; any
    other masked-off lane gets an offset that is always out of range.  Offsets are modulo 2³², so a mask is left out
    only where it is known how many rows lanes are apart, which the launch checks (`assumptions`).  Descriptions of the hardware differ in
    whether the scalar offset takes part in the check; both give the same answer here, because a tile begins
    inside of its tensor and a loop ends before its dim does.
    """

    refuses = BESIDE_LANES | ACCUMULATE | PREFETCH | LOAD_TILE | LOAD_MATRIX

    def prologue(self) -> None:
        zero = self.text.constant(0, "index")
        self.pointers: dict[str, str] = {}
        self.rows: dict[str, int] = {}
        """How far from where their loops are the lanes reach in a tensor, those beyond its end included."""
        self.starts: dict[str, str] = {}
        for number, memory in enumerate(self.bindings()):
            element = mlir_type(memory.dtype)
            buffer = f"memref<?x{element}, #hal.descriptor_type<storage_buffer>>"
            read_only = " flags(ReadOnly)" if memory.role == "input" else ""
            count = self.indices.index(memory.elements)
            binding = f"layout({self.layout}) binding({number}) alignment(16) offset({zero}){read_only}"
            name = self.text.op(f"hal.interface.binding.subspan {binding} : {buffer}{{{count}}}")
            place = f"memref<?x{element}, {_GLOBAL}>"
            name = self.text.op(f"memref.memory_space_cast {name} : {buffer} to {place}")
            address = self.text.op(f"memref.extract_aligned_pointer_as_index {name} : {place} -> index")
            self.pointers[memory.name] = self.text.op(f"arith.index_cast {address} : index to i64")
        self.shared = {
            m.name: self.text.op(f"memref.alloc() alignment = {SHARED_ALIGNMENT_BYTES} : {_lds_type(m)}")
            for m in self.kernel.memories
            if m.space == "shared"
        }
        self.workgroup_ids()
        thread = self.text.op(f"gpu.thread_id x upper_bound {self.kernel.threads}")
        self.thread = self.text.op(f"arith.index_cast {thread} : index to i32")
        self.lanes_and_waves(self.thread)
        self.varying = frozenset({"lane", *(name for name, _ in self.kernel.waves)})
        self.data: frozenset[str] = frozenset()
        # `let` says later what a place in the grid is that the launch does not know.
        self.outside = frozenset(self.indices.symbols) - _let_symbols(self.kernel)
        self.workgroups = frozenset(name for name in self.outside if re.fullmatch(r"wg\d+", name))

    def _bind(self, op: Op) -> None:
        super()._bind(op)
        self.data |= {op["symbol"]}
        if not op.get("uniform"):
            self.varying |= {op["symbol"]}

    def _let(self, op: Op) -> None:
        """A place in the grid: along an axis that was folded, or of the tile that a round is for."""
        super()._let(op)
        self.outside |= {op["symbol"]}
        self.workgroups |= {op["symbol"]}

    def uniform(self, name: str, bits: int) -> str:
        return self.text.op(f"rocdl.readfirstlane {name} : i{bits}")

    def attributes(self) -> str:
        return (
            "translation_info = #iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline "
            f"workgroup_size = [{self.kernel.threads}, 1, 1] subgroup_size = {self.machine.lanes}>"
        )

    def loop_attribute(self) -> str:
        """Loops stay as the schedule has them."""
        return " {llvm.loop_annotation = #llvm.loop_annotation<unroll = <disable = true>>}"

    def assumptions(self) -> tuple[Assumption, ...]:
        """The rows of a tensor that a workgroup reaches from its base fit a descriptor, and so do those that lanes reach
        beyond its end: offsets of both together are below 2³²."""
        tiles = {split.dim: split.tile for split in self.kernel.distribution.workgroup}
        found: list[Assumption] = []
        for memory in self.bindings():
            first, row = const(1), const(memory.dtype.bytes)
            for number, (dim, extent) in enumerate(zip(memory.dims, memory.shape, strict=True)):
                if number:
                    row = row * extent
                else:
                    first = const(tiles[dim]) if dim in tiles and not memory.mapped else extent
            beyond = const(self.rows.get(memory.name, 1))
            for reached in (first * row, *(() if at_most(beyond, maximum(first, 1)) else (beyond * row,))):
                if not at_most(reached, const(_BEYOND)):
                    called = reached.substitute({name: symbol(dim_of_size(name)) for name in reached.symbols})
                    text = f"{called} <= {_BEYOND} (bytes of '{memory.name}' that one workgroup reaches)"
                    found.append(Assumption(text, ("le", expr_to_size(reached), _BEYOND)))
        return tuple(found)

    # Tensors lie in memory of the device, where the machine's own instructions are atomic; without these words the compiler
    # behind has to assume memory of the host, and compares and swaps.
    atomic_order = 'syncscope("agent") monotonic {rocdl.no_fine_grained_memory, rocdl.no_remote_memory}'

    def global_pointer(self, memory: Memory, offset: Expr) -> tuple[str, str]:
        bytes_ = self.indices.integer(offset * memory.dtype.bytes, 64)
        address = self.text.op(f"arith.addi {self.pointers[memory.name]}, {bytes_} : i64")
        return self.text.op(f"llvm.inttoptr {address} : i64 to !llvm.ptr<1>"), "!llvm.ptr<1>"

    def load(self, op: Op, memory: Memory) -> Parts:
        size, dtype = op.result.vector.elements, memory.dtype
        type_ = vector_type(dtype, size)
        if memory.space == "shared":
            return (Part(self._load_shared(op, memory, type_), size),)
        descriptor, lane, scalar = self._place(op, memory)
        raw = _raw_type(size * dtype.bytes)
        name = self.text.op(
            f"rocdl.raw.ptr.buffer.load {descriptor}, {self._masked(op, memory, lane)}, {scalar}, 0 : {raw}"
        )
        if (valid := op["valid"]) is not None:
            name = self._zeroed(name, valid, size, dtype)
        name = self._as_type(name, raw, type_)
        return (Part(name, size),)

    def _load_shared(self, op: Op, memory: Memory, type_: str) -> str:
        """Masked-off lanes read the first elements, and take zeros for them."""
        size, memref = op.result.vector.elements, _lds_type(memory)
        index = self.indices.index(self.buffered(op, memory))
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

    def _zeroed(self, name: str, valid: Expr, size: int, dtype: DType) -> str:
        """A vector as it was loaded, with zeros for the next row's elements; rows consist of whole words."""
        raw, words = _raw_type(size * dtype.bytes), size * dtype.bytes // _WORD_BYTES
        bits = [self._holds(((const(i * size // words), valid),)) for i in range(words)]
        kind = f"vector<{words}xi1>" if words > 1 else "i1"
        mask = self.text.op(f"vector.from_elements {', '.join(bits)} : {kind}") if words > 1 else bits[0]
        return self.text.op(f"arith.select {mask}, {name}, {self.text.constant(0, raw)} : {kind}, {raw}")

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
                    place = f"{self.shared[memory.name]}[{index}] alignment = {align}"
                    self.text.do(f"vector.store {name}, {place} : {memref}, {type_}")
            return
        self._store_global(op, memory, (Part(name, size),))

    def copy_async(self, op: Op, source: Memory, memory: Memory) -> None:
        """The lanes of a wave write one after another, so that only the first one's place counts."""
        assert op["valid"] is None, "a copy is inside of a row or not there at all"
        access = op.with_(memory=source.name, offset=op["source_offset"])
        descriptor, lane, scalar = self._place(access, source)
        place = self._masked(access, source, lane)
        first = self.indices.integer(self.buffered(op, memory).substitute({"lane": 0}), 32)
        element, pointer = mlir_type(memory.dtype), "!llvm.ptr<3>"
        to = self.text.op(
            f"llvm.getelementptr {self._shared_pointer(memory)}[{first}] : ({pointer}, i32) -> {pointer}, {element}"
        )
        size, zero = self.text.constant(op["elements"] * memory.dtype.bytes, "i32"), self.text.constant(0, "i32")
        types = f"(!llvm.ptr<8>, {pointer}, i32, i32, i32, i32) -> ()"
        operands = f"{descriptor}, {to}, {size}, {place}, {scalar}, {zero}"
        self.text.do(f'"rocdl.raw.ptr.buffer.load.async.lds"({operands}) : {types}')

    def _shared_pointer(self, memory: Memory) -> str:
        """The start of a shared memory, made outside of all loops."""
        if memory.name not in self.starts:
            name = self.shared[memory.name]
            address = self.text.op(f"memref.extract_aligned_pointer_as_index {name} : {_lds_type(memory)} -> index", 0)
            address = self.text.op(f"arith.index_cast {address} : index to i32", 0)
            self.starts[memory.name] = self.text.op(f"llvm.inttoptr {address} : i32 to !llvm.ptr<3>", 0)
        return self.starts[memory.name]

    def asynchronous(self, op: Op) -> None:
        self.text.do(f"rocdl.wait.asyncmark {op['pending']}" if op.is_(ASYNC_WAIT) else "rocdl.asyncmark")

    def wave_number(self, name: str) -> str:
        """In a scalar register, where copies name their place in shared memory by it."""
        copies = any(op.is_(COPY_ASYNC) for op in self.kernel.walk())
        return self.text.op(f"rocdl.readfirstlane {name} : i32") if copies else name

    def block(self, ops: Sequence[Op]) -> None:
        """Stores that may stick out of a row share one branch: most workgroups store whole vectors only."""
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
        whole: list[tuple[Op, Memory, Part]] = []
        missing: dict[Expr, int] = {}  # what lanes share of `valid`: the most that any lane takes of it
        for op in stores:
            (value,) = op.operands
            size = value.vector.elements
            whole.append((op, self.memory_of(op), Part(self.whole(value), size)))
            if (valid := op["valid"]) is not None:
                uniform, lane = uniform_and_varying(valid, self.varying)
                base = uniform - uniform.constant_part()
                assert lane.low is not None, f"no bound is known of {lane}"
                missing[base] = max(missing.get(base, 0), size - lane.low - uniform.constant_part())
        self.text.span = stores[0].span
        condition = self.indices.holds(tuple((const(count - 1), base) for base, count in missing.items()))
        self.text.open()
        self.indices.open()
        for op, memory, part in whole:
            self._store_global(op, memory, (part,))
        self.indices.close()
        inside = self.text.close()
        self.text.open()
        self.indices.open()
        for op, memory, part in whole:
            parts = [Part(self._element(part, i, memory), 1) for i in range(part.size)]
            self._store_global(op, memory, parts)
        self.indices.close()
        partly = self.text.close()
        self.text.blocks[-1] += [f"scf.if {condition} {{", *inside, "} else {", *partly]
        self.text.do("}")

    def _element(self, part: Part, number: int, memory: Memory) -> str:
        if part.size == 1:
            return part.name
        scalar, vector = vector_type(memory.dtype, 1), vector_type(memory.dtype, part.size)
        return self.text.op(f"vector.extract {part.name}[{number}] : {scalar} from {vector}")

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
            self.text.do(f"rocdl.raw.ptr.buffer.store {data}, {descriptor}, {place}, {scalar}, 0 : {raw}")
            offset += part.size

    def _place(self, op: Op, memory: Memory) -> tuple[str, str, str]:
        """Descriptor, vector offset and scalar offset, in bytes."""
        uniform, lane = uniform_and_varying(op["offset"], self.varying)
        moving, base = const(0), const(0)
        lane = lane + uniform.constant_part()
        for coefficient, term in uniform.terms():
            if not term.symbols <= self.outside:
                moving = moving + term * coefficient
            elif term.symbols & self.workgroups:
                base = base + term * coefficient
            else:
                lane = lane + term * coefficient
        if lane.low is None or lane.low < 0:  # the range check takes the lane's own offset for itself
            lane, moving = lane + moving, const(0)
            varying = self.varying | (lane.symbols - self.outside)
            if not base.is_const and (least := lower_bound(lane, varying)) is not None:  # below the base are elements
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
            beyond_end = at_most(memory.shape[0], right) and at_most(left * row_elements, op["offset"])
            rows = self._rows(left, memory.shape[0]) if beyond_end else None
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
        uniform, lane = uniform_and_varying(place, self.varying)
        if lane.high is None or not lane.symbols <= self.varying or place.symbols & self.data:
            return None
        sizes = const(0)
        for coefficient, term in uniform.terms():
            if not term.symbols <= self.outside:
                if abs(coefficient) > 1 or term.kind == "product":
                    return None
            elif not term.symbols & self.workgroups:
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
            uniform, lane = uniform_and_varying(left - right, self.varying)
            pairs.append((lane, const(0) - uniform))
        return self.indices.holds(tuple(pairs))

    def _may_wrap(self, difference: Expr) -> bool:
        """Whether a term made of data is known to no range; sizes and inductions are small."""
        made_of_data = (term for _, term in difference.terms() if term.symbols & self.data)
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

    def mma(self, op: Op, row: MatrixInstruction, a: Value, b: Value, acc: Value) -> Parts:
        names = [self.whole(value) for value in (a, b, acc)]
        types = ", ".join(vector_type(v.vector.dtype, v.vector.elements) for v in (a, b, acc))
        result = self.text.op(f"amdgpu.mfma {row.m}x{row.n}x{row.k} {names[0]} * {names[1]} + {names[2]} : {types}")
        return (Part(result, acc.vector.elements),)

    def schedule_fence(self) -> None:
        self.text.do("amdgpu.sched_barrier allow = none")

    def schedule_group(self, kind: str, count: int) -> None:
        self.text.do(f"rocdl.sched.group.barrier {_GROUPS[kind]}, {count}, 0")

    def stagger(self, apart: bool) -> None:
        """One half of the waves waits for a barrier that the other half reaches a phase later."""
        half = self.text.constant(self.kernel.threads // 2, "i32")
        condition = self.text.op(f"arith.cmpi {'uge' if apart else 'ult'}, {self.thread}, {half} : i32")
        self.text.do(f"scf.if {condition} {{ rocdl.s.barrier }}")

    def priority(self, level: int) -> None:
        self.text.do(f"rocdl.s.setprio {level}")

    def exp2(self, name: str, size: int) -> str:
        if size == 1:
            return self.text.op(f"rocdl.exp2 {name} f32 -> f32")
        kind = f"vector<{size}xf32>"
        elements = [self.text.op(f"vector.extract {name}[{i}] : f32 from {kind}") for i in range(size)]
        powers = ", ".join(self.exp2(element, 1) for element in elements)
        return self.text.op(f"vector.from_elements {powers} : {kind}")

    def shuffle(self, word: str, mask: int) -> str:
        distance, width = (self.text.constant(value, "i32") for value in (mask, self.machine.lanes))
        result = self.text.name()
        self.text.do(f"{result}:2 = gpu.shuffle xor {word}, {distance}, {width} : i32")
        return f"{result}#0"

    def barrier(self, op: Op) -> None:
        self.text.do(f"gpu.barrier memfence [{_LDS}]")


def _let_symbols(kernel: Kernel) -> frozenset[str]:
    return frozenset(op["symbol"] for op in kernel.walk() if op.is_(LET))


def _lds_type(memory: Memory) -> str:
    return f"memref<{memory.elements.value * memory.buffers}x{mlir_type(memory.dtype)}, {_LDS}>"


def _raw_type(size: int) -> str:
    """The integer type in which ``size`` bytes travel through a buffer access."""
    return {1: "i8", 2: "i16", 4: "i32", 8: "vector<2xi32>", 12: "vector<3xi32>", 16: "vector<4xi32>"}[size]

"""Memory of CPUs: vector loads and stores in plain and masked forms, sums into memory, hints."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from wavespec.emit.bound_checks import all_inside, fits_32_bits, is_bounded, of_blocks
from wavespec.emit.element_runs import ElementRun, ElementRuns, run_of
from wavespec.emit.elements_between import elements_between
from wavespec.emit.function import Emitter, Function
from wavespec.emit.lane_operations import LaneOperations
from wavespec.emit.looked_up_runs import LookedUpRuns
from wavespec.emit.masked_words import MaskedWords, are_words
from wavespec.emit.places_inside import PlacesInside
from wavespec.emit.registers import Part, vector_type
from wavespec.emit.rows_in_place import WORD_BYTES, Rows, rows_of
from wavespec.emit.zeros import ROW_OF_ZEROS, Zeros
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Memory, Op
from wavespec.ir.thread import Mask
from wavespec.ir.thread_ops import ACCUMULATE, ATOMIC, DOT, ELEMENTWISE, LOAD, MMA, STORE

_ZERO_ACCESSES = 4
"""Accesses side by side that may read zeros together."""
_APART = range(2, 5)
"""Elements from one to the next that are loaded with what lies between: vectors and shuffles, fewer than elements."""
# Where a tensor begins, as `runtime/cpu_launcher.py` sees to: LLVM makes several of wider stores that pass the caches by,
# which are as fast, and that of one at another place would be a fault.
_STREAMED_BYTES = 16
_INDEX_BYTES = 4
"""Of an element of the vectors by which places and checks of others are computed."""


class CpuMemory(Emitter):
    """Runs of accesses that need bound checks are tested once: all inside takes the plain form, else every access is masked.

    Interior tiles so pay one branch, and the compiler sees plain vector moves.

    Args:
        buffers: of each memory, its ``memref`` and the type of that.
    """

    def __init__(self, function: Function, lanes: LaneOperations, buffers: Mapping[str, tuple[str, str]]) -> None:
        super().__init__(function)
        self.lanes, self.buffers = lanes, buffers
        self.addresses: dict[str, str] = {}
        self.zeros = Zeros(self.text, _ZERO_ACCESSES * self.machine.globals.access_bytes)
        self.looked_up = LookedUpRuns(function, self.indices)
        masked_bits = self.machine.masked_bits if self.machine.element_masks else 64
        self.elements = ElementRuns(
            self.text, self.indices, masked_bits, masks_are_vectors=bool(self.machine.masked_bits)
        )

    def run(self, ops: Sequence[Op], start: int) -> int:
        """Loads, stores, atomic operations or sums with bound checks that follow each other."""
        first, stop = ops[start], start + 1
        while stop < len(ops) and self._joins(first, ops[stop]):
            stop += 1
        if stop > start + 1:
            if first.is_(ACCUMULATE):
                self._accumulated(ops[start:stop])
            elif not self._along_rows(ops[start:stop], ops):
                self._checked(ops[start:stop])
        return stop if stop > start + 1 else start

    def _joins(self, first: Op, other: Op) -> bool:
        """Whether an operation shares the test of the one before, which those that read zeros do not have."""
        if first.is_(ACCUMULATE) and other.is_(ACCUMULATE):
            return first["onto"] == other["onto"]
        is_alike = first.name == other.name and self._may_read_zeros(first) == self._may_read_zeros(other)
        return is_alike and is_bounded(first) and is_bounded(other)

    def _checked(self, ops: Sequence[Op]) -> None:
        """Loads, stores or atomic operations with bound checks: one test, two forms."""
        ops = self._without_stored_runs(ops) if ops[0].is_(STORE) else ops
        if not ops:
            return
        types = [vector_type(op.result.vector.dtype, op.result.vector.elements) for op in ops if op.results]

        def form(*, masked: bool) -> list[str]:
            if masked and ops[0].is_(STORE) and self.machine.masked_bits:
                self._one_by_one(ops)
                return []
            if not ops[0].is_(ATOMIC):
                return [self._access(op, self.function.memory_of(op), masked=masked) for op in ops]
            for op in ops:
                combine = partial(self._combined, op)
                if masked:
                    self.function.either(places.of_one(op["mask"]), combine, list)
                else:
                    combine()
            return []

        if all(self._may_read_zeros(op) for op in ops):
            self._chosen(ops)
            return
        checks, places = all_inside(ops), PlacesInside(self.text, self.indices)
        if ops[0].is_(ATOMIC):
            places.compare(checks)
        condition = places.of_all(checks)
        result = self.function.either(condition, lambda: form(masked=False), lambda: form(masked=True), types)
        for number, op in enumerate(op for op in ops if op.results):
            self.values[op.result.name] = (Part(f"{result}#{number}", op.result.vector.elements),)

    def _combined(self, op: Op) -> list[str]:
        """An atomic operation that is known to be inside."""
        self.function.methods[op.name](op.with_(mask=()))
        return []

    def _one_by_one(self, stores: Sequence[Op]) -> None:
        """Each with tests of its own: at the end of a row all but one are whole or not at all, and where masks are vectors
        a masked store takes as long as ten others."""

        def stored(op: Op, *, masked: bool) -> list[str]:
            self._access(op, self.function.memory_of(op), masked=masked)
            return []

        def in_part(op: Op) -> list[str]:
            valid: Expr | None = op["valid"]
            if valid is not None:
                some = self.indices.holds((*op["mask"], (const(0), valid)))
                self.function.either(some, lambda: stored(op.with_(mask=()), masked=True), list)
            return []

        for op in stores:
            whole = self.indices.holds(all_inside([op]))
            self.function.either(whole, partial(stored, op, masked=False), partial(in_part, op))

    def _without_stored_runs(self, ops: Sequence[Op]) -> list[Op]:
        """The stores but those of single elements that vectors are stored of."""
        left, at = list[Op](), 0
        lanes = self.machine.vector_bytes // _INDEX_BYTES if self.machine.element_masks else 1
        while at < len(ops):
            several, dtype = ops[at : at + lanes], ops[at].operands[0].vector.dtype
            memory = self.function.memory_of(ops[at])
            may_be = memory.mapped and lanes > 1 and all(map(_is_single, several))
            run = run_of(several, dtype.bytes, self.indices) if may_be and not dtype.is_packed else None
            if run is None or run.length < lanes or not self.elements.can_store(run, dtype):
                left.append(ops[at])
                at += 1
                continue
            values = ", ".join(self.function.whole(op.operands[0]) for op in several)
            value = self.text.op(f"vector.from_elements {values} : {vector_type(dtype, lanes)}")
            self.elements.store(run, dtype, self._start(memory), value)
            at += lanes
        return left

    def emit_load(self, op: Op) -> None:
        memory, elements = self.function.memory_of(op), op.result.vector.elements
        if self._may_read_zeros(op):
            self._chosen([op])
            return
        if is_bounded(op):
            self.values[op.result.name] = (Part(self._access(op, memory, masked=True), elements),)
            return
        sizes, offset = self.lanes.native_sizes(memory.dtype, elements), self.function.buffered(op, memory)
        starts = zip(itertools.accumulate(sizes, initial=0), sizes, strict=False)
        self.values[op.result.name] = tuple(Part(self._plain(memory, offset + at, size), size) for at, size in starts)

    def emit_store(self, op: Op) -> None:
        memory = self.function.memory_of(op)
        if is_bounded(op):
            self._access(op, memory, masked=True)
            return
        (value,), offset = op.operands, self.function.buffered(op, memory)
        for part in self.function.parts(value, self.lanes.native_sizes(memory.dtype, value.vector.elements)):
            self._store_whole(op, memory, offset, part)
            offset = offset + part.size

    def emit_prefetch(self, op: Op) -> None:
        memory = self.function.memory_of(op)
        (buffer, type_), use = self.buffers[memory.name], "read" if memory.role == "input" else "write"
        self.text.do(
            f"memref.prefetch {buffer}[{self.indices.index(op['offset'])}], {use}, locality<3>, data : {type_}"
        )

    def emit_accumulate(self, op: Op) -> None:
        self._accumulated([op])

    def _accumulated(self, ops: Sequence[Op]) -> None:
        """Sums into memory, each read, added and stored on its own, so that few need a register at a time.  Those of a
        tensor that registers hold are all read before any is stored: rows that are a power of 2 apart begin at the same
        place of a page, and a load waits for an earlier store to such a place."""
        size = sum(op.operands[0].vector.elements * op.operands[0].vector.dtype.bytes for op in ops)
        has_rows = all(self.function.memory_of(op).space == "global" for op in ops)
        fit = has_rows and size <= self.machine.vector_bytes * self.machine.vector_registers

        def form(*, masked: bool, add: bool) -> list[str]:
            for some in [ops] if fit and not masked else [[op] for op in ops]:
                given = [self._sum_into(op, masked) if add else self.function.whole(op.operands[0]) for op in some]
                for op, value in zip(some, given, strict=True):
                    self._reach(op, op["mask"], masked, store=value)
            return []

        def inside() -> list[str]:
            onto: tuple[tuple[Expr, Expr], ...] = ops[0]["onto"]
            if not onto:
                return form(masked=False, add=True)
            self.function.either(
                self.indices.holds(onto), lambda: form(masked=False, add=True), lambda: form(masked=False, add=False)
            )
            return []

        checks = all_inside(ops)
        if checks:
            self.function.either(self.indices.holds(checks), inside, lambda: form(masked=True, add=True))
        else:
            inside()

    def _sum_into(self, op: Op, masked: bool) -> str:
        """What an operation adds, with what the memory holds."""
        vector, value = op.operands[0].vector, self.function.whole(op.operands[0])
        before = self._reach(op, (*op["mask"], *op["onto"]), masked)
        add, type_ = "arith.addf" if vector.dtype.is_float else "arith.addi", vector_type(vector.dtype, vector.elements)
        return self.text.op(f"{add} {value}, {before} : {type_}")

    def _reach(self, op: Op, mask: Mask, masked: bool, *, store: str = "") -> str:
        """Load from where an operation adds up, or store there."""
        memory, elements = self.function.memory_of(op), op.operands[0].vector.elements
        offset = self.function.buffered(op, memory)
        if masked:
            return self._masked(memory, offset, elements, mask, op["valid"], store)
        return self._plain(memory, offset, elements, store)

    def global_pointer(self, memory: Memory, offset: Expr) -> tuple[str, str]:
        start, bytes_ = self._start(memory), self.indices.integer(offset * memory.dtype.bytes, 64)
        address = self.text.op(f"arith.addi {start}, {bytes_} : i64")
        return self.text.op(f"llvm.inttoptr {address} : i64 to !llvm.ptr"), "!llvm.ptr"

    def _start(self, memory: Memory) -> str:
        if memory.name not in self.addresses:
            self.addresses[memory.name] = self.text.address(*self.buffers[memory.name], depth=0)
        return self.addresses[memory.name]

    def _access(self, op: Op, memory: Memory, *, masked: bool) -> str:
        """One load (returns the value) or store (returns nothing of use)."""
        size, offset = (op.result if op.results else op.operands[0]).vector.elements, self.function.buffered(op, memory)
        value = self.function.whole(op.operands[0]) if op.operands else ""
        if masked:
            return self._masked(memory, offset, size, op["mask"], op["valid"], store=value, front=op.get("front"))
        if not value:
            return self._plain(memory, offset, size)
        self._store_whole(op, memory, offset, Part(value, size))
        return ""

    def _may_read_zeros(self, op: Op) -> bool:
        """Whether a load takes all of its elements or none, at a place of a mapping: neighbours differ in what they
        check, so that one test of all of them seldom passes."""
        if not op.is_(LOAD) or op["valid"] is not None or op.get("front") is not None or not op["mask"]:
            return False
        memory = self.function.memory_of(op)
        return memory.mapped and not memory.dtype.is_packed

    def _chosen(self, ops: Sequence[Op]) -> None:
        """Loads that read zeros where there is nothing: addresses are chosen, so that no branch is mispredicted and no
        mask is made; one for those that are checked alike and lie side by side."""
        first, start = ops[0], ""
        for op in self._without_runs(ops):
            memory, vector = self.function.memory_of(op), op.result.vector
            size, mask = memory.dtype.bytes, of_blocks(op["mask"])
            alike = op["memory"] == first["memory"] and mask == of_blocks(first["mask"])
            behind = op["offset"].beyond(first["offset"]) if start and alike else None
            if behind is None or not 0 <= behind <= self.zeros.bytes // size - vector.elements:
                first, behind = op, 0
                start = self._address_or_zeros(memory, op["offset"], mask, self.zeros.address)
            address = self._beyond(start, const(behind * size), self.text.depth) if behind else start
            self._load_from(address, op)

    def _load_from(self, address: str, op: Op) -> None:
        pointer, vector = self.text.op(f"llvm.inttoptr {address} : i64 to !llvm.ptr"), op.result.vector
        how, type_ = f"<{{alignment = {vector.dtype.bytes} : i64}}>", vector_type(vector.dtype, vector.elements)
        bits = type_.replace(vector.dtype.name, f"i{vector.dtype.bits}")  # LLVM would round bf16 by a library
        name = self.text.op(f'"llvm.load"({pointer}) {how} : (!llvm.ptr) -> {bits}')
        if bits != type_:
            name = self.text.op(f"arith.bitcast {name} : {bits} to {type_}")
        self.values[op.result.name] = (Part(name, vector.elements),)

    def _along_rows(self, ops: Sequence[Op], step: Sequence[Op]) -> bool:
        """Load from rows whose addresses are chosen around the loop that walks along them, if these are such rows: words
        that a step multiplies as matrices, or vectors that it computes with."""
        if not all(self._may_read_zeros(op) for op in ops):
            return False
        memory = self.function.memory_of(ops[0])
        are_words = ops[0].result.vector.elements * memory.dtype.bytes <= WORD_BYTES
        may_be = any(op.is_(MMA) if are_words else op.is_(DOT, ELEMENTWISE) for op in step)
        rows = rows_of(ops, memory.dtype.bytes, ROW_OF_ZEROS, self.indices) if may_be else None
        if rows is None:
            return False
        for address, op in zip(self._row_addresses(memory, rows), ops, strict=True):
            self._load_from(self._beyond(address, rows.along, self.text.depth), op)
        return True

    def _row_addresses(self, memory: Memory, rows: Rows) -> list[str]:
        if rows.run is None:
            return [
                self._address_or_zeros(memory, op["offset"], op["mask"], self.zeros.row, rows.depth)
                for op in rows.starts
            ]
        start = self._start(memory)
        for part in self.indices.addends(rows.run.places.shared):
            start = self._beyond(start, part, self.indices.depth_of(part.symbols))
        return list(self.elements.addresses(rows.run, start, self.zeros.row(), rows.depth))

    def _without_runs(self, ops: Sequence[Op]) -> list[Op]:
        """The loads that are not of single elements, of which vectors are loaded: in two forms, where it is for sizes
        to say whether they have few parts."""
        left, at, runs = list[Op](), 0, list[tuple[ElementRun, Sequence[Op]]]()
        while at < len(ops):
            dtype = ops[at].result.vector.dtype
            several = ops[at : at + max(1, self.machine.vector_bytes // dtype.bytes)]
            alone = all(op.result.vector.elements == 1 for op in several)
            run = run_of(several, dtype.bytes, self.indices) if alone and len(several) > 1 else None
            looked_up = self.looked_up.run_of(several, dtype.bytes) if alone and run is None else None
            if looked_up is not None:
                memory = self.function.memory_of(ops[at])
                name = self.looked_up.load(looked_up, ops[at], self._start(memory), self.zeros.address)
                self._lanes_of(name, ops[at : at + looked_up.length])
                at += looked_up.length
                continue
            if run is None:
                left.append(ops[at])
                at += 1
                continue
            runs.append((run, several))
            at += len(several)
        asked = {pair for run, _ in runs for pair in run.asked}
        if asked:
            types = [vector_type(several[0].result.vector.dtype, run.length) for run, several in runs]
            result = self.function.either(
                self.indices.holds(tuple(sorted(asked, key=str))),
                lambda: [self._run(run, several[0]) for run, several in runs],
                lambda: [self._run(run._replace(parts=None), several[0]) for run, several in runs],
                types,
            )
            names = [f"{result}#{number}" for number in range(len(runs))]
        else:
            names = [self._run(run, several[0]) for run, several in runs]
        for name, (_, several) in zip(names, runs, strict=True):
            self._lanes_of(name, several)
        return left

    def _lanes_of(self, name: str, loads: Sequence[Op]) -> None:
        """Have each load be a lane of a vector."""
        dtype = loads[0].result.vector.dtype
        types = f"{vector_type(dtype, 1)} from {vector_type(dtype, len(loads))}"
        for number, op in enumerate(loads):
            self.values[op.result.name] = (Part(self.text.op(f"vector.extract {name}[{number}] : {types}"), 1),)

    def _run(self, run: ElementRun, first: Op) -> str:
        memory = self.function.memory_of(first)
        dtype, start = memory.dtype, self._start(memory)
        if run.apart // dtype.bytes not in _APART or run.apart % dtype.bytes:
            return self.elements.load(run, dtype, start, self.zeros.address)
        zeros, all_ = self.zeros.address(), self.elements.has_all(run)
        if not all_:
            return self.elements.load_apart(run, dtype, start)
        return self.function.either(
            all_,
            lambda: [self.elements.load_apart(run, dtype, start)],
            lambda: [self.elements.load(run, dtype, start, lambda: zeros)],
            [vector_type(dtype, run.length)],
        )

    def _address_or_zeros(
        self, memory: Memory, offset: Expr, mask: Mask, zeros: Callable[[], str], depth: int | None = None
    ) -> str:
        address, so_far = self._start(memory), const(0)
        for part in self.indices.addends(offset * memory.dtype.bytes):
            so_far += part
            address = self.indices.once(f"address of {memory.name}", so_far, partial(self._beyond, address, part))
        return self.text.op(f"arith.select {self.indices.inside(mask)}, {address}, {zeros()} : i64", depth)

    def _beyond(self, address: str, bytes_: Expr, depth: int) -> str:
        return self.text.op(f"arith.addi {address}, {self.indices.integer(bytes_, 64)} : i64", depth)

    def _masked(
        self,
        memory: Memory,
        offset: Expr,
        size: int,
        mask: Mask,
        valid: Expr | None,
        store: str = "",
        front: Expr | None = None,
    ) -> str:
        (buffer, type_), at = self.buffers[memory.name], self.indices.index(offset)
        value_type, lanes = vector_type(memory.dtype, size), f"vector<{size}xi1>"
        vector_text = value_type if size > 1 else f"vector<1x{value_type}>"
        count = self.indices.index(valid) if valid is not None else self.text.constant(size, "index")
        if mask:
            holds, none = self.indices.holds(mask), self.text.constant(0, "index")
            count = self.text.op(f"arith.select {holds}, {count}, {none} : index")
        if front is None and self.machine.masked_bits > memory.dtype.bits and are_words(memory.dtype, size):
            return self._masked_words(memory, offset, size, count, store, is_cut=valid is not None)
        if valid is not None and not fits_32_bits(valid):  # a mask is made of the lower half of its count
            count = self._at_most(count, size)
        some = self.text.op(f"vector.create_mask {count} : {lanes}") if front is None else ""
        if front is not None:
            ends = self._at_most(self.indices.index(front), size), self._at_most(count, size)
            some = elements_between(self.text, *ends, size, masks_are_vectors=bool(self.machine.masked_bits))
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
            count = self._at_most(count, size)
        pointer, at = self.global_pointer(memory, offset)[0], self.indices.index(offset)
        words = MaskedWords(self.text, memory.dtype, size, pointer, *self.buffers[memory.name], at, count, is_cut)
        if not store:
            return words.load()
        words.store(store)
        return ""

    def _at_most(self, count: str, size: int) -> str:
        """Of ``count`` elements those that an access of ``size`` has."""
        none, all_ = (self.text.constant(number, "index") for number in (0, size))
        count = self.text.op(f"arith.maxsi {count}, {none} : index")
        return self.text.op(f"arith.minsi {count}, {all_} : index")

    def _plain(self, memory: Memory, offset: Expr, size: int, store: str = "") -> str:
        (buffer, type_), at = self.buffers[memory.name], self.indices.index(offset)
        kind, types = ("vector", f"{type_}, {vector_type(memory.dtype, size)}") if size > 1 else ("memref", type_)
        if not store:
            return self.text.op(f"{kind}.load {buffer}[{at}] : {types}")
        self.text.do(f"{kind}.store {store}, {buffer}[{at}] : {types}")
        return ""

    def _store_whole(self, op: Op, memory: Memory, offset: Expr, part: Part) -> None:
        """A store without bound checks: past the caches where that is asked for, and it is a whole register and
        aligned."""
        bytes_ = part.size * memory.dtype.bytes
        unit = min(self.machine.vector_bytes, bytes_)
        is_aligned = bytes_ % unit == 0 and offset.divisor * memory.dtype.bytes % unit == 0
        if not op.get("cache") or unit < _STREAMED_BYTES or not is_aligned:
            self._plain(memory, offset, part.size, store=part.name)
            return
        (buffer, type_), at = self.buffers[memory.name], self.indices.index(offset)
        how = f"<{{alignment = {_STREAMED_BYTES} : i64, nontemporal = true}}>"
        types = f"({vector_type(memory.dtype, part.size)}, {type_}, index) -> ()"
        self.text.do(f'"vector.store"({part.name}, {buffer}, {at}) {how} : {types}')


def _is_single(store: Op) -> bool:
    return store.operands[0].vector.elements == 1 and store["valid"] is None

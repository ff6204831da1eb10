"""Memory of NVIDIA machines: pointers, 64-bit addresses where a tensor may be large, one masked form for all sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wavespec.emit.function import Emitter, Function
from wavespec.emit.registers import Part, mlir_type, vector_type
from wavespec.emit.store_runs import Forms
from wavespec.emit.streamed_accesses import load_streamed, store_streamed
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op
from wavespec.ir.thread import Mask

_MOST_SELECTS = 2
"""Comparisons of one copy that LLVM may make a select of each; of more, one predicate takes less."""
_SHARED = "#gpu.address_space<workgroup>"
_ALIGNMENT_BYTES = 16  # of the widest access
_SWIZZLE_BYTES = 1024  # what the swizzle of 128 bytes repeats after; more than copies ask for
_SIGNAL_BYTES = 8
_WORD_BITS = 32
_EVERYTHING = 2**63 - 1  # bytes of a binding, as far as the subspan is concerned: bounds are ours


class CudaMemory(Emitter):
    """Tensors, and workgroup memory as one buffer, with the signals of waves behind the tiles.

    Args:
        swizzled_tiles: let tiles begin where the swizzle of the hardware starts anew.
    """

    def __init__(self, function: Function, *, swizzled_tiles: bool) -> None:
        super().__init__(function)
        self.pointers: dict[str, str] = {}
        self.matrices: dict[str, str] = {}
        """Of the elements that a matrix load gives, by name, the word that they came in."""
        self.converted = {op.operands[0].name for op in self.kernel.walk() if op.name == "cast"}
        around = (op for op in self.kernel.walk() if op.get("around"))
        self.has_many_ends = any(function.memory_of(op).dtype.bits < _WORD_BITS for op in around)
        """Whether a row may start at many elements of an access: ends of rows take more then than what is in them."""
        self.places = _places(self.kernel, _SWIZZLE_BYTES if swizzled_tiles else _ALIGNMENT_BYTES)
        function.shared_bytes = max((bytes_.stop for bytes_ in self.places.values()), default=0)

    def begin(self) -> None:
        shared_bytes = self.function.shared_bytes
        if self.has_many_ends:
            self.indices.hide = self._hidden
        for number, memory in enumerate(self.function.tensors()):
            self.pointers[memory.name] = self.binding(number, 1, read_only=memory.role == "input")
        for number, memory in enumerate(self.kernel.scratch, len(self.function.tensors())):
            self.pointers[memory.name] = self.binding(number, 1, read_only=False)
        if shared_bytes:
            buffer = f"memref<{shared_bytes}xi8, {_SHARED}>"
            place = self.text.op(f"memref.alloc() alignment = 1024 : {buffer}")
            start = self._pointer(place, buffer, "i32", 3)
            for name, bytes_ in self.places.items():
                at = self._less_by_waves(name, bytes_.start)
                self.pointers[name] = self.text.op(
                    f"llvm.getelementptr {start}[{at}] : (!llvm.ptr<3>{', i32' * at.startswith('%')}) -> !llvm.ptr<3>, i8"
                )

    def _less_by_waves(self, name: str, start: int) -> str:
        """Where a memory starts, in front of which are those of waves, not all of which are launched."""
        launched, waves = self.kernel.launched, self.kernel.wave_count
        own = [memory.name for memory in self.kernel.memories if memory.own]
        in_front = sum(len(self.places[one]) for one in own[: own.index(name)]) if name in own else 0
        if launched is None or not in_front:
            return str(start)
        return self.indices.integer(start - (waves - launched) * (in_front // waves), 32)

    def _hidden(self, name: str) -> str:
        return self.text.op(f'llvm.inline_asm asm_dialect = att "mov.b32 $0, $1;", "=r,r" {name} : (i32) -> i32')

    def binding(self, number: int, space: int, *, read_only: bool = True) -> str:
        """Pointer to an argument; all pointers are made in the outermost block."""
        zero, size = self.text.constant(0, "index"), self.text.constant(_EVERYTHING, "index")
        buffer = "memref<?xi8, #hal.descriptor_type<storage_buffer>>"
        name = self.text.op(
            f"hal.interface.binding.subspan layout({self.function.layout}) binding({number}) alignment(16) "
            f"offset({zero}){' flags(ReadOnly)' if read_only else ''} : {buffer}{{{size}}}",
            depth=0,
        )
        return self._pointer(name, buffer, "i64", space)

    def _pointer(self, memref: str, type_: str, integer: str, space: int) -> str:
        address = self.text.address(memref, type_, integer, depth=0)
        return self.text.op(f"llvm.inttoptr {address} : {integer} to !llvm.ptr<{space}>", depth=0)

    def address(self, memory: Memory, offset: Expr) -> str:
        """Pointer to an element; the constant part of the offset becomes an immediate of the access."""
        constant = offset.constant_part()
        space, bits = (1, 64) if memory.space in ("global", "counter", "handed") else (3, 32)
        element, pointer = mlir_type(memory.dtype), f"!llvm.ptr<{space}>"
        at, start = self.indices.integer(offset - constant, bits), self.pointers[memory.name]
        name = self.text.op(f"llvm.getelementptr {start}[{at}] : ({pointer}, i{bits}) -> {pointer}, {element}")
        if not constant:
            return name
        return self.text.op(f"llvm.getelementptr {name}[{constant}] : ({pointer}) -> {pointer}, {element}")

    def global_pointer(self, memory: Memory, offset: Expr) -> tuple[str, str]:
        space = 3 if memory.space == "shared" else 1
        return self.address(memory, offset), f"!llvm.ptr<{space}>"

    def emit_load(self, op: Op) -> None:
        """What another workgroup of the cluster has is read at the same place there."""
        memory, size = self.function.memory_of(op), op.result.vector.elements
        type_ = vector_type(memory.dtype, size)
        if (valid := op.get("valid")) is not None:
            self._load_with_end(memory, op, type_, valid)
            return
        zero = self.text.constant(0, type_) if op.get("rank") is None else ""
        if not zero or not op["mask"]:
            self.values[op.result.name] = (Part(self._load_text(memory, op, type_), size),)
            return
        condition = self.indices.holds(op["mask"])

        def inside() -> None:
            self.text.do(f"scf.yield {self._load_text(memory, op, type_)} : {type_}")

        lines = self.function.nested(inside)
        result = self.text.name()
        leaves_out = self.has_many_ends and op.get("around")  # who takes it does so with what is not in the row
        if op.get("idle") or leaves_out:
            zero = self.text.op(f"llvm.mlir.undef : {type_}", depth=0)
        self.text.branch(condition, lines, [f"  scf.yield {zero} : {type_}"], head=f"{result} = ", types=[type_])
        if size == 1 and memory.dtype.stored_bits == 16 and op.result.name in self.converted:
            result = self._kept_behind(result, type_)
        self.values[op.result.name] = (Part(result, size),)

    def _kept_behind(self, number: str, type_: str) -> str:
        """An element that was loaded, or not, and is converted: by an assembly of no instruction, as LLVM would move the
        conversion into the branch that loads it, and every load would be waited for before the next."""
        word = self.text.op(f"llvm.bitcast {number} : {type_} to i16")
        word = self.text.op(f'llvm.inline_asm asm_dialect = att "", "=h,0" {word} : (i16) -> i16')
        return self.text.op(f"llvm.bitcast {word} : i16 to {type_}")

    def _load_with_end(self, memory: Memory, op: Op, type_: str, valid: Expr) -> None:
        """All elements at once where they exist, else each one that does, and zeros."""
        size, mask = op.result.vector.elements, op["mask"]

        def all_() -> None:
            self.text.do(f"scf.yield {self._load_text(memory, op, type_)} : {type_}")

        def some() -> None:
            total, element = self.text.constant(0, type_), mlir_type(memory.dtype)
            for number in range(size):
                one = self._element_where(memory, op["offset"] + number, (*mask, (const(number), valid)))
                total = self.text.op(f"vector.insert {one}, {total} [{number}] : {element} into {type_}")
            self.text.do(f"scf.yield {total} : {type_}")

        condition = self.indices.holds((*mask, (const(size - 1), valid)))
        lines = self.function.nested(all_), self.function.nested(some)
        result = self.text.name()
        self.text.branch(condition, *lines, head=f"{result} = ", types=[type_])
        self.values[op.result.name] = (Part(result, size),)

    def _element_where(self, memory: Memory, offset: Expr, mask: Mask) -> str:
        element = mlir_type(memory.dtype)

        def inside() -> None:
            pointer = self.address(memory, offset)
            attributes = f"alignment = {memory.dtype.bytes} : i64, ordering = 0 : i64"
            one = self.text.op(f'"llvm.load"({pointer}) <{{{attributes}}}> : (!llvm.ptr<1>) -> {element}')
            self.text.do(f"scf.yield {one} : {element}")

        zero = self.text.constant(0, element)
        condition = self.indices.holds(mask)
        lines, result = self.function.nested(inside), self.text.name()
        self.text.branch(condition, lines, [f"  scf.yield {zero} : {element}"], head=f"{result} = ", types=[element])
        return result

    def _load_text(self, memory: Memory, op: Op, type_: str) -> str:
        pointer = self.address(memory, self.function.buffered(op, memory))
        space = 3 if memory.space == "shared" else 1
        if op.get("rank") is not None:
            rank = self.text.constant(op["rank"], "i32")
            pointer, space = self.text.op(f"nvvm.mapa {pointer}, {rank} : !llvm.ptr<3> -> !llvm.ptr<7>"), 7
        if op.get("cache"):
            size, is_read_only = op.result.vector.elements, memory.role == "input"
            return load_streamed(self.text, pointer, memory.dtype, size, is_read_only=is_read_only)
        align = op.result.vector.elements * memory.dtype.bytes
        attributes = f"alignment = {align} : i64, ordering = 0 : i64"
        return self.text.op(f'"llvm.load"({pointer}) <{{{attributes}}}> : (!llvm.ptr<{space}>) -> {type_}')

    def address_of(self, op: Op, offset: Expr) -> str:
        """The pointer to an element of the memory that an operation is about."""
        return self.address(self.function.memory_of(op), offset)

    def emit_store(self, op: Op) -> None:
        memory, (value,) = self.function.memory_of(op), op.operands
        with self.function.when(op["mask"]):
            offset = self.function.buffered(op, memory)
            self._store_text(op, memory, offset, self.function.whole(value), value.vector.elements)

    def _store_text(self, op: Op, memory: Memory, offset: Expr, name: str, size: int) -> None:
        pointer, type_ = self.address(memory, offset), vector_type(memory.dtype, size)
        if op.get("cache"):
            store_streamed(self.text, pointer, name, memory.dtype, size)
            return
        space, align = 3 if memory.space == "shared" else 1, size * memory.dtype.bytes
        attributes = f"alignment = {align} : i64, ordering = 0 : i64"
        types = f"({type_}, !llvm.ptr<{space}>) -> ()"
        self.text.do(f'"llvm.store"({name}, {pointer}) <{{{attributes}}}> : {types}')

    def forms(self, stores: Sequence[Op]) -> Forms:
        """Wide stores where rows are multiples of the width: then each is inside its row, or not at all."""
        wholes = [self.function.whole(op.operands[0]) for op in stores]
        rows: dict[Expr, None] = {}
        elements: list[list[str]] = []
        for op in stores:
            memory, (value,) = self.function.memory_of(op), op.operands
            if op["valid"] is not None and not memory.is_line:
                rows[memory.shape[-1] % value.vector.elements] = None
            elements.append(self.function.scalars(value))

        def store(op: Op, number: int, name: str, size: int) -> None:
            inside = () if (valid := op["valid"]) is None else ((const(number), valid),)
            with self.function.when((*op["mask"], *inside)):
                self._store_text(op, self.function.memory_of(op), op["offset"] + number, name, size)

        def whole() -> None:
            for op, name, names in zip(stores, wholes, elements, strict=True):
                if self.function.memory_of(op).is_line and (valid := op["valid"]) is not None:
                    self._store_with_end(op, name, names, valid)
                else:
                    store(op, 0, name, len(names))

        def apart() -> None:
            for op, names in zip(stores, elements, strict=True):
                for number, name in enumerate(names):
                    store(op, number, name, 1)

        return Forms(tuple((left_over, const(1)) for left_over in rows), whole, apart)

    def _store_with_end(self, op: Op, whole: str, elements: Sequence[str], valid: Expr) -> None:
        """All elements at once where they exist, else each one that does."""
        memory, mask, size = self.function.memory_of(op), op["mask"], len(elements)
        with self.function.when((*mask, (const(size - 1), valid))):
            self._store_text(op, memory, op["offset"], whole, size)
        if size == 1:
            return
        with self.function.when((*mask, (valid, const(size)))):
            for number, name in enumerate(elements[:-1]):
                with self.function.when(((const(number), valid),)):
                    self._store_text(op, memory, op["offset"] + number, name, 1)

    def emit_load_matrix(self, op: Op) -> None:
        memory, count = self.function.memory_of(op), op["count"]
        pointer = self.address(memory, self.function.buffered(op, memory))
        struct = "i32" if count == 1 else f"!llvm.struct<({', '.join(['i32'] * count)})>"
        order = "col" if op["transposed"] else "row"
        attributes = (
            f"layout = #nvvm.mma_layout<{order}>, num = {count} : i32, "
            "shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>"
        )
        name = self.text.op(f'"nvvm.ldmatrix"({pointer}) <{{{attributes}}}> : (!llvm.ptr<3>) -> {struct}')
        words = [self.text.op(f"llvm.extractvalue {name}[{i}] : {struct}") for i in range(count)]
        per_word = 4 // memory.dtype.bytes
        type_ = vector_type(memory.dtype, per_word)
        names = [self.text.op(f"llvm.bitcast {word} : i32 to {type_}") for word in words]
        self.matrices |= dict(zip(names, words, strict=True))
        self.values[op.result.name] = tuple(Part(name, per_word) for name in names)

    def emit_copy_async(self, op: Op) -> None:
        """Zero-fill is a source size of 0, so that a masked-off copy needs no branch."""
        source, memory = self.kernel.memory(op["source"]), self.function.memory_of(op)
        bytes_ = op["elements"] * memory.dtype.bytes
        to = self.address(memory, self.function.buffered(op, memory))
        start = self.address(source, op["source_offset"])
        cache = "cg" if bytes_ == 16 else "ca"
        signs = _only_signs(op["mask"])
        if len(op["mask"]) <= _MOST_SELECTS and not signs:
            size, types = "", "!llvm.ptr<3>, !llvm.ptr<1>"
            if op["mask"]:
                inside = self.indices.holds(op["mask"])
                all_, none = self.text.constant(bytes_, "i32"), self.text.constant(0, "i32")
                size = ", " + self.text.op(f"arith.select {inside}, {all_}, {none} : i32")
                types += ", i32"
            self.text.do(f"nvvm.cp.async.shared.global {to}, {start}, {bytes_}, cache = {cache}{size} : {types}")
            return
        inside = self.indices.inside(tuple(pair for pair in op["mask"] if pair not in signs), outermost_first=True)
        for _, place in signs:
            natural = self._is_natural(place)
            inside = self.text.op(f"arith.andi {inside}, {natural} : i1") if inside else natural
        code = (
            f"{{ .reg .b32 size; selp.b32 size, {bytes_}, 0, $2; "
            f"cp.async.{cache}.shared.global [$0], [$1], {bytes_}, size; }}"
        )
        self.text.do(
            f'llvm.inline_asm has_side_effects asm_dialect = att "{code}", "l,l,b,~{{memory}}" '
            f"{to}, {start}, {inside} : (!llvm.ptr<3>, !llvm.ptr<1>, i1) -> ()"
        )

    def _is_natural(self, place: Expr) -> str:
        """SSA name of an ``i1``: the upper word says it, which is a register of its own.  In assembly: LLVM would compare
        both again, which takes two instructions."""
        name = self.indices.integer(place, 64)
        code = "{ .reg .b32 lower; mov.b64 {lower, $0}, $1; }"
        upper = self.text.op(f'llvm.inline_asm asm_dialect = att "{code}", "=r,l" {name} : (i64) -> i32')
        return self.text.op(f"arith.cmpi sgt, {upper}, {self.text.constant(-1, 'i32')} : i32")

    def emit_async_commit(self, op: Op) -> None:
        self.text.do("nvvm.cp.async.commit.group")

    def emit_async_wait(self, op: Op) -> None:
        self.text.do(f"nvvm.cp.async.wait.group {op['pending']}")


def _only_signs(mask: Mask) -> Mask:
    """Comparisons of numbers of lanes that are compared with nothing but 0."""
    bounded = {left for left, _ in mask}
    return tuple(
        (left, right) for left, right in mask if left == const(-1) and right.kind == "symbol" and right not in bounded
    )


def _places(kernel: Kernel, tile_alignment: int) -> dict[str, range]:
    """The bytes of workgroup memory that each memory has: tiles first, signals behind them, and then what lanes have
    of their own, of which a launch needs less that has fewer waves.

    What takes the bytes of a loop's tiles begins where these do, and others begin behind both.
    """
    memories = [memory for memory in kernel.memories if not memory.own]
    shared = [memory for memory in memories if memory.space == "shared"]
    below = {name for memory in shared for name in memory.over}
    found: dict[str, range] = {}

    def place(some: Iterable[Memory], start: int, alignment: int) -> int:
        for memory in some:
            each = _SIGNAL_BYTES if memory.space == "signal" else memory.elements.value * memory.dtype.bytes
            start = -(-start // alignment) * alignment
            found[memory.name] = range(start, start := start + each * memory.buffers)
        return start

    over = place((memory for memory in shared if memory.over), 0, tile_alignment)
    tiles = place((memory for memory in shared if memory.name in below), 0, tile_alignment)
    rest = (memory for memory in shared if not memory.over and memory.name not in below)
    end = place(rest, max(over, tiles), tile_alignment)
    end = place((memory for memory in memories if memory.space == "signal"), end, _SIGNAL_BYTES)
    place((memory for memory in kernel.memories if memory.own), end, _ALIGNMENT_BYTES)
    return found

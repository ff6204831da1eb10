"""Thread kernels for CPUs with tile registers: matrix products of blocks of 32x32, 32x16 or 16x64 whose sums stay in tiles
through a loop."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from wavespec.emit.cpu_lanes import CpuLanes
from wavespec.emit.cpu_memory import CpuMemory
from wavespec.emit.cpu_products import CpuProducts
from wavespec.emit.function import Emitter, Function
from wavespec.emit.registers import Part, Parts, mlir_type, vector_type
from wavespec.emit.zeros import local_memory
from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op, Value
from wavespec.ir.rewriting import uses_of
from wavespec.ir.thread import Mask
from wavespec.ir.thread_ops import CONSTANT, FOR, LOAD_TILE, MMA, STORE
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import MatrixInstruction

# Tiles have fixed numbers: a block of sums is 2x2 of them, or four side by side, behind which operands come.
_SUMS, _LEFT, _RIGHT = 0, 4, {1: (5, 6, 7, 5), 2: (6, 7)}
"""The first tiles of sums and of the left operand; by rows of tiles in a block, those of the right one."""
_ROWS, _ROW_BYTES = 16, 64
_SCRATCH_BYTES = 4 * _ROWS * _ROW_BYTES
"""A block of sums, the largest thing that has to pass through memory."""


def uses_tiles(kernel: Kernel, machine: Machine) -> bool:
    """Whether a thread kernel multiplies in tile registers."""
    return any(_tiled_row(op, machine) for op in kernel.walk())


def _tiled_row(op: Op, machine: Machine) -> MatrixInstruction | None:
    """The row of a product in tile registers, whichever operand it takes first; of anything else None."""
    row = machine.instruction(op["instruction"].partition(":")[0]) if op.is_(MMA) else None
    return row if row is not None and row.in_tile_registers else None


@dataclass(frozen=True, slots=True)
class _Rows:
    """Where the rows of an operand lie: bytes from the start of a memory, bytes from row to row; where ``mask`` holds,
    ``instead``."""

    memory: str
    offset: Expr
    stride: Expr
    mask: Mask = ()
    instead: _Rows | None = None


@dataclass(frozen=True, slots=True)
class _Sums:
    """Elements of a block of sums that was stored to a scratch memory; ``rounded_pairs`` as the row has it that they
    are results of, or empty where some of them may be something else."""

    memory: str
    start: int
    dtype: DType
    rounded_pairs: str


def _stands_for_several(tile: Memory) -> bool:
    """Whether elements of a staged tile are one in memory, as those of rows that taps shift are."""
    return tile.elements.value < math.prod(extent.value for extent in tile.shape)


def _tiles_of(row: MatrixInstruction) -> tuple[int, int]:
    """How many a block of sums has below each other, and side by side."""
    return row.m // _ROWS, row.n * row.acc.dtype.bytes // _ROW_BYTES


def _places(row: MatrixInstruction) -> Iterator[tuple[int, int]]:
    """Every tile of a block of sums, and where it begins there: bytes."""
    rows, columns = _tiles_of(row)
    for i, j in product(range(rows), range(columns)):
        yield _SUMS + i * columns + j, i * _ROWS * columns * _ROW_BYTES + j * _ROW_BYTES


class Tiles(Emitter):
    """Sums live in tiles while they are carried through the loop of their products, and in a scratch memory after it,
    each block in one of its own.

    Whatever uses them then reads from there element by element, so that no more than a few are in vector registers at a time.
    Operands are loaded into tiles just before their product, from where they were staged.
    """

    def __init__(
        self,
        function: Function,
        lanes: CpuLanes,
        memory: CpuMemory,
        products: CpuProducts,
        buffers: dict[str, tuple[str, str]],
    ) -> None:
        super().__init__(function)
        self.lanes, self.memory, self.products, self.buffers = lanes, memory, products, buffers
        self.operands: dict[str, _Rows] = {}
        self.sums: dict[str, _Sums] = {}
        self.pointers: dict[str, str] = {}
        self.in_tiles = ""
        self.staying: MatrixInstruction | None = None
        """Of the block of sums that a loop has left in tiles, to be stored from there."""
        staged = [memory for memory in self.kernel.memories if memory.space == "shared"]
        self.sizes = {memory.name: memory.bytes_of(memory.elements.value) for memory in staged}
        self.read_again = {memory.name for memory in staged if _stands_for_several(memory)}
        self.zeros = {op.result.name for op in self.kernel.walk() if op.is_(CONSTANT) and op["value"] == 0}
        uses = Counter(value.name for op in self.kernel.body for value in uses_of(op))
        self.laid_down = {name: memory for name, memory in self._laid_down(self.kernel.body) if uses[name] == 1}

    def begin(self) -> None:
        self._scratch("amx.left", _SCRATCH_BYTES // 2)
        self._scratch("amx.right", _SCRATCH_BYTES)
        self._scratch("amx.configuration", _ROW_BYTES)
        direct = {op["source"] for op in self.kernel.walk() if op.is_(LOAD_TILE) and op.get("source")}
        for memory in self.kernel.memories:
            if memory.space != "global" or memory.name in direct:
                self.pointers[memory.name] = self.text.address(*self.buffers[memory.name])
        self._configure()

    def end(self) -> None:
        self.text.do('llvm.call_intrinsic "llvm.x86.tilerelease"() : () -> ()')

    # ------------------------------------------------------------------------------------------------------------- values

    def emit_load_tile(self, op: Op) -> None:
        memory = self.function.memory_of(op)
        offset, size = self.function.buffered(op, memory), memory.dtype.bytes
        rows = _Rows(memory.name, offset * size, const(op["stride"] * size))
        if op.get("source"):
            there = _Rows(op["source"], op["source_offset"] * size, op["source_stride"] * size)
            rows = replace(rows, mask=op["mask"], instead=there)
        self.operands[op.result.name] = rows

    def _keep(self, value: Value, sums: _Sums) -> None:
        """Have a value read from the scratch memory where it is used."""
        self.sums[value.name] = sums
        self.function.elsewhere[value.name] = self._parts

    def _parts(self, value: Value, sizes: Sequence[int] | None) -> Parts:
        known, result = self.sums[value.name], list[Part]()
        at = known.start
        for size in self.lanes.native_sizes(value.vector.dtype, value.vector.elements) if sizes is None else sizes:
            result.append(Part(self._from_scratch(known, at, size, value.vector.dtype), size))
            at += size
        return tuple(result)

    def _from_scratch(self, sums: _Sums, at: int, size: int, wanted: DType) -> str:
        if sums.rounded_pairs and wanted.name == "bf16" and size == 2 * self.lanes.width(sums.dtype):
            return self._rounded_pair(sums, at, size)
        (buffer, type_), stored = self.buffers[sums.memory], sums.dtype
        index, before, after = (
            self.text.constant(at * stored.bytes, "index"),
            vector_type(stored, size),
            vector_type(wanted, size),
        )
        view = self.text.op(f"vector.load {buffer}[{index}] : {type_}, vector<{size * stored.bytes}xi8>")
        name = self.text.op(
            f"vector.bitcast {view} : vector<{size * stored.bytes}xi8> to vector<{size}x{mlir_type(stored)}>"
        )
        if size == 1:
            name = self.text.op(f"vector.extract {name}[0] : {mlir_type(stored)} from vector<1x{mlir_type(stored)}>")
        return name if stored == wanted else self.lanes.convert(name, stored, wanted, before, after)

    def _rounded_pair(self, sums: _Sums, at: int, size: int) -> str:
        """Two vectors as one of half the bits."""
        low, high = (self._from_scratch(sums, start, size // 2, sums.dtype) for start in (at, at + size // 2))
        one, both = vector_type(sums.dtype, size // 2), f"vector<{size}xbf16>"
        return self.text.op(f'llvm.call_intrinsic "{sums.rounded_pairs}"({high}, {low}) : ({one}, {one}) -> {both}')

    def emit_store(self, op: Op) -> None:
        """A block of sums goes from its tiles to where it is stored."""
        if op.operands[0].name in self.laid_down:
            assert self.staying is not None
            self._from_tiles(self.staying, self.pointers[op["memory"]])
        else:
            self.memory.emit_store(op)

    def emit_slice(self, op: Op) -> None:
        known = self.sums.get(op.operands[0].name)
        if known is None:
            self.lanes.emit_slice(op)
        else:
            self._keep(op.result, replace(known, start=known.start + op["start"]))

    def emit_pack(self, op: Op) -> None:
        """Neighbours are read where they are used, next to each other: a store of a row has a register or two."""
        known = [self.sums.get(value.name) for value in op.operands]
        first, at = known[0], 0
        for one, value in zip(known, op.operands, strict=True):
            if first is None or one is None or one != replace(first, start=first.start + at):
                self.lanes.emit_pack(op)
                return
            at += value.vector.elements
        assert first is not None
        self._keep(op.result, first)

    def emit_cast(self, op: Op) -> None:
        known = self.sums.get(op.operands[0].name)
        if known is None or known.dtype != op.operands[0].vector.dtype:  # what was rounded stays rounded
            self.products.emit_cast(op)
        else:
            self._keep(op.result, known)

    # ------------------------------------------------------------------------------------------------------------- sums

    def emit_for(self, op: Op) -> None:
        """A loop that does nothing but add up one block of sums keeps it in tiles."""
        if not self._adds_up_a_block(op):
            self.products.emit_for(op)
            return
        row = next(row for inner in op.walk() if (row := _tiled_row(inner, self.machine)))
        stays = op.results[0].name in self.laid_down
        scratch = self.laid_down[op.results[0].name] if stays else self._block_of(op.results[0])
        self._sums_to_tiles(row, op.operands[0], scratch)
        bits = self.products.loops.counter_bits(op)
        lower, upper, step = (self.indices.integer(op[key], bits) for key in ("lower", "upper", "step"))
        induction = self.text.name()

        def body() -> None:
            self.indices.define(op["induction"], induction, bits)
            self.in_tiles = op.body.arguments[0].name
            self.function.block(op.body.ops)
            self.in_tiles = ""
            self.text.span = op.span

        head = f"scf.for {induction} = {lower} to {upper} step {step}  : i{bits} {{"
        self.text.blocks[-1] += [head, *self.function.nested(body)]
        self.text.do("}")
        if stays:
            self.staying = row
            return
        # Without a step the sums are what they were before.
        self._tiles_to_sums(row, op.results[0], scratch, row.rounded_pairs if op.operands[0].name in self.zeros else "")

    def _adds_up_a_block(self, op: Op) -> bool:
        """Whether a loop carries one block of sums and nothing else, which every product in it adds to, and nothing
        else in it uses."""
        if len(op.body.arguments) != 1:
            return False
        sums = [op.body.arguments[0].name]
        for inner in op.walk():
            if _tiled_row(inner, self.machine):
                if inner.operands[2].name != sums[-1]:
                    return False
                sums.append(inner.result.name)
            elif any(value.name in sums for value in inner.operands):
                return False
        return len(sums) > 1 and op.body.yields[0].name == sums[-1]

    def _laid_down(self, ops: Sequence[Op]) -> Iterator[tuple[str, str]]:
        """Blocks that start at zero and are stored to the beginning of a private memory behind their loop, with no
        product in between; and the memory of each."""
        private, waiting = {memory.name for memory in self.kernel.memories if memory.space == "private"}, ""
        for op in ops:
            if op.region:
                yield from self._laid_down(op.region.ops)
            is_block = op.is_(STORE) and op.operands[0].name == waiting and op["memory"] in private
            if is_block and op["offset"] == const(0) and not op["mask"]:
                yield waiting, op["memory"]
            elif any(_tiled_row(inner, self.machine) for inner in op.walk()):
                starts_at_zero = op.is_(FOR) and self._adds_up_a_block(op) and op.operands[0].name in self.zeros
                waiting = op.results[0].name if starts_at_zero else ""

    def _block_of(self, value: Value) -> str:
        """A scratch memory for a block of sums."""
        name = f"amx.{value.name}"
        self._scratch(name, _SCRATCH_BYTES, 0)
        return name

    def _sums_to_tiles(self, row: MatrixInstruction, value: Value, scratch: str) -> None:
        """Load sums, by way of the scratch memory of those that they become where they are in none."""
        zero, known = value.name in self.zeros, self.sums.get(value.name)
        if known is None and not zero:
            self._spill(value, scratch)
        pointer = "" if zero else self.pointers[known.memory if known else scratch]
        for tile, offset in _places(row):
            if zero:
                self.text.do(f'llvm.call_intrinsic "llvm.x86.tilezero"({self._number(tile)}) : (i8) -> ()')
            else:
                self._move("tileloadd64", tile, pointer, offset, self._row_of_sums(row))

    def _tiles_to_sums(self, row: MatrixInstruction, value: Value, scratch: str, rounded_pairs: str) -> None:
        self._keep(value, _Sums(scratch, 0, value.vector.dtype, rounded_pairs))
        self._from_tiles(row, self.pointers[scratch])

    def _from_tiles(self, row: MatrixInstruction, pointer: str) -> None:
        """Store the block of sums that is in tiles."""
        for tile, offset in _places(row):
            self._move("tilestored64", tile, pointer, offset, self._row_of_sums(row))

    def emit_mma(self, op: Op) -> None:
        """``sums[i][j] += left[i] · right[j]``, behind the loads of all operand tiles that have a register of their own:
        a product that waits for a tile holds up the loads behind it."""
        row, a, b, acc = self.function.product_of(op)
        family, _, intrinsic = row.emit.partition(":")
        if family != "amx":
            self.products.emit_mma(op)
            return
        scratch = "" if self.in_tiles == acc.name else self._block_of(op.result)
        if scratch:
            self._sums_to_tiles(row, acc, scratch)
        rows, columns = _tiles_of(row)
        (left, left_stride), left_load = self._operand(self._rows(a, "amx.left", _ROW_BYTES))
        (right, right_stride), right_load = self._operand(self._rows(b, "amx.right", columns * _ROW_BYTES))
        rights = _RIGHT[rows] if rows == 1 else _RIGHT[rows][:columns]
        at_once = len(set(rights))
        self._move(left_load, _LEFT, left, 0, left_stride)
        for j, tile in enumerate(rights[:at_once]):
            self._move(right_load, tile, right, j * _ROW_BYTES, right_stride)
        for i in range(1, rows):
            below = self.text.op(f"arith.muli {left_stride}, {self.text.constant(i * _ROWS, 'i64')} : i64")
            below = self.text.op(f"arith.addi {left}, {below} : i64")
            self._move(left_load, _LEFT + i, below, 0, left_stride)
        for i, (j, tile) in product(range(rows), enumerate(rights)):
            tiles = ", ".join(self._number(one) for one in (_SUMS + i * columns + j, _LEFT + i, tile))
            self.text.do(f'llvm.call_intrinsic "{intrinsic}"({tiles}) : (i8, i8, i8) -> ()')
            if (later := j + at_once) < columns:
                self._move(right_load, rights[later], right, later * _ROW_BYTES, right_stride)
        if scratch:
            self._tiles_to_sums(row, op.result, scratch, row.rounded_pairs)
        else:
            self.in_tiles = op.result.name

    # ------------------------------------------------------------------------------------------------------------- memory

    def _rows(self, operand: Value, scratch: str, stride: int) -> _Rows:
        """Where an operand lies; one that was not staged is put into the scratch memory."""
        if operand.name not in self.operands:
            self._spill(operand, scratch)
            return _Rows(scratch, const(0), const(stride))
        return self.operands[operand.name]

    def _spill(self, value: Value, scratch: str) -> None:
        (buffer, type_), size = self.buffers[scratch], value.vector.dtype.bytes
        at = 0
        for part in self.lanes.native_parts(value):
            bytes_ = f"vector<{part.size * size}xi8>"
            name = self.text.op(
                f"vector.bitcast {part.name} : {vector_type(value.vector.dtype, part.size)} to {bytes_}"
            )
            self.text.do(f"vector.store {name}, {buffer}[{self.text.constant(at, 'index')}] : {type_}, {bytes_}")
            at += part.size * size

    def _scratch(self, name: str, space: int, depth: int | None = None) -> None:
        self.buffers[name] = local_memory(self.text, space, "i8", depth)
        self.pointers[name] = self.text.address(*self.buffers[name], depth=depth)

    def _operand(self, rows: _Rows) -> tuple[tuple[str, str], str]:
        """Where an operand lies, and how it is loaded.

        Tiles of a memory that the nearest cache has no room for come from the next one each time: they leave the
        nearest one to those that it does have.  Rows that the tiles behind them read as well are near."""
        memory = self.sizes.get(rows.memory, 0)
        fits = memory <= self.machine.nearest_cache_bytes or rows.memory in self.read_again
        return self._address(rows), "tileloadd64" if fits else "tileloaddt164"

    def _address(self, rows: _Rows) -> tuple[str, str]:
        """Of the first row, and bytes from row to row."""
        offset, stride = (self.indices.integer(number, 64) for number in (rows.offset, rows.stride))
        address = self.text.op(f"arith.addi {self.pointers[rows.memory]}, {offset} : i64")
        if rows.instead is None:
            return address, stride
        holds, pairs = self.indices.holds(rows.mask), zip(self._address(rows.instead), (address, stride), strict=True)
        there, apart = (self.text.op(f"arith.select {holds}, {one}, {other} : i64") for one, other in pairs)
        return there, apart

    def _row_of_sums(self, row: MatrixInstruction) -> str:
        return self.text.constant(row.n * row.acc.dtype.bytes, "i64")

    def _move(self, verb: str, tile: int, address: str, offset: int, stride: str) -> None:
        """Load or store one tile."""
        if offset:
            address = self.text.op(f"arith.addi {address}, {self.text.constant(offset, 'i64')} : i64")
        pointer = self.text.op(f"llvm.inttoptr {address} : i64 to !llvm.ptr")
        self.text.do(
            f'llvm.call_intrinsic "llvm.x86.{verb}"({self._number(tile)}, {pointer}, {stride}) : (i8, !llvm.ptr, i64) -> ()'
        )

    def _number(self, tile: int) -> str:
        return self.text.constant(tile, "i8")

    def _configure(self) -> None:
        """All eight tiles are 16 rows of 64 bytes."""
        # https://www.intel.com/content/www/us/en/docs/intrinsics-guide/index.html#text=_tile_loadconfig: palette, 8 row widths of two bytes
        # from byte 16 on, 8 row counts from byte 48 on.
        table = [0] * _ROW_BYTES
        table[0] = 1
        for tile in range(8):
            table[16 + 2 * tile], table[48 + tile] = _ROW_BYTES, _ROWS
        (buffer, type_), vector = self.buffers["amx.configuration"], f"vector<{_ROW_BYTES}xi8>"
        value = self.text.op(f"arith.constant dense<{table}> : {vector}")
        self.text.do(f"vector.store {value}, {buffer}[{self.text.constant(0, 'index')}] : {type_}, {vector}")
        pointer = self.text.op(f"llvm.inttoptr {self.pointers['amx.configuration']} : i64 to !llvm.ptr")
        self.text.do(f'llvm.call_intrinsic "llvm.x86.ldtilecfg"({pointer}) : (!llvm.ptr) -> ()')

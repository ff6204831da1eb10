"""Matrix products of thread kernels for CPUs: tiles of vector registers, as outer products or as inner products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wavespec.emit.cpu_lanes import CpuLanes
from wavespec.emit.function import Emitter, Function
from wavespec.emit.joined_lanes import joined_lanes
from wavespec.emit.loops import Loops
from wavespec.emit.normal_sums import normal_sums, rounded_operands
from wavespec.emit.registers import Part, Parts, mlir_type, resized, vector_type
from wavespec.emit.word_tables import WordTables
from wavespec.ir.dtype import DType
from wavespec.ir.kernel import Op, Region, Value, VectorType
from wavespec.ir.thread_ops import DOT, MMA
from wavespec.targets.matrix_instruction import MatrixInstruction

_NEAR = 4
"""Words of 32 bits in 128 bits, inside of which a vector is shuffled by one instruction on all machines.  What is put
there first serves several of them."""


class CpuProducts(Emitter):
    """Every row of a machine is ``family:intrinsic``; registers are lists of whole machine vectors.

    ``fma``, ``dot2``, ``dot4``: every element (group along k) of a column of ``a`` times the vectors of a row of ``b``.
    ``mla``: like ``fma`` in two steps, of numbers that are widened to the type of the sums as they are multiplied.
    ``mmla``: pairs of rows of ``a`` times pairs of columns of ``b``, groups along k of each side by side.
    ``inner``: vectors along k of ``a`` times those of ``b``.
    ``lanes``: like ``fma`` and ``dot2``, one vector of sums at a time, which may be of several matrices.

    A loop of products may carry something *beside* their sums, which becomes part of them after the loop:
    1. inner products: one vector per sum, whose lanes are added up then;
    2. pairs: one vector of 2 x 2 sums for each two of both, whose rows are put side by side then;
    3. a biased operand: what the bias adds to each column, which is taken away then.
    """

    def __init__(self, function: Function, lanes: CpuLanes, loops: Loops, tables: WordTables) -> None:
        super().__init__(function)
        self.lanes, self.loops, self.tables = lanes, loops, tables
        self.normal = normal_sums(self.kernel, self.machine)
        self.of_dots = {value.name for op in self.kernel.walk() if op.is_(DOT) for value in op.operands}
        self.rounded = rounded_operands(self.kernel, self.machine)
        """By the name of a conversion's result."""
        self._spread_before: tuple[list[str], tuple[object, ...], str] | None = None
        """The block, the elements and the vector of the last product that took elements of runs."""

    def emit_for(self, op: Op) -> None:
        rows = {inner.operands[2].name: row for inner in op.body.ops if (row := self._row_beside(inner))}
        sums = [(at, rows[value.name]) for at, value in enumerate(op.body.arguments) if value.name in rows]
        if not sums:
            self.loops.emit_for(op)
            return

        def carried(values: tuple[Value, ...]) -> tuple[Value, ...]:
            return (*values, *(self._beside(values[at], row) for at, row in sums))

        operands, results, body = carried(op.operands), carried(op.results), op.body
        for value in operands[len(op.operands) :]:
            self.values[value.name] = self._zeros(value.vector)
        region = Region(carried(body.arguments), body.ops, carried(body.yields))
        self.loops.emit_for(replace(op, operands=operands, results=results, region=region))
        for at, row in sums:
            result = op.results[at]
            beside = self.values.pop(self._beside(result, row).name)
            self.values[result.name] = self._closed(row, self.lanes.native_parts(result), beside)

    def emit_mma(self, op: Op) -> None:
        row, a, b, acc = self.function.product_of(op)
        if op.get("unbiased"):
            self.values[op.result.name] = self._outer(row, a, b, acc)
            return
        self.values[op.result.name] = self._product(row, a, b, acc, op.result)

    def emit_dot(self, op: Op) -> None:
        row = self.machine.instruction(op["instruction"])
        assert row is not None
        _, b, acc = op.operands
        spread = self._spread_once(op, row)
        width = acc.vector.elements  # of a tile that is narrower than a register, as many
        result = self._multiplied(row, spread, self.function.whole(b), self.function.whole(acc), width)
        self.values[op.result.name] = (Part(result, width),)

    def emit_cast(self, op: Op) -> None:
        """Of what instructions may round that know no numbers below the smallest normal one."""
        (value,), after = op.operands, op.result.vector.dtype
        rounding = self.normal.get(value.name) or self.rounded.get(op.result.name)
        width = self.lanes.width(value.vector.dtype)
        if not rounding or (value.vector.dtype.name, after.name) != ("f32", "bf16") or value.vector.elements % width:
            self.tables.emit_cast(op)
            return
        types = f"({vector_type(value.vector.dtype, width)}) -> {vector_type(after, width)}"
        parts = self.function.parts(value, [width] * (value.vector.elements // width))
        self.values[op.result.name] = tuple(
            Part(self.text.op(f'llvm.call_intrinsic "{rounding}"({part.name}) : {types}'), width) for part in parts
        )

    def emit_transpose(self, op: Op) -> None:
        """Of two vectors whose elements a product takes side by side, one shuffle of words."""
        (value,), rows, columns = op.operands, op["rows"], op["columns"]
        if op.result.name not in self.of_dots or rows != 2 or op["unit"] != 1 or value.vector.dtype.bits != 16:
            self.lanes.emit_transpose(op)
            return
        dtype, size = value.vector.dtype, rows * columns
        old, half, both = vector_type(dtype, columns), f"vector<{columns}xi16>", f"vector<{size}xi16>"
        lines = [part.name for part in self.function.parts(value, [columns] * rows)]
        one, other = (self.text.op(f"vector.bitcast {line} : {old} to {half}") for line in lines)
        taken = [at + line * columns for at in range(columns) for line in range(rows)]
        name = self.text.op(f"vector.shuffle {one}, {other} {taken} : {half}, {half}")
        name = self.text.op(f"vector.bitcast {name} : {both} to {vector_type(dtype, size)}")
        self.values[op.result.name] = (Part(name, size),)

    def _spread_once(self, op: Op, row: MatrixInstruction) -> str:
        """The vector of the product before, where that took the same: more of them would wait in registers."""
        a, lanes = op.operands[0], op.operands[2].vector.elements
        block, taken = self.text.blocks[-1], (a.name, lanes, op["start"], op["runs"], row.name)
        if self._spread_before is None or self._spread_before[0] is not block or self._spread_before[1] != taken:
            self._spread_before = block, taken, self._spread_runs(op, row)
        return self._spread_before[2]

    def _spread_runs(self, op: Op, row: MatrixInstruction) -> str:
        """A group of elements of each run of ``a``, in as many neighbouring lanes as have that matrix."""
        a, lanes, runs = op.operands[0], op.operands[2].vector.elements, op["runs"]
        name, dtype, elements = self.function.whole(a), a.vector.dtype, a.vector.elements
        if elements == row.k:
            return self._spread(name, dtype, lanes, row.k)
        word = mlir_type(dtype) if row.k == 1 else f"i{dtype.bits * row.k}"
        words = elements // row.k
        if row.k > 1:
            name = self.text.op(f"vector.bitcast {name} : {vector_type(dtype, elements)} to vector<{words}x{word}>")
        run, first = words // runs, op["start"] // row.k
        taken = [lane // (lanes // runs) * run + first for lane in range(lanes)]
        if run % _NEAR == 0 and lanes // runs % _NEAR == 0 and words > _NEAR:
            around = [where // _NEAR * _NEAR + lane % _NEAR for lane, where in enumerate(taken)]
            name = self._as_it_is(self._shuffled(name, around, words, word), lanes, word)
            taken, words = [lane // _NEAR * _NEAR + first % _NEAR for lane in range(lanes)], lanes
        name = self._shuffled(name, taken, words, word)
        if row.k > 1:
            name = self.text.op(
                f"vector.bitcast {name} : vector<{lanes}x{word}> to {vector_type(dtype, lanes * row.k)}"
            )
        return name

    def _as_it_is(self, name: str, lanes: int, word: str) -> str:
        """The same vector, which LLVM takes for a new one: of two shuffles that follow each other it would make one, and
        that takes two instructions for each result."""
        word_type, float_type = f"vector<{lanes}x{word}>", f"vector<{lanes}xf32>"
        name = name if word == "f32" else self.text.op(f"arith.bitcast {name} : {word_type} to {float_type}")
        name = self.text.op(f'llvm.call_intrinsic "llvm.arithmetic.fence"({name}) : ({float_type}) -> {float_type}')
        return name if word == "f32" else self.text.op(f"arith.bitcast {name} : {float_type} to {word_type}")

    def _shuffled(self, name: str, taken: Sequence[int], words: int, word: str) -> str:
        if [*taken] == [*range(words)]:
            return name
        type_ = f"vector<{words}x{word}>"
        return self.text.op(f"vector.shuffle {name}, {name} {[*taken]} : {type_}, {type_}")

    def _product(self, row: MatrixInstruction, a: Value, b: Value, acc: Value, result: Value) -> Parts:
        sums = self.lanes.native_parts(acc) if _vectors_beside(row) else self._outer(row, a, b, acc)
        if not _has_beside(row):
            return sums
        before = self._beside(acc, row)
        carried = self.values.get(before.name)
        lanes, bias = _lanes_and_bias(row, carried or self._zeros(before.vector))
        crossed = self._pairs if _is_of_pairs(row) else self._inner
        beside = (*crossed(row, a, b, lanes), *self._bias(row, b, bias))
        if carried is None:
            return self._closed(row, sums, beside)
        self.values[self._beside(result, row).name] = beside
        return sums

    # ---------------------------------------------------------------------------------------------------- products

    def _outer(self, row: MatrixInstruction, a: Value, b: Value, acc: Value) -> Parts:
        width = self.lanes.width(acc.vector.dtype)
        columns, depth = row.n // width, row.k
        left = self.function.parts(a, [depth] * row.m)
        right = self.function.parts(b, [width * depth] * columns)
        total = [part.name for part in self.function.parts(acc, [width] * (row.m * columns))]
        for m in range(row.m):
            spread = self._spread(left[m].name, a.vector.dtype, width, depth)
            for n in range(columns):
                at = m * columns + n
                total[at] = self._multiplied(row, spread, right[n].name, total[at])
        return tuple(Part(name, width) for name in total)

    def _inner(self, row: MatrixInstruction, a: Value, b: Value, lanes: Parts) -> Parts:
        """One vector per sum, where there are any; a vector of ``b`` meets all of ``a`` before the next is needed."""
        if not lanes:
            return ()
        return self._crossed(row, (a, row.m), (b, row.n), lanes)

    def _pairs(self, row: MatrixInstruction, a: Value, b: Value, blocks: Parts) -> Parts:
        """One vector per block of 2 x 2 sums, of two rows of both operands."""
        return self._crossed(row, (a, row.m // 2), (b, row.n // 2), blocks)

    def _crossed(self, row: MatrixInstruction, left: tuple[Value, int], right: tuple[Value, int], onto: Parts) -> Parts:
        """Each of so many vectors of one operand times each of the other, added to a vector of sums."""
        (lefts, rights), total = (self._vectors(*left), self._vectors(*right)), [part.name for part in onto]
        for n, column in enumerate(rights):
            for m, line in enumerate(lefts):
                at = m * len(rights) + n
                total[at] = self._multiplied(row, line.name, column.name, total[at])
        return tuple(Part(name, onto[0].size) for name in total)

    def _vectors(self, operand: Value, count: int) -> Parts:
        return self.function.parts(operand, [operand.vector.elements // count] * count)

    def _bias(self, row: MatrixInstruction, b: Value, bias: Parts) -> Parts:
        """What the bias of ``a`` adds to each column, if it has one."""
        if not bias:
            return ()
        size = b.vector.elements // len(bias)
        every = self.text.constant(row.a.bias, vector_type(row.a.dtype, size))
        pairs = zip(bias, self.function.parts(b, [size] * len(bias)), strict=True)
        return tuple(Part(self._multiplied(row, every, part.name, total.name), total.size) for total, part in pairs)

    def _multiplied(self, row: MatrixInstruction, left: str, right: str, total: str, width: int = 0) -> str:
        """Groups along k multiplied and added into ``total``; multiply-add-pairs has no accumulator of its own."""
        width, intrinsic = width or self.lanes.width(row.acc.dtype), row.emit.rpartition(":")[2]
        lanes = vector_type(row.acc.dtype, width)
        if intrinsic == "fma":
            return self.text.op(f"math.fma {left}, {right}, {total} : {lanes}")
        if intrinsic == "mla":
            if row.b.dtype != row.acc.dtype:
                narrow = vector_type(row.b.dtype, width)
                left, right = (self.text.op(f"arith.extsi {one} : {narrow} to {lanes}") for one in (left, right))
            product = self.text.op(f"arith.{'mulf' if row.acc.dtype.is_float else 'muli'} {left}, {right} : {lanes}")
            return self.text.op(f"{_add(row)} {total}, {product} : {lanes}")
        bits, whole = width * row.acc.dtype.bits, 8 * self.machine.vector_bytes
        operand = vector_type(row.b.dtype, bits // row.b.dtype.bits)
        if bits < whole and intrinsic.endswith(f".{whole}"):  # its name ends with the bits of its vectors
            intrinsic = f"{intrinsic.removesuffix(str(whole))}{bits}"
        if "pmadd" in intrinsic:
            product = self.text.op(
                f'llvm.call_intrinsic "{intrinsic}"({left}, {right}) : ({operand}, {operand}) -> {lanes}'
            )
            return self.text.op(f"arith.addi {total}, {product} : {lanes}")
        return self.text.op(
            f'llvm.call_intrinsic "{intrinsic}"({total}, {left}, {right}) : ({lanes}, {operand}, {operand}) -> {lanes}'
        )

    def _spread(self, name: str, dtype: DType, width: int, depth: int) -> str:
        """One element (or group of ``depth`` along k) in every lane."""
        element = vector_type(dtype, depth)
        if depth == 1:
            return self.text.op(f"vector.broadcast {name} : {element} to {vector_type(dtype, width)}")
        word = f"i{dtype.bits * depth}"
        name = self.text.op(f"vector.bitcast {name} : {element} to vector<1x{word}>")
        name = self.text.op(f"vector.broadcast {name} : vector<1x{word}> to vector<{width}x{word}>")
        return self.text.op(f"vector.bitcast {name} : vector<{width}x{word}> to {vector_type(dtype, width * depth)}")

    # ------------------------------------------------------------------------------------------------- beside sums

    def _row_beside(self, op: Op) -> MatrixInstruction | None:
        """The row of a product that keeps something beside its sums, whichever way round it is used."""
        if not op.is_(MMA) or op.get("unbiased"):
            return None
        row = self.machine.instruction(op["instruction"].partition(":")[0])
        return row if row is not None and _has_beside(row) else None

    def _beside(self, sums: Value, row: MatrixInstruction) -> Value:
        """One vector per sum of inner products, or per block of them; then, of the bias, one per column of sums, or per
        vector of columns."""
        width = self.lanes.width(row.acc.dtype)
        lanes = _vectors_beside(row) * width
        bias = (row.n * width if lanes else row.n) if row.a.bias else 0
        return Value(f"{sums.name}.beside", VectorType(row.acc.dtype, lanes + bias))

    def _closed(self, row: MatrixInstruction, sums: Parts, beside: Parts) -> Parts:
        """The sums with what was kept beside them."""
        lanes, bias = _lanes_and_bias(row, beside)
        unbiased = lanes or sums
        if bias:
            unbiased = self._each("arith.subi", row, unbiased, [bias[at % len(bias)] for at in range(len(unbiased))])
        if not lanes:
            return unbiased
        sizes = [part.size for part in sums]
        lines = (
            self._rows_of_pairs(row, unbiased, sizes) if _is_of_pairs(row) else self._lane_sums(row, unbiased, sizes)
        )
        return self._each(_add(row), row, sums, lines)

    def _rows_of_pairs(self, row: MatrixInstruction, blocks: Parts, sizes: Sequence[int]) -> Parts:
        """The rows of blocks of 2 x 2 sums, ``sizes`` of them in one part: halves of neighbours side by side."""
        type_, lines, columns = vector_type(row.acc.dtype, 4), list[Part](), row.n // 2
        for start in range(0, len(blocks), columns):
            names = [block.name for block in blocks[start : start + columns]]
            pairs = list(zip(names[::2], names[1::2], strict=True))
            for half in ("[0, 1, 4, 5]", "[2, 3, 6, 7]"):
                shuffles = (f"vector.shuffle {one}, {other} {half} : {type_}, {type_}" for one, other in pairs)
                lines += [Part(self.text.op(shuffle), 4) for shuffle in shuffles]
        return resized(self.text, tuple(lines), row.acc.dtype, sizes)

    def _lane_sums(self, row: MatrixInstruction, vectors: Parts, sizes: Sequence[int]) -> Parts:
        """The sum of the lanes of each vector, ``sizes`` of them in one part."""
        width, dtype = self.lanes.width(row.acc.dtype), row.acc.dtype
        names = [part.name for part in vectors]
        blocks = (names[start : start + width] for start in range(0, len(names), width))
        sums = [Part(joined_lanes(self.text, block, width, dtype.name, _add(row)), width) for block in blocks]
        rest = width * len(sums) - sum(sizes)
        return resized(self.text, tuple(sums), dtype, [*sizes, *([rest] if rest else [])])

    def _each(self, verb: str, row: MatrixInstruction, first: Parts, second: Sequence[Part]) -> Parts:
        return tuple(
            Part(self.text.op(f"{verb} {one.name}, {other.name} : {vector_type(row.acc.dtype, one.size)}"), one.size)
            for one, other in zip(first, second, strict=False)
        )

    def _zeros(self, type_: VectorType) -> Parts:
        sizes = self.lanes.native_sizes(type_.dtype, type_.elements)
        return tuple(Part(self.text.constant(0, vector_type(type_.dtype, size)), size) for size in sizes)


def _add(row: MatrixInstruction) -> str:
    return "arith.addf" if row.acc.dtype.is_float else "arith.addi"


def _is_inner(row: MatrixInstruction) -> bool:
    return row.emit.startswith("inner:")


def _is_of_pairs(row: MatrixInstruction) -> bool:
    return row.emit.startswith("mmla:")


def _vectors_beside(row: MatrixInstruction) -> int:
    """Vectors in place of the sums themselves, while they are added to."""
    return row.m * row.n // (4 if _is_of_pairs(row) else 1) if _is_inner(row) or _is_of_pairs(row) else 0


def _has_beside(row: MatrixInstruction) -> bool:
    return bool(_vectors_beside(row) or row.a.bias)


def _lanes_and_bias(row: MatrixInstruction, beside: Parts) -> tuple[Parts, Parts]:
    cut = _vectors_beside(row)
    return beside[:cut], beside[cut:]

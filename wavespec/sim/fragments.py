"""Registers of all lanes in, registers out: matrix instructions and matrix loads through their layouts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wavespec.ir.layout import Layout
from wavespec.sim.elements import Array, Integers, bits, converted, cut_to
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import Fragment, MatrixInstruction

MATRIX_LOAD_LANES = 32


@dataclass(frozen=True, slots=True)
class FragmentIndex:
    """Which element of a ``shape`` matrix, row after row, each of ``registers`` of each lane of a wave holds."""

    shape: tuple[int, int]
    registers: int
    element: Integers
    """Of every register, those of one lane after those of another, ``[lanes * registers]``."""
    holder: Integers
    """Of every element, the last register that holds it, ``[rows * columns]``."""

    @staticmethod
    def of(rows: Integers, columns: Integers, shape: tuple[int, int]) -> FragmentIndex:
        """From the row and the column of every register of every lane, ``[lanes, registers]``."""
        element = (rows * shape[1] + columns).reshape(-1)
        holder = np.zeros(shape[0] * shape[1], np.int64)
        holder[element] = np.arange(len(element))
        return FragmentIndex(shape, rows.shape[1], element, holder)

    def gather(self, registers: Array) -> tuple[Array, int]:
        """``[waves, rows, columns]`` from ``[threads, registers]``, and how many replicas disagree."""
        parts = registers.reshape(-1, len(self.element))
        matrix = parts.take(self.holder, axis=1)
        wrong = 0
        if len(self.element) > len(self.holder):
            wrong = int(np.count_nonzero(bits(matrix.take(self.element, axis=1)) != bits(parts)))
        return matrix.reshape(-1, *self.shape), wrong

    def scatter(self, matrix: Array) -> Array:
        """``[threads, registers]`` from ``[waves, rows, columns]``."""
        return matrix.reshape(len(matrix), -1).take(self.element, axis=1).reshape(-1, self.registers)


@dataclass(frozen=True, slots=True)
class MatrixUnit:
    """One matrix instruction, ready to run."""

    instruction: MatrixInstruction
    a: FragmentIndex
    b: FragmentIndex | None
    """None: read from shared memory, never from registers."""
    acc: FragmentIndex

    def unbiased(self) -> MatrixUnit:
        """The same unit, of whose operands no bias is taken away."""
        row = self.instruction
        plain = replace(row, a=replace(row.a, bias=0), b=replace(row.b, bias=0))
        return replace(self, instruction=plain)

    def run(self, a: Array, b: Array, acc: Array) -> tuple[Array, int]:
        """``acc + a·bᵀ`` of all waves, from registers, and the number of disagreeing replicas."""
        assert self.b is not None, f"'{self.instruction.name}' takes b from shared memory"
        left, wrong_a = self.a.gather(a)
        right, wrong_b = self.b.gather(b)
        result, wrong_acc = self.multiply(left, right, acc)
        return result, wrong_a + wrong_b + wrong_acc

    def multiply(self, left: Array, right: Array, acc: Array) -> tuple[Array, int]:
        """The same from matrices ``[waves, m, k]`` and ``[waves, n, k]``.

        Floating point: products and sums in f64, rounded once, towards zero by a unit that `truncates`, which loses
        that much in each addition at least.  Integers: exact, wrapped to the accumulator.
        """
        total, wrong = self.acc.gather(acc)
        # i8 and i16 products are exact in f64, where numpy has a fast matrix product.
        wide = np.int64 if left.dtype.kind in "iu" and left.dtype.itemsize > 2 else np.float64
        with np.errstate(all="ignore"):
            left, right = (
                _numbers(matrix, operand, wide)
                for matrix, operand in ((left, self.instruction.a), (right, self.instruction.b))
            )
            product = left @ right.swapaxes(1, 2)
            if total.dtype.kind in "iu":
                result = (total.astype(np.int64) + product.astype(np.int64)).astype(total.dtype)
            else:
                exact = total.astype(np.float64) + product
                result = converted(exact, self.instruction.acc.dtype)
                if self.instruction.truncates:
                    larger = np.abs(result) > np.abs(exact)
                    result = np.where(larger, np.nextafter(result, np.zeros_like(result)), result)
        return self.acc.scatter(result), wrong


def _numbers(matrix: Array, operand: Fragment, wide: type[np.int64 | np.float64]) -> Array:
    """What the instruction multiplies, from what registers hold."""
    numbers: Array = (cut_to(matrix, operand.kept_bits) if operand.kept_bits else matrix).astype(wide)
    return numbers - operand.bias if operand.bias else numbers


def matrix_unit(machine: Machine, name: str) -> MatrixUnit:
    """The instruction ``name`` of a machine, or ``name:swapped``; raises ``ValueError`` if there is none.

    Also raises ``ValueError`` where a layout of the row does not cover its matrix: the row is wrong then.
    """
    instruction = machine.instruction(name)
    if instruction is None:
        raise ValueError(f"machine '{machine.variant}' has no matrix instruction '{name}'")
    m, n, k = instruction.m, instruction.n, instruction.k
    parts: list[FragmentIndex | None] = []
    for fragment, dims, shape in (
        (instruction.a, ("m", "k"), (m, k)),
        (instruction.b, ("n", "k"), (n, k)),
        (instruction.acc, ("m", "n"), (m, n)),
    ):
        if fragment is instruction.b and fragment.from_shared:
            parts.append(None)
            continue
        rows, columns = (_coordinates(fragment.layout, dim, instruction.lanes) for dim in dims)
        covered = np.zeros(shape, np.bool_)
        inside = (rows >= 0) & (rows < shape[0]) & (columns >= 0) & (columns < shape[1])
        covered[rows[inside], columns[inside]] = True
        if not inside.all() or not covered.all():
            raise ValueError(
                f"'{name}': layout {fragment.layout} does not cover {dims[0]} x {dims[1]} = {shape} exactly"
            )
        parts.append(FragmentIndex.of(rows, columns, shape))
    a, b, acc = parts
    assert a is not None and acc is not None
    return MatrixUnit(instruction, a, b, acc)


def _coordinates(layout: Layout, dim: str, lanes: int) -> Integers:
    base = np.broadcast_to(np.asarray(layout.base_of(dim).evaluate({"lane": np.arange(lanes)})), (lanes,))
    return base[:, None] + np.array([offsets[dim] for offsets in layout.register_offsets()], np.int64)


def distributed_matrices(rows: Array) -> Array:
    """Registers after a matrix load: ``[waves, count, 8, width]`` elements in, ``[threads, width / 4 · count]`` out."""
    lane = np.arange(MATRIX_LOAD_LANES)
    waves, count, _, width = rows.shape
    part = width // 4
    parts = rows[:, :, (lane // 4)[:, None], part * (lane % 4)[:, None] + np.arange(part)]
    return parts.transpose(0, 2, 1, 3).reshape(waves * MATRIX_LOAD_LANES, part * count)


def collected_matrices(registers: Array, count: int) -> Array:
    """The inverse: ``[threads, e · count]`` in, ``[threads, 4 e]`` out, lane 8j + r with row r of matrix j."""
    part = registers.shape[1] // count
    parts = registers.reshape(-1, 8, 4, count, part)
    rows = np.zeros((len(parts), MATRIX_LOAD_LANES // 8, 8, 4 * part), registers.dtype)
    rows[:, :count] = parts.transpose(0, 3, 1, 2, 4).reshape(len(parts), count, 8, 4 * part)
    return rows.reshape(-1, 4 * part)

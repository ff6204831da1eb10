"""The register layouts of every matrix instruction against the vendors' tables, retyped here as formulas."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from wavespec.targets import Fragment, Machine, MatrixInstruction, machines

Place = Callable[[int, int], tuple[int, int]]
"""(lane, register) -> (row, column): ``[m, k]`` for a, ``[n, k]`` for b, ``[m, n]`` for the accumulator."""


def same(fragment: Fragment, dims: tuple[str, str], expected: Place, lanes: int, registers: int) -> None:
    assert fragment.layout.elements == registers
    offsets = list(fragment.layout.register_offsets())
    for lane in range(lanes):
        bases = [fragment.layout.base_of(dim).evaluate({"lane": lane}) for dim in dims]
        found = [tuple(base + offset[dim] for base, dim in zip(bases, dims, strict=True)) for offset in offsets]
        assert found == [expected(lane, register) for register in range(registers)], lane


def check(row: MatrixInstruction, a: tuple[Place, int], b: tuple[Place, int], acc: tuple[Place, int]) -> None:
    same(row.a, ("m", "k"), a[0], row.lanes, a[1])
    same(row.b, ("n", "k"), b[0], row.lanes, b[1])
    same(row.acc, ("m", "n"), acc[0], row.lanes, acc[1])


def row_named(target: str, name: str) -> MatrixInstruction:
    row = machines(target)[0].instruction(name)
    assert row is not None, name
    return row


# ---- PTX ISA 9.7.14.5: the figures of mma.m16n8k16 (.f16/.bf16), m16n8k32 (.s8), m16n8k8 (.tf32).


def mma_accumulator(lane: int, i: int) -> tuple[int, int]:
    group, thread = lane >> 2, lane % 4
    return (group if i < 2 else group + 8), thread * 2 + (i & 1)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_mma_m16n8k16(dtype: str) -> None:
    def a(lane: int, i: int) -> tuple[int, int]:
        group, thread = lane >> 2, lane % 4
        row = group if i in (0, 1, 4, 5) else group + 8
        return row, thread * 2 + (i & 1) + (8 if i >= 4 else 0)

    def b(lane: int, i: int) -> tuple[int, int]:
        group, thread = lane >> 2, lane % 4
        return group, thread * 2 + (i & 1) + (8 if i >= 2 else 0)

    check(row_named("sm_90", f"mma_m16n8k16_{dtype}"), (a, 8), (b, 4), (mma_accumulator, 4))


def test_mma_m16n8k32_i8() -> None:
    def a(lane: int, i: int) -> tuple[int, int]:
        group, thread = lane >> 2, lane % 4
        row = group if i < 4 or 8 <= i < 12 else group + 8
        return row, thread * 4 + (i & 3) + (16 if i >= 8 else 0)

    def b(lane: int, i: int) -> tuple[int, int]:
        group, thread = lane >> 2, lane % 4
        return group, thread * 4 + (i & 3) + (16 if i >= 4 else 0)

    check(row_named("sm_90", "mma_m16n8k32_i8"), (a, 16), (b, 8), (mma_accumulator, 4))


def test_mma_m16n8k8_tf32() -> None:
    def a(lane: int, i: int) -> tuple[int, int]:
        group, thread = lane >> 2, lane % 4
        return (group if i in (0, 2) else group + 8), (thread if i < 2 else thread + 4)

    def b(lane: int, i: int) -> tuple[int, int]:
        return lane >> 2, lane % 4 + (4 if i == 1 else 0)

    check(row_named("sm_90", "mma_m16n8k8_tf32"), (a, 4), (b, 2), (mma_accumulator, 4))


# ---- PTX ISA 9.7.15.5.1.1: wgmma D and A fragments in registers; B is read from shared memory, whole.


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8e4m3fn", "f8e5m2", "i8", "tf32"])
@pytest.mark.parametrize("n", [8, 24, 192, 256])
def test_wgmma(n: int, dtype: str) -> None:
    """A word of ``a`` has as many elements along k as fit; words alternate between two rows, then step along k."""
    element_bytes = {"f16": 2, "bf16": 2, "tf32": 4}.get(dtype, 1)
    word, depth = 4 // element_bytes, 32 // element_bytes

    def accumulator(thread: int, i: int) -> tuple[int, int]:
        warp, lane = divmod(thread, 32)
        return 16 * warp + lane // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (lane % 4) + i % 2

    def a(thread: int, i: int) -> tuple[int, int]:
        warp, lane = divmod(thread, 32)
        row = 16 * warp + lane // 4 + 8 * (i // word % 2)
        return row, 4 * word * (i // (2 * word)) + word * (lane % 4) + i % word

    row = row_named("sm_90", f"wgmma_m64n{n}k{depth}_{dtype}")
    assert (row.lanes, row.b.from_shared, row.acc.from_shared) == (128, True, False)
    assert row.majors == (("k", "mn") if element_bytes == 2 else ("k",))
    assert row.emit.startswith(f"wgmma:wgmma.mma_async.sync.aligned.m64n{n}k{depth}.")
    same(row.a, ("m", "k"), a, 128, 4 * word)
    same(row.b, ("n", "k"), lambda _, i: (i // depth, i % depth), 1, depth * n)
    same(row.acc, ("m", "n"), accumulator, 128, n // 2)


# ---- AMD matrix instruction calculator: element of vector register r, lane l, for dense single-block MFMA.

MFMA = [
    (target, name)
    for target, names in {
        "gfx942": [
            "f32_16x16x16_f16",
            "f32_16x16x16_bf16",
            "f32_32x32x8_f16",
            "f32_32x32x8_bf16",
            "i32_16x16x32_i8",
            "i32_32x32x16_i8",
            "f32_16x16x4_f32",
            "f32_32x32x2_f32",
        ],
        "gfx950": [
            "f32_16x16x32_f16",
            "f32_16x16x32_bf16",
            "f32_32x32x16_f16",
            "f32_32x32x16_bf16",
            "i32_16x16x64_i8",
            "i32_32x32x32_i8",
            "f32_16x16x16_f16",
            "f32_32x32x8_bf16",
            "f32_16x16x4_f32",
            "f32_32x32x2_f32",
        ],
    }.items()
    for name in names
]


@pytest.mark.parametrize(("target", "name"), MFMA)
def test_mfma(target: str, name: str) -> None:
    side, _, depth = (int(word) for word in name.split("_")[1].split("x"))
    registers = side * depth // 64

    def operand(lane: int, r: int) -> tuple[int, int]:
        return lane % side, registers * (lane // side) + r

    def accumulator(lane: int, r: int) -> tuple[int, int]:
        row = 4 * (lane // 16) + r if side == 16 else 8 * (r // 4) + 4 * (lane // 32) + r % 4
        return row, lane % side

    check(row_named(target, name), (operand, registers), (operand, registers), (accumulator, side * side // 64))


# ---- CPU register tiles: one lane, rows of a against vectors of b, pairs of k side by side for dot products.


def rows_of(length: int) -> Place:
    return lambda _, register: divmod(register, length)


def groups_of(columns: int, group: int) -> Place:
    """A tile register of b: one row per group along k, the groups of all columns side by side."""

    def place(_: int, register: int) -> tuple[int, int]:
        row, rest = divmod(register, columns * group)
        return rest // group, row * group + rest % group

    return place


@pytest.mark.parametrize("machine", machines("cpu"), ids=lambda machine: machine.variant)
def test_cpu_tiles(machine: Machine) -> None:
    for row in machine.instructions:
        family = row.emit.split(":")[0]
        # A tile of AMX has 16 rows of 64 bytes, and one instruction here takes two tiles of either operand.
        whole = {"amx": 64, "inner": machine.vector_bytes}.get(family, 0)
        of_lanes = 4 // row.a.dtype.bytes  # elements along k in one word
        depth = whole // row.a.dtype.bytes or {"fma": 1, "dot2": 2, "dot4": 4, "lanes": of_lanes}[family]
        assert row.k == depth
        operand, tile = rows_of(depth), rows_of(row.n)
        right = groups_of(row.n, 4 // row.b.dtype.bytes) if family == "amx" else operand
        check(row, (operand, row.m * depth), (right, row.n * depth), (tile, row.m * row.n))


@pytest.mark.parametrize("machine", machines("cpu"), ids=lambda machine: machine.variant)
def test_cpu_tiles_fit_the_vector_registers(machine: Machine) -> None:
    """The sums, what a bias adds to them, a row of b and one element of a; of inner products, a and one row of b."""
    registers = 32 if machine.vector_bytes == 64 else 16
    for row in machine.instructions:
        family = row.emit.split(":")[0]
        width = machine.vector_bytes // row.acc.dtype.bytes
        if family == "inner":
            rows_at_once = row.m if row.n > 1 else 1  # one column meets each of them once
            assert row.m * row.n + (row.n if row.a.bias else 0) + rows_at_once + 1 <= registers
        elif family != "amx":
            columns = row.n // width
            assert columns * width == row.n
            assert columns * (row.m + (2 if row.a.bias else 1)) + 1 <= registers

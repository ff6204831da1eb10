"""Asynchronous products from shared memory, in every arrangement that the hardware reads, against numpy."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from tests.sim.simulated_kernels import NVIDIA, built, kernel, numbers, tensor
from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Memory, Value
from wavespec.ir.layout import Arrangement, Digit, Layout, row_major, swizzled_slabs
from wavespec.ir.thread import SharedTile, ThreadBuilder
from wavespec.sim.elements import numpy_dtype
from wavespec.sim.findings import SimulationReport
from wavespec.sim.simt import simulate

WARPGROUP = replace(NVIDIA, lanes=128)
Major = Literal["k", "mn"]


def cores(rows: str, extent: int, depth: int, element_bytes: int) -> Arrangement:
    """Blocks of 8 rows of 16 bytes, those along k next to each other."""
    chunk = 16 // element_bytes
    digits = (
        Digit(rows, extent // 8, 8, depth * 8),
        Digit("k", depth // chunk, chunk, 8 * chunk),
        Digit(rows, 8, 1, chunk),
        Digit("k", chunk, 1, 1),
    )
    return Arrangement(digits)


def staged(name: str, dims: tuple[str, str], extents: tuple[int, int], dtype: str, arrangement: Arrangement) -> Memory:
    return Memory(name, DTYPES[dtype], dims, (const(extents[0]), const(extents[1])), "shared", None, arrangement)


def product(
    instruction: str,
    a: Memory,
    b: Memory,
    majors: tuple[Major, Major] = ("k", "k"),
    *,
    fence: bool = True,
    barrier: bool = True,
    wait: int = 0,
    registers: bool = False,
) -> Kernel:
    """One wave stages ``a[m, k]`` and ``b[n, k]`` element by element, multiplies them and stores the sum."""
    row = WARPGROUP.instruction(instruction)
    assert row is not None
    depth = int(dict(zip(a.dims, a.shape, strict=True))["k"].value)
    memories = [
        tensor("A", "input", row.m, depth, dtype=a.dtype.name),
        tensor("B", "input", row.n, depth, dtype=b.dtype.name),
        tensor("C", "output", row.m, row.n, dtype=row.acc.dtype.name),
    ]
    header = kernel(WARPGROUP, memories)
    header = replace(header, memories=(*header.memories, a, b))
    lane = header.symbol("lane")

    def stage(build: ThreadBuilder, source: str, target: Memory, dim: str) -> None:
        rows = dict(zip(target.dims, target.shape, strict=True))[dim].value
        for first in range(0, rows * depth, 128):
            at = lane + first
            place = target.offset({dim: at // depth, "k": at % depth})
            build.store(build.load(source, target.dtype, 1, at), target.name, place, mask=((at, const(rows * depth)),))

    def tile(memory: Memory, dim: str, step: int, major: Major) -> SharedTile:
        at = {dim: const(0), "k": const(step * row.k)}
        return SharedTile(memory.name, memory.unswizzled_offset(at), major)

    def gather(build: ThreadBuilder, layout: Layout, step: int) -> Value:
        places = [at["m"] * depth + at["k"] + step * row.k for at in layout.coordinates()]
        return build.pack([build.load("A", a.dtype, 1, place) for place in places])

    def fill(build: ThreadBuilder) -> None:
        stage(build, "A", a, "m")
        stage(build, "B", b, "n")
        acc = build.constant(1, row.acc.dtype, row.acc.layout.elements)
        steps = range(depth // row.k)
        operands = [gather(build, row.a.layout, i) if registers else tile(a, "m", i, majors[0]) for i in steps]
        if fence:
            build.add("fence_async", (), ())
        if barrier:
            build.barrier()
        build.add("mma_fence", (), ())
        for step in steps:
            acc = build.mma_async(instruction, operands[step], tile(b, "n", step, majors[1]), acc)
        build.add("mma_commit", (), ())
        (acc,) = build.mma_wait((acc,), wait)
        for register, at in enumerate(row.acc.layout.coordinates()):
            build.store(build.slice(acc, register, 1), "C", at["m"] * row.n + at["n"])

    return built(header, fill)


def run(test: Kernel) -> tuple[SimulationReport, np.ndarray]:
    a, b = (
        numbers(
            *(extent.value for extent in test.memory(name).shape), dtype=numpy_dtype(test.memory(name).dtype), seed=i
        )
        for i, name in enumerate("AB")
    )
    return simulate(test, WARPGROUP, {"A": a, "B": b}, {}), 1 + a.astype(np.float64) @ b.astype(np.float64).T


def exact(test: Kernel) -> None:
    report, expected = run(test)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["C"].astype(np.float64), expected)


def rows(name: str, dim: str, extent: int, depth: int, dtype: str = "bf16") -> Memory:
    """k contiguous, swizzled over as many bytes as a row has, 128 at most."""
    dims, extents = (dim, "k"), (extent, depth)
    return staged(name, dims, extents, dtype, swizzled_slabs(dims, extents, 8 * DTYPES[dtype].bytes))


def columns(name: str, dim: str, extent: int, depth: int) -> Memory:
    """m or n contiguous."""
    dims, extents = ("k", dim), (depth, extent)
    return staged(name, dims, extents, "bf16", swizzled_slabs(dims, extents, 16))


@pytest.mark.parametrize("depth", [16, 32, 64, 128], ids=lambda depth: f"{min(128, depth * 2)} bytes, k = {depth}")
def test_swizzled_rows(depth: int) -> None:
    exact(product("wgmma_m64n64k16_bf16", rows("a", "m", 64, depth), rows("b", "n", 64, depth)))


@pytest.mark.parametrize("width", [16, 32, 64, 128])
def test_swizzled_columns(width: int) -> None:
    a, b = columns("a", "m", 64, 32), columns("b", "n", width, 32)
    exact(product(f"wgmma_m64n{width}k16_bf16", a, b, ("mn", "mn")))


def test_rows_that_are_not_swizzled() -> None:
    a = staged("a", ("m", "k"), (64, 32), "bf16", cores("m", 64, 32, 2))
    b = staged("b", ("n", "k"), (64, 32), "bf16", cores("n", 64, 32, 2))
    exact(product("wgmma_m64n64k16_bf16", a, b))


@pytest.mark.parametrize("dtype", ["i8", "f8e4m3fn", "f8e5m2"])
def test_elements_of_one_byte(dtype: str) -> None:
    exact(product(f"wgmma_m64n32k32_{dtype}", rows("a", "m", 64, 128, dtype), rows("b", "n", 32, 128, dtype)))


def test_left_operand_in_registers() -> None:
    exact(product("wgmma_m64n64k16_bf16", rows("a", "m", 64, 64), rows("b", "n", 64, 64), registers=True))


def test_row_major_tiles_are_not_what_the_matrix_unit_reads() -> None:
    a = staged("a", ("m", "k"), (64, 64), "bf16", row_major(("m", "k"), (64, 64)))
    report, expected = run(product("wgmma_m64n64k16_bf16", a, rows("b", "n", 64, 64)))
    assert not np.array_equal(report.tensors["C"], expected)


@pytest.mark.parametrize(
    ("fence", "barrier", "wait", "kind"),
    [
        (False, True, 0, "unfenced-access"),
        (True, False, 0, "race"),
        (True, True, 1, "unwaited-product"),
    ],
)
def test_missing_synchronisation_is_found(fence: bool, barrier: bool, wait: int, kind: str) -> None:
    a, b = rows("a", "m", 64, 16), rows("b", "n", 8, 16)
    report, _ = run(product("wgmma_m64n8k16_bf16", a, b, fence=fence, barrier=barrier, wait=wait))
    assert report.kinds() == {kind}


def test_tile_beyond_its_memory_is_out_of_bounds() -> None:
    report, _ = run(product("wgmma_m64n64k16_bf16", rows("a", "m", 64, 16), rows("b", "n", 32, 16)))
    (finding,) = report.findings
    assert finding.kind == "out-of-bounds" and "'mma_async' touches element 512 of buffer 0 of @b" in finding.message

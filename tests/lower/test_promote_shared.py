"""Staged tensors are copied to shared memory, arranged for the machine that reads it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lower.gemms import AMD, CPU, MACHINES, NVIDIA, Gemm, lines, run
from wavespec.diagnostics import WavespecError
from wavespec.ir.printer import print_kernel
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.targets.machine import Machine

STAGE = "promote-shared"


def shared(gemm: Gemm, machine: Machine) -> list[str]:
    return [
        line
        for line in print_kernel(gemm.lowered(machine, STAGE)).splitlines()
        if line.startswith("memory") and " shared " in line
    ]


def test_read_becomes_a_copy_and_a_read_of_the_copy() -> None:
    assert lines(Gemm(spaces=("shared", "global")).lowered(NVIDIA, STAGE), "copy", "read") == [
        'copy {memory = "a.shared", origin = (("M", [wg0*32],), ("K", [at_K],),), source = "a"}',
        '%a_tile = read {memory = "a.shared", origin = (("M", [0],), ("K", [0],),)} : tile<M: 32, K: 32, f16>',
        '%b_tile = read {memory = "b", origin = (("N", [wg1*64],), ("K", [at_K],),)} : tile<N: 64, K: 32, f16>',
    ]


def test_a_tile_that_is_read_twice_is_copied_once() -> None:
    text = Gemm().text.replace("- b_tile: {read: b}", "- b_tile: {read: b}\n        - again: {read: b}")
    text = text.replace("acc: {mma: [a_tile, b_tile, acc]}", "half: {mma: [a_tile, b_tile, acc]}")
    text = text.replace("  - {write: k_loop", "        - acc: {mma: [a_tile, again, half]}\n  - {write: k_loop")
    kernel = lower(loads(text), NVIDIA, after=STAGE)
    assert len(lines(kernel, "copy")) == 2 and len(lines(kernel, "read")) == 3


def test_nothing_is_staged_that_is_not_asked_for() -> None:
    assert shared(Gemm(spaces=("global", "global")), AMD) == []


@pytest.mark.parametrize(
    ("dtype", "order", "is_staged"), [("bf16", "N, K", True), ("bf16", "K, N", True), ("f32", "K, N", False)]
)
def test_what_an_instruction_takes_side_by_side_and_lies_apart_is_staged_on_cpus(
    dtype: str, order: str, is_staged: bool
) -> None:
    """A register for each of 1024 pairs, with a check of its own, was ten times as much code as a copy in a loop."""
    gemm = Gemm(
        dtype,
        tile=(24, 64, 8),
        wave=(None, None),
        spaces=("global", "global"),
        orders=("M, K", order, "M, N"),
        mma="dot2_bf16_12x32x2" if dtype == "bf16" else "fma_f32_12x32x1",
    )
    assert [name.split()[1] for name in shared(gemm, CPU)] == (["@b.shared"] if is_staged else [])


def test_rows_are_swizzled_so_that_all_banks_serve_a_column() -> None:
    assert shared(Gemm(tile=(32, 64, 64), spaces=("shared", "global")), NVIDIA) == [
        "memory @a.shared : f16 (M: [32], K: [64]) shared staged [M/1: 32 by 64, K/1: 64 by 1; swizzle K 8 x 8 by M//1]"
    ]
    assert "swizzle K 8 x 4 by M//2]" in shared(Gemm(tile=(32, 64, 32)), NVIDIA)[0]
    wide = next(machine for machine in MACHINES if machine.shared.banks == 64)
    assert "swizzle K 8 x 8 by M//1 fold 2]" in shared(Gemm(tile=(32, 64, 64)), wide)[0], (
        "64 banks hold two rows of 128 bytes"
    )


@pytest.mark.parametrize("depth", [48, 80])
def test_rows_that_are_no_power_of_two_of_chunks_are_plain(depth: int) -> None:
    assert "swizzle" not in shared(Gemm(tile=(32, 64, depth)), NVIDIA)[0]


def test_partial_chunk_is_never_swizzled() -> None:
    gemm = Gemm("i8", tile=(48, 72, 96), wave=(48, 24), orders=("K, M", "K, N", "M, N"))
    assert "swizzle" not in shared(gemm, NVIDIA)[1], "72 elements are 4 chunks of 16 and a half"


def test_inputs_are_converted_on_the_way_to_an_instruction_of_another_type() -> None:
    kernel = Gemm("f16", tile=(24, 64, 8), wave=(None, None), spaces=("global", "global")).lowered(CPU, STAGE)
    reads = lines(kernel, "read")
    assert [read.split()[-1] for read in reads] == ["f32>", "f32>"] and len(lines(kernel, "copy")) == 2


def test_operands_that_an_instruction_reads_in_place_stay_where_they_are() -> None:
    for dtype, taken in (("f32", "f32"), ("f16", "f32")):
        kernel = Gemm(dtype, tile=(4, 12, 64), wave=(None, None)).lowered(CPU, STAGE)
        assert [read.split()[-1] for read in lines(kernel, "read")] == [f"{taken}>", f"{taken}>"]
        assert lines(kernel, "copy") == []


@pytest.mark.parametrize("tile", [(12, 32, 64), (32, 12, 64), (4, 12, 64)], ids=["staged", "swapped", "in place"])
def test_a_biased_operand_computes_the_same(tile: tuple[int, int, int]) -> None:
    gemm = Gemm("i8", tile=tile, wave=(None, None))
    assert "bias = 128" in print_kernel(gemm.lowered(CPU, STAGE))
    report, expected = run(gemm.spec, CPU, {"M": 13, "N": 35, "K": 70})
    assert report.findings == () and (report.tensors["c"] == expected).all()


def test_serial_machine_packs_panels_for_the_operand_read_along_rows() -> None:
    _, b = shared(Gemm("f32", tile=(24, 64, 8), wave=(None, None)), CPU)
    assert b == "memory @b.shared : f32 (N: [64], K: [8]) shared staged [N/32: 2 by 256, K/1: 8 by 32, N/1: 32 by 1]"


def test_shared_memory_exceeded() -> None:
    gemm = Gemm(tile=(256, 256, 64), wave=(64, 64), stages=4, dims=("", "", "multiple_of: 8"))
    with pytest.raises(WavespecError) as caught:
        gemm.lowered(NVIDIA)
    assert (
        str(caught.value)
        == """\
gemm.wave.yaml:19:23: error[shared-memory-exceeded]: The staged tiles need 262144 bytes of shared memory; sm_90 has 232448.
    |
 19 |   - {tiling: K, tile: BK}
    |                       ^^
    = note: a: 256*64 x 2 bytes x 4 stage(s)
    = note: b: 256*64 x 2 bytes x 4 stage(s)
    = note: For sm_90.
    = hint: Use smaller tiles or fewer stages."""
    )
    assert replace(gemm, stages=3).lowered(NVIDIA, STAGE)


@pytest.mark.parametrize("columns", [1, 63, 64, 100])
def test_vectors_of_columns_end_with_the_row(columns: int) -> None:
    """Rows that are read in place may be read again beyond the last one; vectors along them end where they do."""
    gemm = Gemm("bf16", (1, 64, 32), (None, None), orders=("M, K", "K, N", "M, N"))
    (read,) = (line for line in lines(gemm.lowered(CPU, STAGE), "read") if 'memory = "b"' in line)
    assert "clamped = ()" in read
    report, expected = run(gemm.spec, CPU, {"M": 3, "N": columns, "K": 45})
    assert report.ok and (report.tensors["c"] == expected).all()

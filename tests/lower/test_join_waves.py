"""Waves of a workgroup share out the dim that a product sums over, and add up their sums by way of shared memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.gemms import AMD, AMD_COPYING, CPU, NVIDIA, Gemm, lines, run
from wavespec.diagnostics import WavespecError
from wavespec.ops.staged_writes import shared_bytes_of_all
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.interleaving import Order
from wavespec.targets.machine import Machine

GEMM = Gemm(tile=(32, 32, 64), wave=(32, 32))


def sharing(gemm: Gemm, tile: int) -> KernelSpec:
    """The product with waves that have so many elements along K each."""
    text = gemm.text.replace("  - {hardware", f"  - {{wave: K, tile: {tile}}}\n  - {{hardware")
    return loads(text, "gemm.wave.yaml")


def test_waves_start_at_zero_and_are_summed_up_behind_the_loop() -> None:
    kernel = lower(sharing(replace(GEMM, value=3), 32), NVIDIA, after="join-waves")
    assert dict(kernel.waves) == {"wave_M": 1, "wave_N": 1, "wave_K": 2}
    (total,) = lines(kernel, "spread_sum")
    assert 'dim = "K"' in total and "k_loop" in total and "width = 4" in total
    (added,) = lines(kernel, "elementwise")
    assert "%zero" in added and 'function = "add"' in added


def test_each_wave_has_all_sums_where_lanes_would_have_one_each() -> None:
    kernel = lower(sharing(Gemm(tile=(16, 8, 64), wave=(16, 8)), 16), NVIDIA, after="join-waves")
    assert lines(kernel, "wave_sum") and not lines(kernel, "spread_sum")


def test_results_leave_as_they_are_where_sums_of_waves_take_the_room_of_staged_ones() -> None:
    """`c` would have 2 KB to leave through, which tiles that stay and sums beside them do not leave."""
    schedule = "waves: {producers: 1}, workgroups: {persistent: true}"
    gemm = Gemm(
        "bf16", (128, 96, 96), (64, 96), dims=("", "multiple_of: 8", "multiple_of: 8"), stages=3, schedule=schedule
    )
    spec = sharing(gemm, 48)
    kernel = lower(spec, NVIDIA)
    assert shared_bytes_of_all(kernel.memories) <= NVIDIA.shared.bytes
    assert not [memory.name for memory in kernel.memories if memory.name.startswith("c.staged")]
    run(spec, NVIDIA, {"M": 130, "N": 104, "K": 200})


def test_one_wave_along_k_changes_nothing() -> None:
    assert lower(sharing(GEMM, 64), NVIDIA).body == lower(GEMM.spec, NVIDIA).body


def test_where_waves_run_one_after_another_nothing_is_shared() -> None:
    assert not [op for op in lower(sharing(GEMM, 32), CPU, after="join-waves").walk() if op.name == "wave_sum"]


@pytest.mark.parametrize("machine", [NVIDIA, AMD, AMD_COPYING], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("order", ["forward", "reverse", 0])
@pytest.mark.parametrize(
    ("gemm", "tile", "size"),
    [
        (GEMM, 32, (40, 37, 200)),
        (replace(GEMM, value=3), 16, (33, 32, 64)),  # what the sums start from counts once
        (replace(GEMM, spaces=("global", "global"), wave=(16, 32)), 32, (32, 32, 72)),
        (replace(GEMM, stages=3), 32, (20, 64, 300)),
        (replace(GEMM, dims=("", "", "value: 64"), value=1), 32, (32, 40, 64)),  # the loop is one step
        (GEMM, 32, (32, 32, 0)),
    ],
)
def test_sums_are_exact_in_any_order_of_waves(
    gemm: Gemm, tile: int, size: tuple[int, int, int], machine: Machine, order: Order
) -> None:
    sizes = dict(zip("MNK", size, strict=True))
    report, expected = run(sharing(gemm, tile), machine, sizes, order=order)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"].astype(np.float64), expected.astype(np.float64))


BOXES = Gemm("bf16", tile=(64, 64, 64), wave=(64, 64), schedule="waves: {producers: 1}", stages=2)


def test_a_matrix_unit_that_reads_shared_memory_is_refused() -> None:
    with pytest.raises(WavespecError, match="sums-not-shared"):
        lower(sharing(replace(BOXES, mma="wgmma_m64n64k16_bf16"), 32), NVIDIA)


@pytest.mark.parametrize("size", [(64, 64, 256), (40, 72, 200), (64, 64, 0)])
def test_products_of_registers_stand_beside_waves_that_only_copy(size: tuple[int, int, int]) -> None:
    spec = sharing(replace(BOXES, dims=("", "multiple_of: 8", "multiple_of: 8")), 32)
    kernel = lower(spec, NVIDIA)
    (product,) = {
        op["instruction"] for op in lower(spec, NVIDIA, after="choose-instructions").walk() if op.name == "mma"
    }
    assert product.startswith("mma_m16n8k16") and any(op.name == "bulk_copy" for op in kernel.walk())
    report, expected = run(spec, NVIDIA, dict(zip("MNK", size, strict=True)))
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"].astype(np.float64), expected.astype(np.float64))


def test_a_cluster_adds_up_what_all_waves_of_its_workgroups_have() -> None:
    gemm = replace(
        BOXES, schedule="waves: {producers: 1}, workgroups: {split: 2}", dims=("", "multiple_of: 8", "multiple_of: 8")
    )
    kernel = lower(sharing(gemm, 32), NVIDIA, after="join-waves")
    (total,) = lines(kernel, "cluster_sum")
    assert 'dim = "K"' in total and not lines(kernel, "wave_sum")
    report, expected = run(sharing(gemm, 32), NVIDIA, {"M": 50, "N": 64, "K": 328})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"].astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("order", ["forward", 0])
def test_sums_of_a_workgroup_that_goes_on_with_a_tile_are_not_where_that_is_copied_to(order: Order) -> None:
    gemm = replace(
        BOXES,
        tile=(64, 128, 64),
        schedule="waves: {producers: 1}, workgroups: {persistent: true, count: 1}",
        dims=("", "multiple_of: 8", "multiple_of: 8"),
    )
    with pytest.raises(WavespecError, match="shared-memory-exceeded"):
        lower(sharing(replace(gemm, stages=6), 16), NVIDIA)
    report, expected = run(sharing(gemm, 16), NVIDIA, {"M": 130, "N": 256, "K": 256}, order=order)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"].astype(np.float64), expected.astype(np.float64))


def test_a_shared_last_round_has_room_for_what_each_wave_has() -> None:
    gemm = replace(BOXES, schedule="waves: {producers: 1}, workgroups: {last_round: 4}")
    kernel = lower(sharing(gemm, 32), NVIDIA, after="share-last-round")
    (handed,) = (memory for memory in kernel.memories if memory.space == "handed")
    assert handed.shape[1].value == 64 * 64 * 2


@pytest.mark.parametrize("tile", [8, 48])
def test_parts_are_whole_instructions_of_the_tile(tile: int) -> None:
    with pytest.raises(WavespecError, match="not a multiple of"):
        lower(sharing(GEMM, tile), NVIDIA)

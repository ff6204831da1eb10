"""Tile-level passes for kernels whose waves have roles: what they choose, lay out, and refuse."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import AMD, NVIDIA, Gemm, lines, run
from tests.lower.hopper_gemms import PERSISTENT, PING_PONG, TOGETHER, hopper_gemm, rounded
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel, Memory
from wavespec.pipeline import emit, lower
from wavespec.schema import loads
from wavespec.targets.machine import Machine


def instruction(gemm: Gemm) -> str:
    kernel = gemm.lowered(NVIDIA, "choose-instructions")
    return next(op["instruction"] for op in kernel.walk() if op.name == "mma")


def refusal(gemm: Gemm, machine: Machine = NVIDIA) -> WavespecError:
    with pytest.raises(WavespecError) as caught:
        gemm.lowered(machine)
    return caught.value


def memory(kernel: Kernel, name: str) -> Memory | None:
    return next((memory for memory in kernel.memories if memory.name == name), None)


@pytest.mark.parametrize(("columns", "name"), [(256, "256"), (128, "128"), (96, "96"), (72, "24"), (8, "8")])
def test_the_widest_instruction_that_fits_the_wave(columns: int, name: str) -> None:
    gemm = hopper_gemm(tile=(128, columns, 64), wave=(64, columns))
    assert instruction(gemm) == f"wgmma_m64n{name}k16_f16"


def test_few_rows_are_the_columns_of_the_transposed_product() -> None:
    assert instruction(hopper_gemm(tile=(16, 64, 64), wave=(16, 64))) == "wgmma_m64n16k16_f16:swapped"


@pytest.mark.parametrize(
    ("wave", "name"),
    [
        ((192, 64), "n192k16_f16:swapped"),  # 256 rows of 16 elements in place of 384
        ((128, 64), "n128k16_f16:swapped"),
        ((192, 128), "n192k16_f16:swapped"),  # 512, not 576
        ((128, 128), "n128k16_f16"),  # as many either way
        ((64, 192), "n192k16_f16"),
        ((192, 96), "n96k16_f16"),  # columns that are no rows of the instruction
    ],
)
def test_a_product_goes_the_way_round_that_reads_less_of_shared_memory(wave: tuple[int, int], name: str) -> None:
    spec = rounded(hopper_gemm(tile=(*wave, 64), wave=wave))
    kernel = lower(spec, NVIDIA, after="choose-instructions")
    assert [op["instruction"] for op in kernel.walk() if op.name == "mma"] == [f"wgmma_m64{name}"]


def test_sums_that_no_matrix_store_turns_leave_as_they_are() -> None:
    assert instruction(hopper_gemm(tile=(192, 64, 64), wave=(192, 64))) == "wgmma_m64n64k16_f16"


def test_lanes_are_those_of_the_instruction() -> None:
    kernel = hopper_gemm().lowered(NVIDIA, "assign-tiles")
    assert (kernel.lanes, kernel.wave_count, kernel.producers, kernel.threads) == (128, 2, 1, 384)


def test_waves_in_turn_are_two_of_each() -> None:
    kernel = hopper_gemm(tile=(64, 64, 64), schedule=PING_PONG).lowered(NVIDIA, "assign-tiles")
    assert kernel.waves[0] == ("turn", 2) and kernel.wave_count == 2


def test_tiles_that_the_unit_reads_are_slabs_of_128_bytes_in_its_swizzle() -> None:
    kernel = hopper_gemm(tile=(128, 64, 128)).lowered(NVIDIA, "promote-shared")
    shared = memory(kernel, "a.shared")
    assert shared is not None
    assert str(shared.arrangement) == "[K/64: 2 by 8192, M/1: 128 by 64, K/1: 64 by 1; swizzle K 8 x 8 by M//1]"


def test_columns_may_be_contiguous_where_the_unit_takes_them() -> None:
    promises = ("multiple_of: 8", "multiple_of: 8", "multiple_of: 8")
    kernel = hopper_gemm(orders=("K, M", "K, N", "M, N"), dims=promises).lowered(NVIDIA)
    majors = {(op["a_major"], op["b_major"]) for op in kernel.walk() if op.name == "mma_async"}
    assert majors == {("mn", "mn")}


def test_an_operand_that_is_not_staged_stays_in_registers() -> None:
    kernel = hopper_gemm(spaces=("global", "shared")).lowered(NVIDIA)
    products = [op for op in kernel.walk() if op.name == "mma_async"]
    assert products and all(len(op.operands) == 2 and op.get("a_memory") is None for op in products)
    waits = {op["pending"] for op in kernel.walk() if op.name == "mma_wait"}
    assert waits == {0}, "its registers are free only when the products are done"


def test_results_leave_through_slabs_that_are_stored_whole() -> None:
    kernel = hopper_gemm().lowered(NVIDIA)
    staged = memory(kernel, "c.staged_32")
    assert staged is not None and [extent.value for extent in staged.shape] == [128, 32] and staged.buffers == 2
    boxes = lines(kernel, "bulk_store")
    assert len(boxes) == 2 and all("box = (64, 32,)" in box for box in boxes)
    assert not [op for op in kernel.walk() if op.name == "store" and op["memory"] == "c"]


@pytest.mark.parametrize(
    ("rows", "slab", "buffers"), [(192, 64, 2), (96, 48, 2), (160, 80, 2), (208, 104, 2), (80, 80, 1)]
)
def test_results_of_a_turned_product_leave_through_slabs_of_about_64_rows(rows: int, slab: int, buffers: int) -> None:
    kernel = lower(rounded(hopper_gemm(tile=(rows, 128, 64), wave=(rows, 64))), NVIDIA)
    staged = memory(kernel, "c.staged_64")
    assert staged is not None and staged.buffers == buffers
    assert [extent.value for extent in staged.shape] == [2 * slab, 64], "for each of two waves"
    assert {op["box"] for op in kernel.walk() if op.name == "bulk_store"} == {(slab, 64)}
    stores = [op for op in kernel.walk() if op.name == "store_matrix"]
    assert stores and all(op["transposed"] for op in stores)
    assert not [op for op in kernel.walk() if op.name == "store"]


def test_results_of_a_turned_product_leave_through_one_buffer_where_two_have_no_room() -> None:
    """5 stages of 40 KiB leave 26 KiB, a slab of each wave is 8 KiB: lanes stored elements one by one."""
    kernel = lower(rounded(hopper_gemm(tile=(192, 128, 64), wave=(192, 64), stages=5)), NVIDIA)
    staged = memory(kernel, "c.staged_64")
    assert staged is not None and staged.buffers == 1
    waits = [op["pending"] for op in kernel.walk() if op.name == "bulk_wait"]
    assert waits == [0, 0, 0, 0], "each slab waits until the one before has left, and all have at the end"


@pytest.mark.parametrize(("columns", "pending"), [(64, [1, 1]), (32, [0]), (96, [0, 2, 1]), (80, [2, 2, 2])])
def test_a_slab_is_not_laid_down_while_its_buffer_is_still_read(columns: int, pending: list[int]) -> None:
    kernel = hopper_gemm(tile=(128, columns, 64), wave=(64, columns)).lowered(NVIDIA)
    waits = [op["pending"] for op in kernel.walk() if op.name == "bulk_wait"]
    assert waits == [*pending, 0], (
        "an odd number of slabs ends and starts with the same buffer; all are done at the end"
    )


@pytest.mark.parametrize(
    "gemm",
    [
        hopper_gemm(dims=("", "", "multiple_of: 8")),  # rows of the result start anywhere
        hopper_gemm(tile=(16, 64, 64), wave=(16, 64)),  # a lane's neighbours are neighbours along columns
    ],
)
def test_results_are_stored_directly_where_boxes_would_not_fit(gemm: Gemm) -> None:
    kernel = gemm.lowered(NVIDIA)
    assert memory(kernel, "c.staged_32") is None
    assert [op for op in kernel.walk() if op.name == "store" and op["memory"] == "c"]


def test_masks_know_that_a_cluster_may_reach_beyond_the_edge() -> None:
    fixed = ("value: 384", "multiple_of: 8", "multiple_of: 8")
    clustered = PERSISTENT.replace("group: 2", "cluster: 2")
    masked = [
        lines(hopper_gemm(dims=fixed, schedule=schedule).lowered(NVIDIA, "mask-edges"), "write")[0]
        for schedule in (PERSISTENT, clustered)
    ]
    assert '"M"' not in masked[0].split("masked = ")[1].split(")")[0]
    assert '"M"' in masked[1].split("masked = ")[1].split(")")[0], "3 tiles, in clusters of 2"


@pytest.mark.parametrize(
    ("gemm", "code", "hint"),
    [
        (hopper_gemm(dtype="f32"), "roles-not-possible", "Leave out 'producers'"),
        (Gemm(mma="wgmma_m64n64k16_f16", tile=(128, 64, 64), wave=(64, 64)), "producer-needed", "producers: 1"),
        (
            hopper_gemm(dtype="i8", orders=("K, M", "N, K", "M, N"), dims=("multiple_of: 16",) * 3),
            "operand-not-contiguous",
            "Store the tensor with 'K' last",
        ),
        (hopper_gemm(tile=(128, 64, 48), schedule=TOGETHER), "unit-tile", "of 64 elements"),
        (
            hopper_gemm(schedule="waves: {producers: 1, order: ping_pong}"),
            "turns-not-possible",
            "persistent: true",
        ),
        (hopper_gemm(schedule=f"{TOGETHER}, workgroups: {{cluster: 2}}"), "cluster-not-possible", "'persistent'"),
        (
            hopper_gemm(schedule=f"{TOGETHER}, workgroups: {{cluster: 3, persistent: true}}"),
            "cluster-not-possible",
            "clusters of 2 or 4 or 8",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_a_way_out(gemm: Gemm, code: str, hint: str) -> None:
    error = refusal(gemm)
    assert error.code == code
    assert any(hint in text for text in error.diagnostics[0].hints)


@pytest.mark.parametrize(
    ("tile", "registers", "hint"),
    [
        ((128, 64, 64), (256, 256), "With 256 for a producer, the others can have 120."),
        ((128, 64, 64), (40, 240), "the others can have 232."),
        # 384 lanes start with 168 each: the last 1024 registers of the file are nobody's, and would be awaited forever.
        ((128, 64, 64), (32, 240), "the others can have 232."),
        ((128, 64, 64), (24, 32), "Give 'consumer' more"),
    ],
)
def test_registers_fit_the_machine_and_the_sums(
    tile: tuple[int, int, int], registers: tuple[int, int], hint: str
) -> None:
    shared = f"registers: {{producer: {registers[0]}, consumer: {registers[1]}}}"
    error = refusal(hopper_gemm(tile=tile, schedule=f"waves: {{producers: 1, {shared}}}"))
    assert error.code == "registers-not-possible"
    assert hint in error.diagnostics[0].hints[0]


def test_workgroups_that_stay_on_one_processor_share_its_registers() -> None:
    shared = "waves: {producers: 1, registers: {producer: 24, consumer: CONSUMER}}"
    plan = f"{shared}, workgroups: {{persistent: true, count: 264}}"
    gemm = hopper_gemm(tile=(64, 64, 64), schedule=plan.replace("CONSUMER", "240"))
    error = refusal(gemm)
    assert (
        "the waves of 2 workgroups would have 67584" in str(error) and "can have 232" in error.diagnostics[0].hints[0]
    )
    text = emit(hopper_gemm(tile=(64, 64, 64), schedule=plan.replace("CONSUMER", "232")).spec, NVIDIA).text
    assert "nvvm.minctasm = 2" in text and "setmaxregister increase 232" in text and "decrease 24" in text


def test_registers_are_handed_over_by_a_producer_only() -> None:
    gemm = Gemm(schedule="waves: {registers: {producer: 40, consumer: 232}}")
    assert refusal(gemm).code == "registers-not-possible"


@pytest.mark.parametrize("plan", ["auto: modulo", "loops: {k_loop: {unroll: 2}}"])
def test_roles_and_another_plan_of_the_loop_contradict(plan: str) -> None:
    assert refusal(hopper_gemm(schedule=f"{TOGETHER}, {plan}")).code == "planned-by-roles"


def test_a_machine_without_such_a_unit_refuses_producers() -> None:
    assert refusal(hopper_gemm(), AMD).code == "roles-not-possible"


_ALONG_ROWS = {
    "sum": ("{sum: k_loop.acc, dim: M}", "N"),
    "scan": ("{cumsum: k_loop.acc, dim: M}", "M, N"),
    "topk": ("{topk: k_loop.acc, dim: M, k: T}", "T, N"),
}


@pytest.mark.parametrize(("op", "dims"), _ALONG_ROWS.values(), ids=list(_ALONG_ROWS))
def test_lanes_of_one_instruction_that_run_as_several_waves_meet_in_memory(op: str, dims: str) -> None:
    """Rows of a product are spread over 128 lanes; registers are exchanged among 32."""
    sizes = ("value: 64", "multiple_of: 8", "multiple_of: 8")
    text = hopper_gemm(tile=(64, 64, 64), wave=(None, None), dims=sizes, stages=2, schedule=TOGETHER).text
    text = text.replace("  - {workgroup: M, tile: BM, axis: 0}", "  - {tiling: M, tile: BM}").replace(
        "axis: 1", "axis: 0"
    )
    text = text.replace("dims:", "dims:\n  T: {value: 2}").replace("c: {shape: [M, N]", f"c: {{shape: [{dims}]")
    spec = loads(text.replace("  - {write: k_loop.acc", f"  - s: {op}\n  - {{write: s"), "gemm.wave.yaml")
    kernel = lower(spec, NVIDIA)
    assert all(one["bits"] < NVIDIA.lanes < kernel.lanes for one in kernel.walk() if one.name == "shuffle")
    report, expected = run(spec, NVIDIA, {"M": 64, "N": 72, "K": 72, "T": 2}, kernel=kernel)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)


_COMPUTED = """        - b_tile: {read: b}
        - w_tile: {read: w}
        - twice: f16(w_tile) * 2
        - acc: {mma: [OPERANDS, acc]}
"""


def with_computed(operands: str, orders: str = "M, N") -> str:
    sizes = ("multiple_of: 8", "multiple_of: 8", "multiple_of: 8")
    gemm = hopper_gemm(tile=(64, 64, 64), stages=2, dims=sizes, orders=("M, K", "N, K", orders))
    text = gemm.text.replace("  c: {", "  w: {shape: [M, K], dtype: i8}\n  c: {")
    start, end = text.index("        - a_tile"), text.index("  - {write")
    return text[:start] + _COMPUTED.replace("OPERANDS", operands) + text[end:]


@pytest.mark.parametrize("orders", ["M, N", "N, M"])
@pytest.mark.parametrize("operands", ["twice, b_tile", "b_tile, twice"])
def test_a_computed_operand_is_the_one_that_registers_may_hold(operands: str, orders: str) -> None:
    text = with_computed(operands, orders)
    text = text.replace("  a: {shape: [M, K], dtype: f16, space: shared}\n", "")
    report, expected = run(loads(text, "gemm.wave.yaml"), NVIDIA, {"M": 72, "N": 72, "K": 136})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)


def test_both_operands_may_be_computed_from_staged_tiles() -> None:
    """They are laid down in two buffers: the product of a step reads one while the next step fills the other."""
    text = with_computed("twice, thrice").replace("        - acc", "        - thrice: b_tile * 3\n        - acc")
    text = text.replace("  a: {shape: [M, K], dtype: f16, space: shared}\n", "")
    kernel = lower(loads(text, "gemm.wave.yaml"), NVIDIA)
    assert [memory.buffers for memory in kernel.memories if memory.space == "shared" and not memory.staged][:2] == [
        2,
        2,
    ]
    report, expected = run(loads(text, "gemm.wave.yaml"), NVIDIA, {"M": 72, "N": 72, "K": 136})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)

"""A product of more bits than the unit has becomes three, the small ones first, whose sum is added to what was there."""

from __future__ import annotations

from tests.lower.gemms import NVIDIA, lines
from tests.lower.hopper_gemms import TOGETHER, hopper_gemm
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.schema import loads

ROWS_OF_4 = ("", "multiple_of: 4", "multiple_of: 4")


def of_parts(*, after: str, mma: str = "wgmma3_m64n64k8_f32") -> Kernel:
    gemm = hopper_gemm(dtype="f32", tile=(128, 64, 32), dims=ROWS_OF_4, schedule=TOGETHER)
    return lower(loads(gemm.text.replace("mma: auto", f"mma: {mma}")), NVIDIA, after=after)


def test_three_products_start_from_zero() -> None:
    kernel = of_parts(after="split-operands")
    assert lines(kernel, "mma", "elementwise") == [
        '%a_tile.1 = elementwise %a_tile {function = "tf32_nearest"} : tile<M, K, f32>',
        '%a_tile.2 = elementwise %a_tile, %a_tile.1 {function = "sub"} : tile<M, K, f32>',
        '%b_tile.1 = elementwise %b_tile {function = "tf32_cut"} : tile<N, K, f32>',
        '%b_tile.2 = elementwise %b_tile, %b_tile.1 {function = "sub"} : tile<N, K, f32>',
        '%b_tile.3 = elementwise %b_tile.2 {function = "tf32_nearest"} : tile<N, K, f32>',
        '%acc.3 = mma %a_tile.2, %b_tile, %acc.2 {variant = "wgmma_m64n64k8_tf32"} : tile<M, N, f32>',
        '%acc.4 = mma %a_tile.1, %b_tile.3, %acc.3 {variant = "wgmma_m64n64k8_tf32"} : tile<M, N, f32>',
        '%acc.5 = mma %a_tile.1, %b_tile, %acc.4 {variant = "wgmma_m64n64k8_tf32"} : tile<M, N, f32>',
        '%acc.1 = elementwise %acc, %acc.5 {function = "add"} : tile<M, N, f32>',
    ]


def test_other_instructions_multiply_what_they_are_given() -> None:
    assert len(lines(of_parts(after="split-operands", mma="wgmma_m64n64k8_tf32"), "mma")) == 1


def test_the_right_operand_is_copied_once_and_its_low_part_laid_down_beside_it() -> None:
    kernel = of_parts(after="stage-operands")
    assert [line.split("{")[0] for line in lines(kernel, "copy", "write")] == [
        "copy ",
        "copy ",
        "write %b_tile.5 ",
        "write %k_loop_acc ",
    ]
    assert all(not op.get("direct") for op in kernel.walk())

"""What a call computes and moves, and the least time that cards could take for it."""

from __future__ import annotations

import pytest

from tests.cli.command import GEMM
from tests.kernels import SPECS
from wavespec.cli.work import bytes_moved, does_a_part, floating_point_operations, roofline
from wavespec.schema import KernelSpec, load
from wavespec.schema.cases import cases_for_target
from wavespec.schema.resolve import complete_sizes, spec_for_target
from wavespec.targets.machine import machines


def spec_of(name: str) -> KernelSpec:
    return load(SPECS / f"{name}.wave.yaml")


def test_bytes_are_those_of_tensors_once() -> None:
    assert bytes_moved(load(GEMM), {"M": 3, "N": 5, "K": 7}) == 2 * (3 * 7 + 5 * 7) + 4 * 3 * 5
    w4 = complete_sizes(spec_of("linear_i4"), {"M": 2, "N": 3, "K": 256})
    assert bytes_moved(spec_of("linear_i4"), w4) == 2 * 2 * 256 + 3 * 128 + 2 * 3 * 2 + 2 * 2 * 3


def test_of_tables_the_rows_that_are_looked_up_count() -> None:
    embedding = spec_of("embedding")
    assert bytes_moved(embedding, {"T": 4, "D": 8, "V": 1000}) == 8 * 4 + 2 * 4 * 8 + 2 * 4 * 8
    assert bytes_moved(embedding, {"T": 4, "D": 8, "V": 2}) == 8 * 4 + 2 * 2 * 8 + 2 * 4 * 8


def test_what_is_changed_in_place_is_read_and_written() -> None:
    added = spec_of("scatter_add")
    assert bytes_moved(added, {"T": 4, "D": 8, "V": 1000}) == 8 * 4 + 4 * 4 * 8 + 2 * 4 * 4 * 8


@pytest.mark.parametrize(
    ("size", "seconds"),
    [(4096, 2 * 4096**3 / 989.4e12), (64, (2 * 2 * 64 * 64 + 4 * 64 * 64) / 4.8e12)],
)
def test_the_longer_of_arithmetic_and_memory_is_the_roofline(size: int, seconds: float) -> None:
    sizes = {"M": size, "N": size, "K": size}
    found = roofline(spec_for_target(load(GEMM), "sm_90"), "sm_90", "NVIDIA H200", sizes)
    assert found is not None and found.card == "NVIDIA H200" and found.seconds == pytest.approx(seconds)


def test_tf32_has_a_peak_of_its_own() -> None:
    sizes = {"M": 8192, "N": 8192, "K": 8192}
    case = cases_for_target(spec_of("matmul_tf32"), "sm_90")[0].spec
    found = roofline(case, "sm_90", "NVIDIA H200", sizes)
    assert found is not None and found.seconds == pytest.approx(2 * 8192**3 / 494.7e12)


def test_peaks_that_are_not_known_give_no_share() -> None:
    sizes = {"M": 64, "N": 64, "K": 64}
    assert roofline(load(GEMM), "sm_90", "NVIDIA GH200 480GB", sizes) is None
    assert roofline(load(GEMM), "cpu", "", sizes) is None
    mx = complete_sizes(spec_of("matmul_mxf4"), {"M": 64, "N": 64, "K": 64})
    assert roofline(spec_of("matmul_mxf4"), "sm_90", "NVIDIA H200", mx) is None


@pytest.mark.parametrize(
    ("name", "part"),
    [("gemm", False), ("embedding", False), ("attention", False), ("grouped_gemm", True), ("attention_padded", True)],
)
def test_what_leaves_out_work_has_no_roofline(name: str, part: bool) -> None:
    assert does_a_part(spec_of(name)) is part


def test_operations_are_none_without_products() -> None:
    assert floating_point_operations(spec_of("embedding"), {"T": 4, "D": 8, "V": 2}) == 0


@pytest.mark.parametrize("target", ["sm_90", "gfx942", "gfx950"])
def test_peaks_of_cards_are_those_of_their_units(target: str) -> None:
    """Rates of the matrix unit by the clock, in proportion to those by the second; i8 is twice f16, memory is slower."""
    for card in machines(target)[0].cards:
        resources = machines(target)[0].resources
        assert resources is not None and card.gbytes_per_second > 1000
        assert card.gflops["i8"] / card.gflops["f16"] == pytest.approx(
            resources.macs_per_clock["i8"] / resources.macs_per_clock["f16"], rel=1e-3
        )

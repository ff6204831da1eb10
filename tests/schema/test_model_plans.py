"""What specs of models without tiles asked of plans: each test is about a kernel that was refused, never planned, or slow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from wavespec.check_builds import check_builds
from wavespec.diagnostics import WavespecError
from wavespec.schema import load
from wavespec.schema.cases import TargetCase, case_for_sizes, cases_for_target
from wavespec.schema.language.constraints import Tiling
from wavespec.schema.language.expressions import Num
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.load import loads
from wavespec.schema.resolve import complete_sizes, resolve_params

SPECS = Path(__file__).parents[2] / "benchmarks" / "specs" / "models"


def spec_of(name: str) -> KernelSpec:
    return load(SPECS / f"{name}.wave.yaml")


def changed_text(name: str, *pairs: tuple[str, str]) -> str:
    text = (SPECS / f"{name}.wave.yaml").read_text(encoding="utf-8")
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def changed(name: str, *pairs: tuple[str, str]) -> KernelSpec:
    return loads(changed_text(name, *pairs))


def case_of(spec: KernelSpec, **sizes: int) -> TargetCase:
    return on("sm_90", spec, sizes)


def on(target: str, spec: KernelSpec, sizes: Mapping[str, int]) -> TargetCase:
    return case_for_sizes(cases_for_target(spec, target), complete_sizes(spec, sizes))


def tile(case: TargetCase, dim: str, what: str = "TILE") -> int:
    return int(resolve_params(case.spec)[f"{what}_{dim}"])


def producers(case: TargetCase) -> int:
    schedule = case.spec.schedule
    return schedule.waves.producers if schedule is not None and schedule.waves is not None else 0


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yaml")), ids=lambda one: one.name.partition(".")[0])
def test_every_spec_of_a_model_gets_a_plan(path: Path) -> None:
    assert load(path).is_planned


def test_products_of_what_steps_carry_are_planned() -> None:
    """Looking for what they are made of never ended: what a step carries is made of itself."""
    assert tile(case_of(spec_of("retention_chunks"), B=1, H=2, C=4, D=64, E=64), "E") == 64


def test_a_tile_is_halved_for_values_that_have_its_dim_alone() -> None:
    """Others are as large whatever it is: columns of the state had tiles of one."""
    assert tile(on("cpu", spec_of("retention_chunks"), {"B": 1, "H": 2, "C": 4, "D": 64, "E": 64}), "E") == 32


def test_a_head_of_keys_and_values_may_be_one_dim() -> None:
    one = spec_of("attention_sinks")
    two = changed(
        "attention_sinks",
        ("D: {max: 64}", "D: {max: 64}, E: {max: 64}"),
        ("v: {shape: [B, G, N, D]", "v: {shape: [B, G, N, E]"),
        ("o: {shape: [B, H, M, D]", "o: {shape: [B, H, M, E]"),
        ("nothing: {register: [B, H, M, D]", "nothing: {register: [B, H, M, E]"),
        ("v_tile: {read: v, dims: [B, H, N, D]", "v_tile: {read: v, dims: [B, H, N, E]"),
    )
    sizes = {"B": 1, "H": 64, "G": 8, "M": 2048, "N": 2048, "D": 64}
    own, other = case_of(one, **sizes), case_of(two, E=64, **sizes)
    assert own.spec.schedule == other.spec.schedule
    assert [tile(own, dim) for dim in ("M", "N", "D", "D_of_results")] == [
        tile(other, dim) for dim in ("M", "N", "D", "E")
    ]


def test_few_queries_share_out_their_keys_where_a_head_is_one_dim() -> None:
    spec = changed(
        "attention_i8_cache_decode",
        ("dtype: i8}", "dtype: bf16}"),
        ("keys: bf16(k_codes)", "keys: k_codes"),
        ("values: bf16(v_codes)", "values: v_codes"),
    )
    schedule = case_of(spec, B=1, G=8, R=8, N=8192, D=128).spec.schedule
    assert schedule is not None and schedule.workgroups is not None and schedule.workgroups.split == 8


def test_limits_of_several_whole_dims_are_of_each() -> None:
    """`max(E, R) <= 64` said nothing of E to those who look whether a tile of 64 holds it."""
    spec = spec_of("mla_decode")
    assert check_builds([spec], ["sm_90"]) == [()]
    assert producers(case_of(spec, B=32, H=128, N=4096, E=512, R=64)) == 1


def test_keys_that_are_decoded_have_no_waves_that_only_copy() -> None:
    """They were handed on through shared memory, which had no room for them."""
    spec = spec_of("attention_i8_cache_decode")
    assert check_builds([spec], ["sm_90"]) == [()]
    assert not any(producers(case) for case in cases_for_target(spec, "sm_90"))


def test_rows_of_a_mask_may_start_anywhere_where_those_of_operands_do_not() -> None:
    assert producers(case_of(spec_of("attention_cross"), B=4, M=1024, N=77, H=16, D=64)) == 1


def test_loops_in_loops_walk_along_what_lies_side_by_side() -> None:
    """Channels were, and pixels went one by one: a thousandth of the speed."""
    case = case_of(spec_of("group_norm_silu"), N=2, G=32, C=10, P=16384)
    assert tile(case, "P") >= 8192
    (channels,) = (one.tile for one in case.spec.constraints if isinstance(one, Tiling) and one.dim == "C")
    assert channels == Num(value=1)


def test_short_rows_share_a_tile() -> None:
    assert tile(case_of(spec_of("focal_loss"), M=200_000, N=80), "M") == 16
    assert tile(case_of(spec_of("rope_2d"), B=8, P=4096, A=16, D=64), "D") == 64


def test_groups_that_are_whole_have_tiles_of_what_a_few_waves_read() -> None:
    """A tile had 128 groups of the 56 there are."""
    assert tile(case_of(spec_of("quantize_f8_groups"), M=4096, G=56), "G") == 16


def test_whole_dims_of_one_size_may_be_shared_out_among_waves() -> None:
    """One wave had no registers for 128 x 128 elements."""
    assert check_builds([spec_of("quantize_f8_blocks")], ["sm_90"]) == [()]


def test_a_narrow_product_beside_another_does_not_halve_its_columns() -> None:
    case = case_of(spec_of("linear_lora_f32"), M=2048, N=5120, K=5120)
    assert producers(case) == 1
    assert tile(case, "N") >= 128


def test_mistakes_come_without_words_about_tiles_that_nobody_wrote() -> None:
    """Loops have tiles of some size while a graph is looked at, larger than dims of few elements."""
    two_sums = changed_text("conv_transpose1d", ("dims: [O, K], at: {W: K // size(C), C: K % size(C)}", "dims: [K, W]"))
    with pytest.raises(WavespecError) as found:
        loads(two_sums.replace("iterate: K", "iterate: W"))
    assert {one.code for one in found.value.diagnostics}.isdisjoint({"tile-beyond-size"})


@pytest.mark.parametrize(
    ("filters", "tile_of_filters"), [(128, 128), (192, 192), (256, 256), (320, 192), (384, 192), (512, 256), (640, 128)]
)
def test_tiles_of_windows_leave_few_filters_beyond_the_last_one(filters: int, tile_of_filters: int) -> None:
    """192 filters took two tiles of 128, of which a half was filled with zeros, at 0.68 of torch's speed."""
    case = case_of(spec_of("conv3d_ndhwc"), N=1, D=8, H=60, W=104, C=192, O=filters)
    assert tile(case, "O") == tile_of_filters

"""What specs of models without tiles asked of plans: each test is about a kernel that was refused, never planned, or slow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from wavespec.check_builds import check_builds
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import load
from wavespec.schema.cases import TargetCase, case_for_sizes, cases_for_target
from wavespec.schema.language.constraints import Tiling, Workgroup
from wavespec.schema.language.expressions import Num
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.load import loads
from wavespec.schema.ops import Mma, every
from wavespec.schema.resolve import complete_sizes, resolve_params
from wavespec.targets.machine import machines

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


def tile_of(kernel: KernelSpec, dim: str) -> int:
    """Of a kernel among those of a case, whose tiles may be numbers."""
    split = (one for one in kernel.constraints if isinstance(one, Tiling | Workgroup) and one.dim == dim)
    return int(next(split).tile.evaluate(resolve_params(kernel)))


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


def test_keys_that_are_values_as_well_leave_room_for_more_of_them() -> None:
    """One tile of them is both operands; queries wait beside two of these."""
    sizes = {"B": 32, "H": 128, "N": 4096, "E": 512, "R": 64}
    latent = case_of(spec_of("mla_decode"), **sizes)
    assert tile(latent, "N") == 64 and latent.spec.schedule is not None and latent.spec.schedule.stages == 2
    apart = changed(
        "mla_decode",
        ("  k_rope:", "  values: {shape: [B, N, E], dtype: bf16}\n  k_rope:"),
        ("- k_tile: {read: k_rope}", "- k_tile: {read: k_rope}\n        - v_tile: {read: values}"),
        ("[weight, c_tile,", "[weight, v_tile,"),
    )
    assert tile(case_of(apart, **sizes), "N") <= 32


def test_latent_caches_are_copied_by_boxes() -> None:
    """A dim of no elements has none, and the larger of two said nothing of the other: lanes copied, and had too few
    registers."""
    kernel = lower(case_of(spec_of("mla_decode"), B=32, H=128, N=4096, E=512, R=64).spec, machines("sm_90")[0])
    names = {op.name for op in kernel.walk()}
    assert "bulk_copy" in names and "copy_async" not in names


def test_few_heads_of_latent_caches_have_parts_of_their_keys() -> None:
    case = case_of(spec_of("mla_decode"), B=4, H=16, N=8192, E=512, R=64)
    (before,) = case.before
    assert before.dims["N_part"].value == 32 and any(every(Mma, before.graph))


def test_keys_of_a_window_are_not_parts() -> None:
    """A loop that begins and ends where values say has none: workgroups of a cluster share its steps out."""
    spec = changed("mla_decode", ("      iterate: N\n", "      iterate: N\n      start: N - N // 2\n"))
    case = case_of(spec, B=4, H=16, N=8192, E=512, R=64)
    assert not case.before and case.spec.schedule is not None
    assert case.spec.schedule.workgroups is not None and case.spec.schedule.workgroups.split == 8


def test_heads_that_share_keys_are_rows_where_lanes_would_multiply() -> None:
    """A decoded token has no other rows, and its products are written as sums: lanes took eight times as long."""
    case = case_of(spec_of("attention_window_decode"), B=32, H=32, G=8, N=4096, D=128)
    assert len([*every(Mma, case.spec.graph)]) == 4 and producers(case) == 1
    assert not any(every(Mma, case_of(spec_of("attention_window_decode"), B=2, H=9, G=2, N=64, D=128).spec.graph))


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


@pytest.mark.parametrize(("name", "target"), [("quantize_f8_blocks", "cpu"), ("retention_chunks", "gfx942")])
def test_what_a_value_needs_all_of_is_no_reason_to_refuse_a_spec(name: str, target: str) -> None:
    """Both named no tiles: whole blocks were more lines than compile in good time, operands of a step 96 kB of 64."""
    assert check_builds([spec_of(name)], [target]) == [()]


def test_operands_stay_where_they_are_where_a_step_has_no_room_for_all() -> None:
    sizes = {"B": 1, "H": 2, "C": 4, "D": 128, "E": 128}
    spaces = {
        target: [one.space for one in on(target, spec_of("retention_chunks"), sizes).spec.tensors.values()][:3]
        for target in ("gfx942", "gfx950")
    }
    assert spaces == {"gfx942": ["global", "global", "shared"], "gfx950": ["shared"] * 3}


def test_a_narrow_product_beside_another_does_not_halve_its_columns() -> None:
    case = case_of(spec_of("linear_lora_f32"), M=2048, N=5120, K=5120)
    assert producers(case) == 1
    assert tile(case, "N") >= 128


def test_products_of_few_columns_are_made_before_one_of_many_rows() -> None:
    """Beside it, each of its workgroups made them again: 128 x 16 elements take the matrix unit as long as 128 x 64."""
    spec = spec_of("linear_lora_f32")
    few, many = (case_of(spec, M=rows, N=5120, K=5120) for rows in (256, 2048))
    assert [len(case.kernels) for case in (few, many)] == [1, 2]
    making, product = many.kernels
    assert [len([*every(Mma, one.graph)]) for one in (making, product)] == [1, 2]
    assert making.schedule is not None and making.schedule.workgroups is not None
    assert making.schedule.workgroups.split == 4  # many workgroups for a narrow result


def test_steps_that_values_bound_are_few() -> None:
    """A bag of a few rows had 128 steps in eight waves, of which one had something to do."""
    case = case_of(spec_of("embedding_bag"), P=4097, V=1_000_000, D=128, N=65536)
    assert (tile(case, "N"), tile(case, "D"), tile(case, "N", "WAVE")) == (16, 128, 4)


def test_parts_of_a_long_dim_are_read_by_several_accesses_of_a_lane() -> None:
    """Elements of 16 bits had half an access each, since the only result is a number of 32."""
    spec = spec_of("grad_norm")
    wide = changed("grad_norm", ("dtype: bf16}", "dtype: f32}"))
    assert [tile(case_of(one, N=50_000_000), "N", "WAVE") for one in (spec, wide)] == [1024, 512]


@pytest.mark.parametrize(("pixels", "channels"), [(64, 64), (256, 64), (1024, 16)])
def test_few_rows_in_a_loop_over_others_are_read_many_at_a_time(pixels: int, channels: int) -> None:
    """Tiles had four rows of results where there are two images, and four channels."""
    case = case_of(spec_of("group_norm_silu"), N=2, G=32, C=40, P=pixels)
    assert (tile(case, "N"), tile(case, "C")) == (1, channels)


def test_mistakes_come_without_words_about_tiles_that_nobody_wrote() -> None:
    """Loops have tiles of some size while a graph is looked at, larger than dims of few elements."""
    two_sums = changed_text("conv_transpose1d", ("dims: [O, K], at: {W: K // size(C), C: K % size(C)}", "dims: [K, W]"))
    with pytest.raises(WavespecError) as found:
        loads(two_sums.replace("iterate: K", "iterate: W"))
    assert {one.code for one in found.value.diagnostics}.isdisjoint({"tile-beyond-size"})


NEWTON_SCHULZ = """
apiVersion: wavespec/v1
kind: Kernel
name: newton_schulz
dims: {M: {}, K: {}, P: {}}
tensors:
  b: {shape: [M, K], dtype: bf16}
  x: {shape: [K, P], dtype: bf16}
  y: {shape: [M, P], dtype: bf16, role: output}
graph:
  - zero: {register: [M, P], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {acc: zero}
      body:
        - weight: {read: b}
        - other: {read: x}
        - acc: {mma: [weight, other, acc]}
  - same: {read: x, dims: [M, P], at: {K: M}}
  - moved: bf16(steps.acc + f32(same) * 3.4445)
  - {write: moved, to: y}
"""

BLOCK_SPARSE = """
apiVersion: wavespec/v1
kind: Kernel
name: block_sparse
dims: {G: {}, N: {}, L: {}, K: {equals: 64 * L}, Z: {}, R: {value: 64}, C: {value: 64}, X: {}}
tensors:
  blocks: {shape: [Z, R, C], dtype: bf16}
  which: {shape: [G, L], dtype: i32, values: {min: 0, max: Z - 1}}
  column: {shape: [G, L], dtype: i32, values: {min: 0, max: X // 64 - 1}}
  x: {shape: [X, N], dtype: bf16}
  y: {shape: [G, R, N], dtype: f32, role: output}
graph:
  - zero: {register: [G, R, N], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {acc: zero}
      body:
        - block: {read: which, dims: [G, K], at: {L: K // 64}}
        - place: {read: column, dims: [G, K], at: {L: K // 64}}
        - weight: {read: blocks, dims: [G, R, K], at: {Z: block, C: K % 64}}
        - rows: {read: x, dims: [G, K, N], at: {X: place * 64 + K % 64}}
        - acc: {mma: [weight, rows, acc]}
  - {write: steps.acc, to: y}
"""


def test_what_is_multiplied_may_be_added_too() -> None:
    """A step of Newton and Schulz adds the tensor that it multiplies, which was refused where waves only copy."""
    assert check_builds([loads(NEWTON_SCHULZ)]) == [()]


def test_waves_take_no_turns_where_steps_look_places_up() -> None:
    """Large products of blocks by their numbers were refused for `gfx942`, by a schedule that nobody had asked for."""
    assert check_builds([loads(BLOCK_SPARSE)]) == [()]


SAMPLED = """
apiVersion: wavespec/v1
kind: Kernel
name: sampled
dims: {B: {}, C: {}, H: {}, W: {}, P: {}, Q: {}}
tensors:
  image: {shape: [B, C, H, W], dtype: f32}
  across: {shape: [B, P, Q], dtype: f32}
  down: {shape: [B, P, Q], dtype: f32}
  y: {shape: [B, C, P, Q], dtype: f32, role: output}
graph:
  - x: {read: across}
  - z: {read: down}
  - column: i32(floor(x))
  - line: i32(floor(z))
  - pixel: {read: image, dims: [B, C, P, Q], at: {H: line, W: column}}
  - {write: pixel, to: y}
"""


def test_channels_share_the_places_that_values_say() -> None:
    """Each channel worked its places out again, which took three times as long; a tile has many channels of a vector of
    places, each of which looks them up in turn (0222, 0228): one of a wave where an instruction gathers."""
    found = [on("cpu", loads(SAMPLED), dict(B=1, C=c, H=9, W=9, P=8, Q=80)) for c in (32, 3, 1)]
    assert [(tile(one, "C"), tile(one, "C", "WAVE")) for one in found] == [(64, 1), (3, 3), (1, 1)]


def test_places_of_rows_are_no_places_of_channels() -> None:
    """What is side by side is read so, whatever says which row it is: tiles are as they were."""
    rows = SAMPLED.replace("at: {H: line, W: column}", "at: {H: line, W: Q}")
    assert tile(on("cpu", loads(rows), dict(B=1, C=32, H=9, W=80, P=8, Q=80)), "P") > 1


@pytest.mark.parametrize(
    ("filters", "tile_of_filters"), [(128, 128), (192, 192), (256, 256), (320, 192), (384, 192), (512, 256), (640, 128)]
)
def test_tiles_of_windows_leave_few_filters_beyond_the_last_one(filters: int, tile_of_filters: int) -> None:
    """192 filters took two tiles of 128, of which a half was filled with zeros, at 0.68 of torch's speed."""
    case = case_of(spec_of("conv3d_ndhwc"), N=1, D=8, H=60, W=104, C=192, O=filters)
    assert tile(case, "O") == tile_of_filters


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_adapters_are_added_in_place(target: str) -> None:
    """Lanes share out the rank of an adapter, and have each result several times, which was refused."""
    spec = changed(
        "lora_expand",
        ("  base: {shape: [M, N], dtype: bf16}\n", ""),
        ("dtype: bf16, role: output}", "dtype: bf16, role: inout}"),
        ("{read: base}", "{read: y}"),
    )
    assert check_builds([spec], [target]) == [()]


def test_cpus_make_products_of_few_columns_before_one_of_few_rows() -> None:
    """Each tile of 24 columns made the adapter's 16 again."""
    case = on("cpu", spec_of("linear_lora_f32"), {"M": 64, "N": 1024, "K": 1024})
    making, product = case.kernels
    assert [len([*every(Mma, one.graph)]) for one in (making, product)] == [1, 2]
    assert [tile_of(making, dim) for dim in ("M", "R", "K")] == [64, 16, tile_of(product, "K")]


@pytest.mark.parametrize(("columns", "kernels"), [(128, 1), (4096, 1), (4097, 2)])
def test_cpus_decode_what_lies_across_steps_beside_its_product(columns: int, kernels: int) -> None:
    """To write it turns it round, and takes as long as to decode it for twenty tiles of columns."""
    sizes = {"B": 1, "C": 2, "L": 256, "H": 8, "G": 1, "P": 64, "N": columns}
    assert len(on("cpu", spec_of("ssd_chunk_state"), sizes).kernels) == kernels


def test_steps_of_cpus_that_values_bound_read_nothing_beyond_these() -> None:
    case = on("cpu", spec_of("embedding_bag"), {"P": 257, "V": 10_000, "D": 128, "N": 4096})
    assert tile(case, "N") == 1


@pytest.mark.parametrize(("sizes", "wave"), [((32, 32), (4, 16)), ((3, 32), (1, 64)), ((32, 3), (1, 64))])
def test_digits_of_columns_are_shared_by_rows_that_have_digits_too(
    sizes: tuple[int, int], wave: tuple[int, int]
) -> None:
    path = SPECS.parent / "planned" / "kronecker_product.wave.yaml"
    rows, columns = sizes
    case = on("cpu", load(path), {"A": 64, "B": 64, "P": rows, "Q": columns, "M": 64 * rows, "N": 64 * columns})
    assert (tile(case, "M", "WAVE"), tile(case, "N", "WAVE")) == wave


def test_recurrences_of_few_results_load_steps_ahead() -> None:
    cases = cases_for_target(load(SPECS / "selective_scan.wave.yaml"), "sm_90")
    few, many = (case_for_sizes(cases, {"B": b, "D": 4096, "T": 9, "N": 16}).spec.schedule for b in (4, 256))
    assert few is not None and few.stages == 5 and many is None

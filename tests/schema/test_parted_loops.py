"""Parts of a dim: the kernels that come of a case, and what is refused, at the entry that asks for it."""

from __future__ import annotations

import pytest

from tests.kernels import SPECS
from wavespec.diagnostics import WavespecError
from wavespec.schema import KernelSpec, load, loads
from wavespec.schema.cases import TargetCase, case_for_sizes, cases_for_target
from wavespec.schema.load import loads_plain
from wavespec.schema.reading.spec_to_yaml import dump_yaml

MODELS = SPECS.parent / "benchmarks" / "specs" / "models"
SUMS = """apiVersion: wavespec/v1
kind: Kernel
name: sums
dims: {M: {}, N: {}}
params: {STEPS: 64}
tensors:
  x: {shape: [M, N], dtype: f32}
  w: {shape: [M], dtype: f32}
  y: {shape: [M], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
  - {tiling: N, tile: STEPS}
graph:
  - none: {register: [M], dtype: f32, value: 0}
  - steps:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - total: {sum: part, dim: N, init: total}
  - weight: {read: w}
  - result: steps.total * weight
  - {write: result, to: y}
targets:
  cpu:
    cases:
      - when: [N >= 4096]
        schedule: {parts: ASKED}
"""


def spec_of(asked: str = "{N: 32}", *changes: tuple[str, str]) -> KernelSpec:
    text = SUMS.replace("ASKED", asked)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return loads(text, "sums.wave.yaml")


def case_of(*changes: tuple[str, str]) -> TargetCase:
    return cases_for_target(spec_of("{N: 32}", *changes), "cpu")[0]


def test_parts_are_steps_of_the_loop_where_waves_are_one_lane() -> None:
    """Nothing is left out by its index there: lanes would compare it in each step."""
    before, _ = case_of().kernels
    assert dump_yaml(before) == (
        "apiVersion: wavespec/v1\n"
        "kind: Kernel\n"
        "name: sums_steps\n"
        "\n"
        "dims:\n"
        "  M: {}\n"
        "  N: {min: 4096}\n"
        "  N_part: {value: 32}\n"
        "params:\n"
        "  STEPS: 64\n"
        "\n"
        "tensors:\n"
        "  x: {shape: [M, N], dtype: f32}\n"
        "  total_of_parts: {shape: [N_part, M], dtype: f32, role: output}\n"
        "\n"
        "constraints:\n"
        "  - {workgroup: M, tile: 4, axis: 0}\n"
        "  - {tiling: N, tile: STEPS}\n"
        "  - {workgroup: N_part, tile: 1, axis: 1}\n"
        "\n"
        "graph:\n"
        "  - total_of_none: {register: [N_part, M], dtype: f32, value: 0}\n"
        "  - steps:\n"
        "      iterate: N\n"
        "      carry: {total: total_of_none}\n"
        "      start: (start(N_part) + 0) * (ceildiv(N, 32 * STEPS) * STEPS)\n"
        "      end: (start(N_part) + 1) * (ceildiv(N, 32 * STEPS) * STEPS)\n"
        "      body:\n"
        "        - part: {read: x, dims: [N_part, M, N], at: {N: N}}\n"
        "        - total: {sum: part, dim: N, init: total}\n"
        "  - {write: steps.total, to: total_of_parts}\n"
    )


def test_each_part_has_workgroups_of_its_own() -> None:
    before, _ = cases_for_target(spec_of("{N: 32}", ("  cpu:\n", "  sm_90:\n")), "sm_90")[0].kernels
    assert dump_yaml(before) == (
        "apiVersion: wavespec/v1\nkind: Kernel\nname: sums_steps\n\n"
        "dims:\n  M: {}\n  N: {min: 4096}\n  N_part: {value: 32}\n"
        '  N_in_part: {equals: "ceildiv(N, 32 * STEPS) * STEPS"}\nparams:\n  STEPS: 64\n\n'
        "tensors:\n  x: {shape: [M, N], dtype: f32}\n"
        "  total_of_parts: {shape: [N_part, M], dtype: f32, role: output}\n\n"
        "constraints:\n  - {workgroup: M, tile: 4, axis: 0}\n  - {tiling: N_in_part, tile: STEPS}\n"
        "  - {workgroup: N_part, tile: 1, axis: 1}\n\n"
        "graph:\n  - total_of_none: {register: [N_part, M], dtype: f32, value: 0}\n  - steps:\n"
        "      iterate: N_in_part\n      carry: {total: total_of_none}\n      body:\n"
        "        - part: {read: x, dims: [N_part, M, N_in_part], at: {N: N_part * size(N_in_part) + N_in_part}}\n"
        "        - total_nothing: {register: [], dtype: f32, value: 0}\n"
        "        - total_within: where(i64(index(N_part)) * size(N_in_part) + i64(index(N_in_part)) < size(N), part, total_nothing)\n"
        "        - total: {sum: total_within, dim: N_in_part, init: total}\n"
        "  - {write: steps.total, to: total_of_parts}\n"
    )


def test_the_kernel_behind_joins_all_parts_and_goes_on() -> None:
    _, kernel = case_of().kernels
    assert list(kernel.tensors) == ["total_of_parts", "x", "w", "y"]
    text = dump_yaml(kernel)
    assert "- total_of_one: {read: total_of_parts}\n" in text
    assert "- total: {sum: total_of_one, dim: N_part, init: total}\n" in text
    assert "{tiling: N_part, tile: 32}" in text and "{wave: N_part, tile: 4}" in text and "parts: {N:" not in text


def test_a_loop_that_writes_walks_over_each_part_from_what_those_before_have() -> None:
    case = cases_for_target(load(SPECS / "cumsum.wave.yaml"), "sm_90")[0]
    before, kernel = case.kernels
    assert "cumsum:" not in dump_yaml(before) and list(before.tensors) == ["x", "before_of_parts"]
    text = dump_yaml(kernel)
    assert (
        "- before_earlier: where(index(N_part_before) < index(N_part), f64(before_of_each), before_nothing)\n" in text
    )
    assert "- before_at_first: f32(f64(none) + before_in_front)\n" in text
    assert "- running: {cumsum: wide, dim: N_in_part, init: before}\n" in text
    assert "{write: result, to: y, at: {N: N_part * size(N_in_part) + N_in_part}}" in text


def test_what_follows_from_what_else_is_carried_is_found_by_the_walk_and_joined_behind_it() -> None:
    cases = cases_for_target(load(MODELS / "top_p_mask.wave.yaml"), "sm_90")
    before, walking, joining = case_for_sizes(cases, {"M": 1, "N": 151936}).kernels
    made = [[name for name, one in kernel.tensors.items() if one.role == "output"] for kernel in (before, walking)]
    assert made == [["before_of_parts"], ["y", "count_of_parts"]]
    text = dump_yaml(walking)
    assert "carry: {before: before_at_first, count: count_of_none}" in text
    assert "- count: {sum: count_within, dim: N_in_part, init: count}\n" in text, "nothing behind the dim is counted"
    assert list(joining.tensors) == ["count_of_parts", "p", "kept"]
    assert "carry: {count: nobody}" in dump_yaml(joining)
    for kernel in (before, walking, joining):
        assert loads_plain(dump_yaml(kernel)) == kernel


LARGEST = """apiVersion: wavespec/v1
kind: Kernel
name: largest
dims: {M: {}, N: {}, K: {value: 3}}
tensors:
  x: {shape: [N, M], dtype: f32}
  y: {shape: [K, M], dtype: f32, role: output}
  at: {shape: [K, M], dtype: i32, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
  - {tiling: N, tile: 32}
graph:
  - worst: {register: [K, M], dtype: f32, value: -.inf}
  - nowhere: {register: [K, M], dtype: i32, value: 2147483647}
  - steps:
      iterate: N
      carry: {found: worst, places: nowhere}
      body:
        - part: {read: x}
        - found: {topk: part, dim: N, k: K, indices: places, init: [found, places], dtype: i32}
  - {write: steps.found, to: y}
  - {write: steps.places, to: at}
targets:
  cpu:
    cases:
      - when: [N >= 256]
        schedule: {parts: {N: 8}}
"""


def test_the_largest_of_all_parts_come_with_their_places() -> None:
    case = cases_for_target(loads(LARGEST, "largest.wave.yaml"), "cpu")[0]
    before, kernel = (dump_yaml(one) for one in case.kernels)
    assert "found_of_parts: {shape: [N_found, M], dtype: f32, role: output}" in before
    assert "- places_of_all: i64(index(N_part)) * size(N_in_part) + i64(steps.places)\n" in before
    assert "- places_within: i32(where(places_of_all < size(N), places_of_all, 2147483647))\n" in before
    assert "{write: steps.found, to: found_of_parts, at: {N_found: N_part * size(K) + K}}" in before
    assert "places: places_of_one" in kernel and "{tiling: N_found, tile: 32}" in kernel


OTHER_LARGEST = {
    "not what it carries": ((("init: [found, places]", "init: [worst, nowhere]"),), "'found' does not go on from elements and places of 'N' alone"),
    "places of its own": ((("- found: {topk: part", "- own: {register: [N, M], dtype: i32, value: 1}\n        - found: {places: own, topk: part"),), "'found' does not go on from elements and places of 'N' alone"),
    "a maximum as well": ((("carry: {found", "carry: {top: least, found"), ("  - worst:", "  - least: {register: [M], dtype: f32, value: 0}\n  - worst:"), ("        - found: {", "        - top: {max: part, dim: N, init: top}\n        - found: {")), "'steps' does more than 'topk' of one 'K'"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "why"), OTHER_LARGEST.values(), ids=OTHER_LARGEST)
def test_the_largest_of_parts_are_joined_with_nothing_else(changes: tuple[tuple[str, str], ...], why: str) -> None:
    text = LARGEST
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(WavespecError) as caught:
        loads(text, "largest.wave.yaml")
    found = next(one for one in caught.value.diagnostics if one.code == "parts-not-possible")
    assert why in found.message and found.span is not None and found.hints


@pytest.mark.parametrize("name", ["sum_dim", "cross_entropy_mean", "cumsum", "topk"])
def test_every_kernel_is_a_plain_spec_like_any_other(name: str) -> None:
    for case in cases_for_target(load(SPECS / f"{name}.wave.yaml"), "sm_90"):
        for one in case.kernels if case.before else ():
            assert loads_plain(dump_yaml(one)) == one


REFUSED = {
    "no dim": ("{Q: 32}", (), "it is no dim"),
    "no loop": ("{M: 32}", (), "that takes loops over it, in no other ones"),
    "a part of it": ("{N: 32}", (("iterate: N", "iterate: N\n      end: size(N) - 1"),), "'steps' does not take all of it"),
    "a loop in front that writes": ("{N: 32}", (("role: output}", "role: output}\n  each: {shape: [M, N], dtype: f32, role: output}"), ("  - steps:", "  - early: {iterate: N, body: [{part: {read: x}}, {write: part, to: each}]}\n  - steps:")), "'early' does more than join elements, in front of 'steps'"),
    "a mean": ("{N: 32}", (("{sum: part", "{mean: part"),), "parts of 'mean' cannot be joined"),
    "a place": ("{N: 32}", (("{read: x}", "{read: x}\n        - n: f32(index(N))\n        - more: part + n"), ("sum: part", "sum: more")), "its elements ask for their place"),
    "more than a reduction": ("{N: 32}", (("{read: x}", "{read: x}\n        - more: part * total"), ("sum: part", "sum: more")), "'total' is not only what a reduction has so far"),
    "two that follow from a third": ("{N: 32}", (("carry: {total: none}", "carry: {total: none, a: none, b: none}"), ("        - total: {sum", "        - more: part + total\n        - a: {sum: more, dim: N, init: a}\n        - twice: part + a\n        - b: {sum: twice, dim: N, init: b}\n        - total: {sum")), "'a' is not only what a reduction has so far"),
    "each step writes one tensor": ("{N: 32}", (("role: output}", "role: output}\n  last: {shape: [M], dtype: f32, role: output}"), ("init: total}", "init: total}\n        - {write: total, to: last}")), "each step of 'steps' writes all of 'last'"),
    "changed once, not by each part": ("{N: 32}", (("role: output}", "role: inout}\n  each: {shape: [M, N], dtype: f32, role: output}"), ("init: total}", "init: total}\n        - {write: part, to: each}"), ("  - result: steps.total * weight", "  - old: {read: y}\n  - result: old + weight")), "what is around 'steps' changes 'y' in place"),
    "split": ("{N: 32}, workgroups: {split: 8}", (), "the schedule has 'materialize' or 'split' as well"),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "changes", "why"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_parts_is_refused_where_it_is_asked_for(
    asked: str, changes: tuple[tuple[str, str], ...], why: str
) -> None:
    with pytest.raises(WavespecError) as caught:
        spec_of(asked, *changes)
    found = next(one for one in caught.value.diagnostics if one.code == "parts-not-possible")
    assert why in found.message and found.span is not None and found.hints


def test_the_kernel_for_all_sizes_is_one_kernel() -> None:
    with pytest.raises(WavespecError, match="the kernel for all sizes is one kernel"):
        spec_of("{N: 32}", ("  cpu:\n    cases:\n      - when: [N >= 4096]\n        schedule", "  cpu:\n    schedule"))

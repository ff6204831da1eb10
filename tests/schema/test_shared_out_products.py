"""Products with few tiles: workgroups share out their steps, and what few rows multiply is decoded beside the product."""

from __future__ import annotations

import pytest

from tests.bare import planned_anew, without_plan
from tests.kernels import Subject, subjects
from wavespec.pipeline import lower
from wavespec.schema.cases import TargetCase, case_for_sizes, cases_for_target
from wavespec.schema.load import loads
from wavespec.schema.plans.find_roles import roles_of
from wavespec.schema.plans.tables import table_of
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.resolve import complete_sizes, resolve_params
from wavespec.targets.machine import machines


def subject_of(name: str) -> Subject:
    return next(one for one in subjects("sm_90") if one.name == name)


def case_of(name: str, m: int, n: int, k: int) -> TargetCase:
    subject = subject_of(name)
    cases = cases_for_target(planned_anew(subject.spec), "sm_90")
    return case_for_sizes(cases, subject.complete({"M": m, "N": n, "K": k}))


def split_and_tile(name: str, *sizes: int) -> tuple[int, tuple[int, int]]:
    spec = case_of(name, *sizes).spec
    workgroups, params = spec.schedule and spec.schedule.workgroups, resolve_params(spec)
    return workgroups.split if workgroups else 1, (params["TILE_M"], params["TILE_N"])


def test_as_many_clusters_run_at_once_as_the_machine_has_room_for() -> None:
    (machine,) = machines("sm_90")
    table = table_of("products", "sm_90")
    assert table is not None
    assert table.limits["processors"] == machine.processors
    assert table.limits["clusters"] == dict(machine.clusters)


@pytest.mark.parametrize(
    ("name", "sizes", "expected"),
    [
        ("matmul_bf16", (8, 256, 7168), (8, (16, 64))),
        ("matmul_bf16", (8, 1024, 4096), (4, (16, 64))),
        ("matmul_bf16", (8, 4096, 4096), (1, (16, 64))),  # enough to read as fast as all processors do
        ("matmul_bf16", (24, 4096, 4096), (2, (64, 64))),
        ("matmul_bf16", (24, 4096, 1024), (1, (64, 64))),  # few steps
        ("matmul_bf16", (257, 256, 7168), (4, (64, 64))),
        ("matmul_bf16", (257, 2880, 2880), (1, (64, 128))),
        ("matmul_bf16", (4096, 4096, 4096), (1, (128, 256))),
        ("gemm_f32", (1, 64, 65536), (8, (2, 8))),
        ("gemm_f32", (17, 64, 65536), (4, (8, 4))),
        ("gemm_f32", (64, 1024, 8192), (4, (64, 64))),
        ("gemm_f32", (24, 5120, 8192), (2, (64, 80))),
        ("gemm_f32", (3000, 5120, 5120), (1, (128, 128))),
    ],
)
def test_few_tiles_of_many_steps_are_shared_out(
    name: str, sizes: tuple[int, int, int], expected: tuple[int, tuple[int, int]]
) -> None:
    assert split_and_tile(name, *sizes) == expected


@pytest.mark.parametrize(
    ("name", "few", "written", "staged"),
    [
        ("linear_i4", 9, set[str](), {"x", "w", "scale"}),
        ("matmul_mxf4", 1, {"a_tile"}, {"a", "b", "b_scale"}),
    ],
)
def test_columns_of_few_rows_are_decoded_from_what_is_staged(
    name: str, few: int, written: set[str], staged: set[str]
) -> None:
    case = case_of(name, few, 4096, 4096)
    assert {
        made.removesuffix("_made") for one in case.before for made in one.tensors if made.endswith("_made")
    } == written
    assert {
        tensor.removesuffix("_made") for tensor, one in case.spec.tensors.items() if one.space == "shared"
    } >= staged - {"a"}
    assert split_and_tile(name, few, 4096, 4096)[0] == 2
    assert case_of(name, 4096, 4096, 4096).before, "many rows: by a kernel before"


def test_rows_of_scales_that_start_anywhere_are_not_staged() -> None:
    assert case_of("linear_i4", 9, 4096, 2880).before


def test_a_sum_that_starts_from_other_numbers_is_not_shared_out() -> None:
    """The plan asks for it, the spec does not: it builds, with a workgroup for each tile."""
    text = dump_yaml(without_plan(subject_of("linear_i4").spec))
    assert text.count("value: 0") == 1
    spec = loads(text.replace("value: 0", "value: 1"), "linear_i4.wave.yaml")
    (machine,) = machines("sm_90")
    sizes = complete_sizes(spec, {"M": 64, "N": 10240, "K": 4096})
    case = case_for_sizes(cases_for_target(planned_anew(spec), "sm_90"), sizes)
    assert case.spec.schedule and case.spec.schedule.workgroups and case.spec.schedule.workgroups.last_round == 8
    kernel = lower(case.spec, machine, after="share-last-round")
    assert kernel.distribution.last_round == 1 and not any(op.name == "shared_sum" for op in kernel.walk())


JOINED = [
    ("sums along rows", "total: {sum: k_loop.acc, dim: M}", False),
    ("sums along columns", "total: {sum: k_loop.acc, dim: N}", False),
    ("each element for itself", "total: k_loop.acc * 2.0", True),
]


@pytest.mark.parametrize(("what", "op", "expected"), JOINED, ids=[one[0] for one in JOINED])
def test_what_joins_results_behind_the_loop_needs_all_of_them(what: str, op: str, expected: bool) -> None:
    text = dump_yaml(without_plan(subject_of("gemm").spec))
    dims = {"sums along rows": "[N]", "sums along columns": "[M]"}.get(what, "[M, N]")
    text = text.replace("- {write: k_loop.acc, to: c}", f"- {op}\n  - {{write: total, to: c}}")
    assert op in text
    roles = roles_of(without_plan(loads(text.replace("c: {shape: [M, N]", f"c: {{shape: {dims}"), "gemm.wave.yaml")))
    assert roles is not None and roles.split == expected

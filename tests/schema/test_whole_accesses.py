"""A spec that names no waves has, where accesses have to be aligned, a kernel more for rows that are."""

from __future__ import annotations

from typing import get_args

import pytest

from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.targets.machine import machines
from wavespec.targets.names import ALIGNED, WIDEST_BITS, TargetName

COPY = """
apiVersion: wavespec/v1
kind: Kernel
name: copy
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: bf16}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 16, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
graph:
  - part: {read: x}
  - wide: f32(part)
  - {write: wide, to: y}
"""


def spec_of(*changes: tuple[str, str]) -> KernelSpec:
    text = COPY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return loads(text, "copy.wave.yaml")


def conditions(spec: KernelSpec, target: str = "sm_90") -> list[list[str]]:
    return [[str(condition) for condition in case.when] for case in cases_for_target(spec, target)]


def test_rows_are_whole_accesses_of_the_smallest_elements() -> None:
    assert conditions(spec_of()) == [["N % 8 == 0"], []]


def test_the_first_kernel_knows_what_the_second_cannot() -> None:
    aligned, rest = cases_for_target(spec_of(), "gfx942")
    assert (aligned.spec.dims["N"].multiple_of, rest.spec.dims["N"].multiple_of) == (8, 1)


@pytest.mark.parametrize(("columns", "number"), [(64, 0), (60, 1), (8, 0)])
def test_a_call_takes_what_fits(columns: int, number: int) -> None:
    cases = cases_for_target(spec_of(), "sm_90")
    assert case_for_sizes(cases, {"M": 5, "N": columns}) is cases[number]


@pytest.mark.parametrize(
    "change",
    [
        ("constraints:\n", "constraints:\n  - {wave: M, tile: 4}\n"),
        ("N: {}", "N: {multiple_of: 8}"),
        ("N: {}", "N: {value: 20}"),
        ("N: {}", "N: {max: 7}"),
        ("N: {}", "N: {min: 9, max: 15}"),
        ("graph:", "targets: {sm_90: {cases: [{when: [M > 64], schedule: {workgroups: {group: 8}}}]}}\ngraph:"),
    ],
)
def test_no_kernel_more_where_it_would_be_the_same_or_the_spec_decides(change: tuple[str, str]) -> None:
    assert not any("% 8" in one for when in conditions(spec_of(change)) for one in when)


def test_tensors_of_any_strides_say_where_they_start() -> None:
    strided = spec_of(("dtype: bf16}", "dtype: bf16, strides: any}"))
    assert conditions(strided) == [["N % 8 == 0", "alignment(x) % 8 == 0"], []]


def test_places_of_vectors_beside_matrices_are_not_asked_for() -> None:
    scaled = spec_of(
        ("  y:", "  scale: {shape: [M], dtype: f32}\n  y:"),
        ("- wide: f32(part)", "- factor: {read: scale}\n  - wide: f32(part) * factor"),
    )
    assert conditions(scaled) == [["N % 8 == 0"], []]


def test_cpus_access_any_place() -> None:
    assert conditions(spec_of(), "cpu") == [[]]


@pytest.mark.parametrize("target", get_args(TargetName))
def test_the_table_is_what_machines_say(target: str) -> None:
    known = [machine.globals for machine in machines(target)]
    assert {not one.any_alignment for one in known} == {target in ALIGNED}
    assert target not in ALIGNED or {one.access_bytes * 8 for one in known} == {WIDEST_BITS}

"""Specs without tiles: numbers that are counted in few bins, and attention in f32, have plans of their own on Hopper."""

from __future__ import annotations

from pathlib import Path

from tests.schema.test_products_before import ROUTER
from wavespec.schema import loads
from wavespec.schema.cases import TargetCase, case_for_sizes, cases_for_target
from wavespec.schema.language.constraints import Hardware

SPECS = Path(__file__).parents[2] / "specs"
COUNTS = """\
apiVersion: wavespec/v1
kind: Kernel
name: count
dims: {N: {}, B: {}}
tensors:
  counts: {shape: [B], dtype: i32, role: inout}
  x: {shape: [N], dtype: i32}
graph:
  - number: {read: x}
  - one: {register: [N], dtype: i32, value: 1}
  - {write: one, to: counts, at: {B: number}, combine: add}
"""


def stays(case: TargetCase) -> bool:
    schedule = case.spec.schedule
    return schedule is not None and schedule.workgroups is not None and schedule.workgroups.persistent


def test_workgroups_stay_that_count_often_in_few_bins() -> None:
    cases = cases_for_target(loads(COUNTS), "sm_90")
    assert stays(case_for_sizes(cases, {"N": 10**6, "B": 1000}))
    assert not stays(case_for_sizes(cases, {"N": 10**6, "B": 10**5})), "more bins than shared memory has room for"
    assert not stays(case_for_sizes(cases, {"N": 10**5, "B": 30000})), "few numbers of each"


def test_sums_of_floats_do_not_stay() -> None:
    """Shared memory has no instruction for them."""
    cases = cases_for_target(
        loads(COUNTS.replace("i32, role", "f32, role").replace("dtype: i32, value", "dtype: f32, value")), "sm_90"
    )
    assert not any(map(stays, cases))


def test_many_short_rows_of_16_bits_are_one_kernel() -> None:
    """Workgroups that have all columns are as fast then; of f32 they are not."""
    few, many = ({"T": tokens, "D": 4096, "X": 32, "K": 8} for tokens in (1000, 8192))
    f32 = ROUTER.replace("value: 256", "value: 32")
    bf16 = f32.replace("D], dtype: f32", "D], dtype: bf16")
    for text, sizes, kernels in ((bf16, few, 2), (bf16, many, 1), (f32, many, 2)):
        assert len(case_for_sizes(cases_for_target(loads(text), "sm_90"), sizes).kernels) == kernels


def test_rows_of_16_bits_that_start_anywhere_are_one_kernel() -> None:
    """Lanes would copy the operands of the product element by element; those of f32 are as fast."""
    bf16 = ROUTER.replace("D], dtype: f32", "D], dtype: bf16")
    for text, kernels in ((bf16, 1), (ROUTER, 2)):
        case = case_for_sizes(cases_for_target(loads(text), "sm_90"), {"T": 100, "D": 4097, "X": 256, "K": 8})
        assert len(case.kernels) == kernels


def test_attention_in_f32_multiplies_parts() -> None:
    text = (SPECS / "attention.wave.yaml").read_text()
    head, graph = text[: text.index("dtypes:")], text[text.index("graph:") : text.index("targets:")]
    dims = text[text.index("dims:") : text.index("params:")]
    tensors = text[text.index("tensors:") : text.index("constraints:")].replace(", space: shared, strides: any", "")
    spec = loads((head + dims + tensors + graph).replace("DTYPE", "f32").replace("LARGE", "1073741824"))
    cases = cases_for_target(spec, "sm_90")
    asked = [one.settings.mma for case in cases for one in case.spec.constraints if isinstance(one, Hardware)]
    assert {*asked} == {"mma3_m16n8k8_f32"} and len(asked) == len(cases)

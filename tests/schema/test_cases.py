"""The cases of a target: which one the sizes of a call take, and what it is compiled under."""

from __future__ import annotations

import pytest

from tests.cli.command import SMALL
from wavespec.cases_on_machines import cases_on, machines_of
from wavespec.diagnostics import WavespecError
from wavespec.schema import KernelSpec, loads
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.language.expressions import Num
from wavespec.schema.language.models import Dim
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.targets.machine import machines

CASES = """\
  cpu:
    params: {BLOCK_M: 24}
    schedule: {stages: 2}
    cases:
      - {when: [M == 1], params: {BLOCK_M: 12}}
      - when: [M <= 64, K % 64 == 0]
        constraints:
          - {workgroup: M, tile: BLOCK_M * 2, axis: 0}
          - {tiling: K, tile: 64}
        schedule: {stages: 1}
        tensors: {a: {space: global}}
"""


def with_cases(cases: str) -> KernelSpec:
    return loads(SMALL.replace("  cpu: {params: {BLOCK_M: 24}}\n", cases), "small.wave.yaml")


def test_case_goes_over_the_target_and_the_target_over_the_kernel() -> None:
    row, few, every = cases_for_target(with_cases(CASES), "cpu")
    assert [str(row.spec.params["BLOCK_M"]), str(few.spec.params["BLOCK_M"])] == ["12", "24"]
    assert [len(case.spec.constraints) for case in (row, few, every)] == [4, 2, 4]
    assert [case.spec.schedule and case.spec.schedule.stages for case in (row, few, every)] == [2, 1, 2]
    assert few.spec.tensors["a"].space == "global" and every.spec.tensors["a"].space == "shared"
    assert not any(case.spec.targets for case in (row, few, every))


EACH = """\
  cpu:
    params: {BLOCK_M: 24}
    cases:
      - {when: [M <= BLOCK_M], each: {BLOCK_M: [4, 12]}, schedule: {stages: 2}}
"""


def test_one_case_stands_for_each_number_of_a_parameter() -> None:
    small, large, every = cases = cases_for_target(with_cases(EACH), "cpu")
    assert [str(case.spec.params["BLOCK_M"]) for case in cases] == ["4", "12", "24"]
    assert [case.spec.dims["M"].max for case in cases] == [4, 12, None]
    assert [case_for_sizes(cases, {"M": m, "N": 5, "K": 8}) for m in (4, 5, 12, 13)] == [small, large, large, every]
    assert all(case.spec.schedule and case.spec.schedule.stages == 2 for case in (small, large))


def test_a_spec_with_a_case_for_each_number_is_that_with_all_of_them() -> None:
    said = with_cases(EACH)
    assert loads(dump_yaml(said), "small.wave.yaml") == said


def test_conditions_become_promises_in_their_case_only() -> None:
    row, few, every = cases_for_target(with_cases(CASES), "cpu")
    assert row.spec.dims["M"] == Dim(value=1, min=1, max=1)
    assert few.spec.dims == {"M": Dim(max=64), "N": Dim(), "K": Dim(multiple_of=64)}
    assert every.spec.dims == {"M": Dim(), "N": Dim(), "K": Dim(multiple_of=8)} and every.when == ()


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [((1, 5, 8), 0), ((1, 5, 64), 0), ((2, 5, 64), 1), ((64, 5, 128), 1), ((64, 5, 72), 2), ((65, 5, 64), 2)],
)
def test_first_case_whose_conditions_hold_is_taken(sizes: tuple[int, int, int], expected: int) -> None:
    cases = cases_for_target(with_cases(CASES), "cpu")
    assert case_for_sizes(cases, dict(zip("MNK", sizes, strict=True))) is cases[expected]


VARIANTS = """\
  cpu:
    params: {BLOCK_M: 24}
    cases:
      - {when: [M <= 64], variants: [x86_64_v4, x86_64_v3], params: {BLOCK_M: 12}}
      - {when: [M <= 64], params: {BLOCK_M: 36}}
"""


@pytest.mark.parametrize(("variant", "block"), [("x86_64_v4", "12"), ("x86_64_amx", "36"), ("aarch64_v8", "36")])
def test_a_case_is_for_the_variants_that_it_names(variant: str, block: str) -> None:
    cases = cases_on(with_cases(VARIANTS), "cpu", machines(f"cpu:{variant}"))
    assert str(case_for_sizes(cases, {"M": 5, "N": 5, "K": 8}).spec.params["BLOCK_M"]) == block
    assert [machines_of(one, machines("cpu:x86_64_v4+x86_64_v2"))[0].variant for one in cases][-1] == "x86_64_v4"


DECODED = """\
        - x_codes: {read: a}
        - y_codes: {read: b}
        - x: bf16(x_codes)
        - y: {cast: y_codes, dtype: bf16}
"""
READ = """\
        - x: {read: a}
        - y: {read: b}
"""


@pytest.mark.parametrize(
    ("inputs", "read", "has_case"), [("f16", READ, 0), ("bf16", READ, 1), ("f8e4m3fn", DECODED, 1)]
)
def test_a_case_with_an_instruction_is_for_what_that_multiplies(inputs: str, read: str, has_case: int) -> None:
    case = "  cpu: {cases: [{when: [M > 4], variants: [x86_64_amx], hardware: {mma: amx_bf16_32x32x32}}]}\n"
    text = SMALL.replace("  cpu: {params: {BLOCK_M: 24}}\n", case).replace(READ, read)
    assert read in text
    spec = loads(text.replace("dtype: f16", f"dtype: {inputs}"), "small.wave.yaml")
    assert len(cases_on(spec, "cpu", machines("cpu:x86_64_amx"))) == 1 + has_case


def test_a_case_for_a_variant_that_there_is_not_is_refused_at_its_name() -> None:
    """When the spec is read, whatever it is read for: a build for another target had nothing against it."""
    with pytest.raises(WavespecError, match=r"unknown-variant.*'x86_64_v5' is not a variant of cpu") as caught:
        with_cases(VARIANTS.replace("x86_64_v3", "x86_64_v5"))
    (span,) = [one.span for one in caught.value.diagnostics]
    assert span is not None and span.column == VARIANTS.splitlines()[3].index("x86_64_v3") + 1


def test_condition_that_divides_by_an_empty_dim_does_not_hold() -> None:
    cases = cases_for_target(with_cases("  cpu:\n    cases: [{when: [K % M == 0], params: {BLOCK_M: 24}}]\n"), "cpu")
    assert case_for_sizes(cases, {"M": 0, "N": 8, "K": 8}) is cases[-1]
    assert case_for_sizes(cases, {"M": 4, "N": 8, "K": 8}) is cases[0]


def test_condition_may_use_the_parameters_of_its_case() -> None:
    cases = cases_for_target(with_cases("  cpu:\n    cases: [{when: [M <= BLOCK_M], params: {BLOCK_M: 24}}]\n"), "cpu")
    assert cases[0].spec.dims["M"].max == 24


def test_other_targets_have_no_cases() -> None:
    assert [case.case for case in cases_for_target(with_cases(CASES), "sm_90")] == [None, None]


def test_written_spec_with_cases_loads_back() -> None:
    spec = with_cases(CASES)
    assert loads(dump_yaml(spec)) == spec


def test_builder_and_yaml_agree() -> None:
    yaml = with_cases("  cpu:\n    params: {BLOCK_M: 24}\n    cases: [{when: [M <= 64], params: {BLOCK_M: 12}}]\n")
    k = KernelBuilder("small")
    m, n, kk = k.dim("M"), k.dim("N"), k.dim("K", multiple_of=8)
    block = k.param("BLOCK_M", 32)
    a, b = k.input("a", [m, kk], "f16", "shared"), k.input("b", [n, kk], "f16", "shared")
    c = k.output("c", [m, n], "f32")
    k.workgroup(m, block, axis=0)
    k.workgroup(n, 32, axis=1)
    k.tiling(kk, 32)
    k.hardware("auto")
    zero = k.register("zero", [m, n], "f32", 0)
    with k.iterate("loop", kk, acc=zero) as loop:
        k.mma("acc", k.read("x", a), k.read("y", b), loop["acc"])
    k.write(loop["acc"], c)
    k.target("cpu", params={"BLOCK_M": 24})
    k.case("cpu", [m <= 64], params={"BLOCK_M": 12})
    k.workload(M=40, N=24, K=64)
    assert k.build() == yaml


@pytest.mark.parametrize(
    ("cases", "code"),
    [
        ("      - {when: [], params: {BLOCK_M: 24}}\n", "out-of-range"),
        ("      - {when: [M <= 8], params: {BLOK: 24}}\n", "undefined-name"),
        ("      - {when: [M <= 8], tensors: {q: {space: global}}}\n", "undefined-name"),
        ("      - {when: [M <= 8], constraints: [{tiling: Q, tile: 8}]}\n", "undefined-name"),
        ("      - {when: [M <= 8], blocks: {}}\n", "unknown-field"),
        ("      - {params: {BLOCK_M: 24}}\n", "missing-field"),
        ("      - {when: [M <= 8]}\n      - {when: [M <= 8, N <= 8]}\n", "unreachable-case"),
    ],
)
def test_mistake_in_a_case_is_at_its_line(cases: str, code: str) -> None:
    text = SMALL.replace(
        "  cpu: {params: {BLOCK_M: 24}}\n", f"  cpu:\n    params: {{BLOCK_M: 24}}\n    cases:\n{cases}"
    )
    line = text.splitlines().index(cases.splitlines()[-1]) + 1
    with pytest.raises(WavespecError, match=rf"small\.wave\.yaml:{line}:[0-9]+: error\[{code}\]"):
        loads(text, "small.wave.yaml")


def test_a_condition_on_parameters_says_for_which_kernels_a_case_is() -> None:
    text = "  cpu:\n    cases: [{when: [BLOCK_M == 24, M <= 8], schedule: {stages: 1}}, {when: [M <= 64], params: {BLOCK_M: 12}}]\n"
    spec = with_cases(text)
    assert [len(case.when) for case in cases_for_target(spec, "cpu")] == [1, 0]
    other = spec.model_copy(update={"params": {**spec.params, "BLOCK_M": Num(24)}})
    assert [len(case.when) for case in cases_for_target(other, "cpu")] == [2, 1, 0]


def test_a_parameter_that_a_case_sets_is_that_in_its_conditions() -> None:
    spec = with_cases("  cpu:\n    cases: [{when: [BLOCK_M == 12, M <= 8], params: {BLOCK_M: 12}}]\n")
    assert [len(case.when) for case in cases_for_target(spec, "cpu")] == [2, 0]

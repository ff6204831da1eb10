"""`strides` of tensors as YAML, Python and printed IR have it, and what conditions on them promise."""

from __future__ import annotations

import pytest

from wavespec.ir.kernel import Kernel
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.pipeline import best_variant, build, lower
from wavespec.runtime.manifest import artifact_to_manifest, pack_artifact, unpack_artifact
from wavespec.schema import KernelSpec, loads
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.cases import cases_for_target
from wavespec.schema.language.constraints import Assume
from wavespec.schema.load import loads_plain
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.resolved import resolve
from wavespec.targets.machine import machines

TEXT = """apiVersion: wavespec/v1
kind: Kernel
name: copied
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: f32, strides: any}
  y: {shape: [M, N], dtype: f32, role: output, strides: contiguous}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
graph:
  - value: {read: x}
  - {write: value, to: y}
"""


def spec(*conditions: str) -> KernelSpec:
    lines = "".join(f'  - {{assume: "{condition}"}}\n' for condition in conditions)
    return loads(TEXT.replace("graph:\n", f"{lines}graph:\n"))


def test_yaml_and_python_say_the_same() -> None:
    k = KernelBuilder("copied")
    m, n = k.dim("M"), k.dim("N")
    x = k.input("x", [m, n], "f32", strides="any")
    y = k.output("y", [m, n], "f32", strides="contiguous")
    k.workgroup(m, 4, axis=0)
    k.workgroup(n, 64, axis=1)
    k.write(k.read("value", x), y)
    assert k.build() == spec() == loads(dump_yaml(spec()))


@pytest.mark.parametrize("target", ["cpu", "sm_90", "gfx942"])
def test_text_of_a_kernel_has_offset_and_strides(target: str) -> None:
    kernel = lower(spec(), machines(target)[0])
    text = print_kernel(kernel)
    assert "memory @x : f32 (M: [M], N: [N]) global input start [x.offset] strides [x.stride.M] [1]\n" in text
    assert print_kernel(parse_kernel(text)) == text


def _numbers(kernel: Kernel) -> dict[str, tuple[int | None, int]]:
    """Most of each number, and what divides it."""
    return {one.args[0]: (one.high, one.divisor) for one in kernel.symbols if one.args[0].startswith("x.")}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], {"x.offset": (15, 1), "x.stride.M": (2**47, 1)}),
        (["stride(x, M) % 6 == 0"], {"x.offset": (15, 1), "x.stride.M": (2**47, 6)}),
        (["alignment(x) % 4 == 0"], {"x.offset": (12, 4), "x.stride.M": (2**47, 4)}),
        (["alignment(x) % 16 == 0", "stride(x, M) <= 512"], {"x.stride.M": (512, 16)}),
    ],
)
def test_conditions_are_promises_of_offset_and_strides(conditions: list[str], expected: dict[str, object]) -> None:
    assert _numbers(lower(spec(*conditions), machines("gfx942")[0])) == expected


@pytest.mark.parametrize("elements", [1, 2, 4])
def test_accesses_are_as_wide_as_the_alignment_allows(elements: int) -> None:
    kernel = lower(spec("N % 4 == 0", *[f"alignment(x) % {elements} == 0"] * (elements > 1)), machines("sm_90")[0])
    assert {op.result.vector.elements for op in kernel.walk() if op.get("memory") == "x" and op.results} == {elements}


def test_alignment_of_no_tensor_is_that_of_each_that_has_strides() -> None:
    cases = 'targets: {cpu: {cases: [{when: [alignment() % 4 == 0, "M > 8 * alignment ( )"]}]}}\n'
    two = TEXT.replace("strides: contiguous", "strides: any").replace(
        "graph:", "  - {assume: alignment() % 2 == 0}\ngraph:"
    )
    given = loads(two + cases)
    assert [str(one) for one in given.targets["cpu"].cases[0].when] == [
        "alignment(x) % 4 == 0",
        "alignment(y) % 4 == 0",
        "M > 8 * alignment(x)",
        "M > 8 * alignment(y)",
    ]
    assumed = [str(one.condition) for one in given.constraints if isinstance(one, Assume)]
    assert assumed == ["alignment(x) % 2 == 0", "alignment(y) % 2 == 0"]
    assert [str(one) for one in loads(TEXT + cases).targets["cpu"].cases[0].when] == [
        "alignment(x) % 4 == 0",
        "M > 8 * alignment(x)",
    ]


def test_what_a_case_promises_is_in_its_text() -> None:
    """Kernels are built from the text of a case: wide accesses came of conditions in tests alone."""
    cases = """targets:
  sm_90:
    cases:
      - {when: [N % 4 == 0, alignment(x) % 4 == 0, "stride(x, M) == 512"]}
      - {when: [alignment(x) % 2 == 0]}
"""
    given = loads(TEXT + cases)
    for case in cases_for_target(given, "sm_90"):
        promised = resolve(loads_plain(dump_yaml(case.spec)), "sm_90").promised
        assert promised == resolve(case.spec, "sm_90").promised
    first, second, _ = (resolve(case.spec, "sm_90").promised for case in cases_for_target(given, "sm_90"))
    assert (first["alignment(x)"].multiple_of, second["alignment(x)"].multiple_of) == (4, 2)
    assert (first["stride(x, M)"].min, first["stride(x, M)"].max) == (512, 512)
    assumed = loads(
        TEXT.replace("graph:\n", "  - {assume: alignment(x) % 2 == 0}\ngraph:\n") + cases.replace("[N %", "[M %")
    )
    assert loads_plain(dump_yaml(cases_for_target(assumed, "sm_90")[0].spec))  # promises that follow from one are none


@pytest.mark.compiles
def test_manifests_keep_what_is_said_of_strides() -> None:
    artifact = build(spec("alignment(x) % 4 == 0"), "cpu", only=best_variant("cpu"))
    assert artifact.numbers == ("offset(x)", "stride(x, M)") and artifact.constant_count == 2 + 4
    assert [one.get("strides") for one in artifact_to_manifest(artifact)["tensors"]] == ["any", "contiguous"]
    assert unpack_artifact(pack_artifact(artifact)).tensors == artifact.tensors

"""What passes find wrong with the kernel of a case is shown at the case, and says which one it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.command import SMALL
from wavespec.check_builds import check_builds
from wavespec.diagnostics import Diagnostic, WavespecError, to_json
from wavespec.pipeline import build, compile, emit, lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import cases_for_target
from wavespec.schema.checking.case_errors import in_case, naming_case
from wavespec.targets.machine import Machine, machines

AMD = machines("gfx942")[0]


def mistake(case: str, text: str = SMALL) -> Diagnostic:
    """What is wrong with the kernel of the one case of gfx942."""
    text = text.replace("workloads:", f"  gfx942:\n    cases:\n{case}workloads:")
    one = cases_for_target(loads(text, "small.wave.yaml"), "gfx942")[0]
    with pytest.raises(WavespecError) as caught, naming_case(one):
        lower(one.spec, AMD)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


def marked(diagnostic: Diagnostic) -> str:
    span = diagnostic.span
    assert span is not None and span.source is not None
    return span.source.lines[span.line - 1][span.column - 1 : span.end_column - 1]


def test_mistake_at_a_line_of_the_case_stays_there() -> None:
    found = mistake("      - when: [M <= 16]\n        hardware: {mma: blah}\n")
    assert (found.code, marked(found), found.related) == ("unknown-matrix-instruction", "blah", ())
    assert found.notes[-1] == "In the case at line 29: when [M <= 16]."


def test_mistake_of_an_expression_is_at_the_parameter_that_the_case_sets() -> None:
    text = SMALL.replace("BLOCK_M: 32", "BLOCK_M: 32, HALF: BLOCK_M // 2").replace(
        "  - {tiling: K", "  - {wave: M, tile: HALF}\n  - {tiling: K"
    )
    found = mistake("      - {when: [N > 8, M <= 16], params: {BLOCK_M: 40}}\n", text)
    assert (found.code, marked(found)) == ("tile-not-divisible", "40")
    assert [related.span.line for related in found.related] == [13]
    assert found.notes[-1] == "In the case at line 30: when [N > 8, M <= 16]."


def test_mistake_of_something_else_is_at_the_conditions() -> None:
    found = mistake("      - when: [M <= 16]\n        params: {BLOCK_M: 1024}\n")
    assert (found.code, marked(found)) == ("shared-memory-exceeded", "[M <= 16]")
    assert [related.span.line for related in found.related] == [13]


def test_mistake_for_all_sizes_is_as_it_was() -> None:
    whole = cases_for_target(loads(SMALL, "small.wave.yaml"), "cpu")[-1]
    found = Diagnostic("code", "Wrong.", whole.spec.span_of("name"))
    assert in_case(found, whole) is found


def test_mistake_without_a_place_names_the_case() -> None:
    text = SMALL.replace("{params: {BLOCK_M: 24}}", "{cases: [{when: [M <= 16], params: {BLOCK_M: 24}}]}")
    one = cases_for_target(loads(text, "small.wave.yaml"), "cpu")[0]
    assert in_case(Diagnostic("code", "Wrong."), one).notes == ("In the case when [M <= 16].",)


ON_AMD = "  gfx942:\n    cases: [{when: [M <= 16], params: {BLOCK_M: 32}}]\nworkloads:"
DEFAULT = "In the default case, for the sizes that no 'when' is for."


@pytest.mark.parametrize("stage", [lower, emit])
def test_every_stage_names_the_machine(stage: Callable[[KernelSpec, Machine], object]) -> None:
    spec = loads(SMALL.replace("BLOCK_M: 32", "BLOCK_M: 1024"), "small.wave.yaml")
    with pytest.raises(WavespecError, match=r"= note: For gfx942\.") as caught:
        stage(spec, AMD)
    assert [found.targets for found in caught.value.diagnostics] == [("gfx942",)]
    assert to_json(caught.value.diagnostics[0])["targets"] == ["gfx942"]


def test_the_default_case_is_named_where_a_target_has_others() -> None:
    large = SMALL.replace("BLOCK_M: 32", "BLOCK_M: 1024")
    for way in (build, compile):
        with pytest.raises(WavespecError) as caught:
            way(loads(large.replace("workloads:", ON_AMD), "small.wave.yaml"), "gfx942")
        (found,) = caught.value.diagnostics
        assert (found.notes[-1], found.targets) == (DEFAULT, ("gfx942",))
        with pytest.raises(WavespecError) as caught:
            way(loads(large, "small.wave.yaml"), "gfx942")
        assert DEFAULT not in caught.value.diagnostics[0].notes


def test_check_names_the_default_case_alone_unless_the_cases_have_the_same_mistake() -> None:
    large = SMALL.replace("BLOCK_M: 32", "BLOCK_M: 1024")
    ((found,),) = check_builds([loads(large.replace("workloads:", ON_AMD), "small.wave.yaml")], ["gfx942"])
    assert (found.notes[-1], found.targets) == (DEFAULT, ("gfx942",))
    alike = ON_AMD.replace(", params: {BLOCK_M: 32}", ", params: {BLOCK_M: 1024}")
    ((found,),) = check_builds([loads(large.replace("workloads:", alike), "small.wave.yaml")], ["gfx942"])
    assert DEFAULT not in found.notes and found.targets == ("gfx942",)

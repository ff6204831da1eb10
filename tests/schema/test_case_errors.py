"""What passes find wrong with the kernel of a case is shown at the case, and says which one it is."""

from __future__ import annotations

import pytest

from tests.cli.command import SMALL
from wavespec.diagnostics import Diagnostic, WavespecError
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.case_errors import in_case, naming_case
from wavespec.schema.resolve import cases_for_target
from wavespec.targets.machine import machines

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

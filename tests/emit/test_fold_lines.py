"""Long lines of Python are folded as formatters do, without a change of what they mean."""

from __future__ import annotations

import ast

import pytest

from wavespec.emit.fold_lines import fold_lines

LONG = "a_name_that_is_long_enough_for_a_line_to_be_folded"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"f({LONG})", f"f({LONG})"),
        (f"f({LONG}, {LONG}, {LONG})", f"f(\n    {LONG},\n    {LONG},\n    {LONG},\n)"),
        (f"f(a).g({LONG}, {LONG}).b", f"f(a).g(\n    {LONG},\n    {LONG},\n).b"),
        (f"{LONG}1({LONG}, ')', {LONG})", f"{LONG}1(\n    {LONG},\n    ')',\n    {LONG},\n)"),
        (f'f({LONG}, "(\\"", [{LONG}])', f'f(\n    {LONG},\n    "(\\"",\n    [{LONG}],\n)'),
        (f"{LONG} = ({LONG}, {LONG},)", f"{LONG} = (\n    {LONG},\n    {LONG},\n)"),
        (f"{LONG}{LONG}{LONG} = (a,)", f"{LONG}{LONG}{LONG} = (\n    a,\n)"),
        (f"{LONG}{LONG} = {LONG}[0] + (a)", f"{LONG}{LONG} = {LONG}[0] + (a)"),
        (f'"""{LONG}, ({LONG}, {LONG})\n"""', f'"""{LONG}, ({LONG}, {LONG})\n"""'),
        (f"# One sentence. {LONG} {LONG}", f"# One sentence.\n# {LONG} {LONG}"),
    ],
)
def test_long_lines_are_fold_lines(line: str, expected: str) -> None:
    assert fold_lines(line) == expected
    assert ast.dump(ast.parse(fold_lines(line))) == ast.dump(ast.parse(line))


def test_definitions_are_folded_at_their_parameters() -> None:
    line = f"def f({LONG}: Tensor, {LONG}: Tensor) -> tuple[Tensor, Tensor]:\n    pass"
    expected = f"def f(\n    {LONG}: Tensor,\n    {LONG}: Tensor,\n) -> tuple[Tensor, Tensor]:\n    pass"
    assert fold_lines(line) == expected


def test_conditions_are_folded_at_or() -> None:
    line = f"if a and ({LONG} or {LONG}):\n    pass"
    assert fold_lines(line) == f"if a and (\n    {LONG} or {LONG}\n):\n    pass"
    line = f"if a and ({LONG}{LONG}.b or {LONG}.c):\n    pass"
    assert fold_lines(line) == f"if a and (\n    {LONG}{LONG}.b\n    or {LONG}.c\n):\n    pass"


def test_conditions_that_end_in_a_call_are_folded_at_and() -> None:
    line = f"if not a(b and c) and {LONG}.f({LONG}, {LONG}):\n    pass"
    folded = f"if (\n    not a(b and c)\n    and {LONG}.f(\n        {LONG},\n        {LONG},\n    )\n):\n    pass"
    assert fold_lines(line) == folded
    assert ast.dump(ast.parse(folded)) == ast.dump(ast.parse(line))

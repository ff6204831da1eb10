"""The table of Wave's ops: every statement in it is one of the language, and its kernel can be lowered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.check_graph import plain_graph
from wavespec.targets.machine import machines

_PAGE = Path(__file__).parents[2] / "docs" / "language.md"
_TABLE = _PAGE.read_text(encoding="utf-8").partition("## Words of Wave\n")[2].partition("\n## ")[0]
STATEMENTS = [
    statement
    for row in re.findall(r"^\| `.*$", _TABLE, re.MULTILINE)
    for statement in re.findall(r"`([^`]+)`", row.split("|")[2])
]
KERNEL = """apiVersion: wavespec/v1
kind: Kernel
name: words
dims: {{M: {{}}, N: {{value: 64}}, D: {{value: 32}}, E: {{value: 4}}, F: {{value: 16}}, K: {{value: 256}}}}
tensors:
  a: {{shape: [M, N], dtype: f32}}
  b: {{shape: [M, F, E], dtype: f32}}
  bias: {{shape: [N], dtype: f32}}
  places: {{shape: [N], dtype: i32}}
  c: {{shape: [M, N], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 8, axis: 0}}
{tiling}graph:
  - x: {{read: a}}
  - other: {{read: a, at: {{N: N - 1}}}}
  - split: {{read: b}}
  - row: {{read: bias}}
  - i: {{read: places}}
  - {statement}
{end}"""


def test_the_table_has_what_shapes_values() -> None:
    words = set(re.findall(r"`(\w+)\(", _TABLE))
    assert {"extract", "extract_slice", "reshape", "permute", "broadcast", "shuffle", "scalar", "self_index"} <= words
    assert len(STATEMENTS) > 20


@pytest.mark.parametrize("statement", STATEMENTS)
def test_every_statement_can_be_lowered(statement: str) -> None:
    is_effect = statement.startswith("{")
    tiling = "  - {tiling: K, tile: 64}\n" if "iterate: K" in statement else ""
    end = "" if is_effect else "  - {write: x, to: c}\n"
    spec = loads(KERNEL.format(statement=statement, tiling=tiling, end=end))
    name = statement.partition(":")[0]
    assert is_effect or name in {value.partition(".")[0] for value in plain_graph(spec)[1]}
    assert lower(spec, machines("sm_90")[0]).level == "thread"

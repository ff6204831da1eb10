"""The tables of Wave's words: everything in them is of the language, and its kernel can be lowered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.targets.machine import machines

_PAGE = Path(__file__).parents[2] / "docs" / "language.md"
_TABLE = _PAGE.read_text(encoding="utf-8").partition("## Words of Wave\n")[2].partition("\n## ")[0]
_OPS, _, _CONSTRAINTS = _TABLE.partition("\n### Constraints\n")


def _written_here(table: str) -> list[str]:
    rows = re.findall(r"^\| `.*$", table, re.MULTILINE)
    return [text for row in rows for text in re.findall(r"`([^`]+)`", row.split("|")[2])]


STATEMENTS = _written_here(_OPS)
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
  - count: {{register: [], dtype: i32, value: 0}}
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


SPLIT = """apiVersion: wavespec/v1
kind: Kernel
name: words
dims: {{M: {{}}, H: {{}}, K: {{}}}}
tensors:
  a: {{shape: [H, M, K], dtype: f32}}
  c: {{shape: [H, M, K], dtype: f32, role: output}}
constraints:
{constraints}
graph:
  - steps:
      iterate: K
      body:
        - x: {{read: a}}
        - {{write: x, to: c}}
{schedule}"""
CONSTRAINTS = ("{workgroup: M, tile: 64, axis: 0}", "{workgroup: H, tile: 1, axis: 1}", "{tiling: K, tile: 32}")


@pytest.mark.parametrize("written", _written_here(_CONSTRAINTS))
def test_every_constraint_can_be_lowered(written: str) -> None:
    is_schedule = written.startswith("schedule:")
    others = [line for line in CONSTRAINTS if is_schedule or line.split(",")[0] != written.split(",")[0]]
    constraints = "\n".join(f"  - {line}" for line in (*others, *([] if is_schedule else [written])))
    spec = loads(SPLIT.format(constraints=constraints, schedule=f"{written}\n" if is_schedule else ""))
    assert lower(spec, machines("sm_90")[0]).level == "thread"

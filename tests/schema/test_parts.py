"""Parts of graphs and aliases: what stands in the place of a use, and where mistakes in it are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavespec.diagnostics import WavespecError, to_json
from wavespec.schema import KernelSpec, load, loads
from wavespec.schema.reading.spec_to_yaml import dump_yaml

PARTS = """\
parts:
  shifted:
    inputs: [x, DIM, by]
    outputs: [result, top]
    body:
      - top: {max: x, dim: DIM}
      - moved: "x - top * by"
      - result: {exp: moved}
"""
REST = """\
apiVersion: wavespec/v1
kind: Kernel
name: rows
dims: {M: {}, N: {value: 64}}
tensors:
  a: {shape: [M, N], dtype: f32}
  c: {shape: [M, N], dtype: f32, role: output}
constraints: [{workgroup: M, tile: 4, axis: 0}]
"""
GRAPH = """\
graph:
  - tile: {read: a}
  - soft: {part: shifted, x: tile, DIM: N, by: 1 + 0.5}
  - again: {part: shifted, x: soft.result, DIM: N, by: 2}
  - scaled: again.result * soft.top
  - {write: scaled, to: c}
"""
WRITTEN = """\
graph:
  - tile: {read: a}
  - soft_top: {max: tile, dim: N}
  - soft_moved: "tile - soft_top * (1 + 0.5)"
  - soft_result: {exp: soft_moved}
  - again_top: {max: soft_result, dim: N}
  - again_moved: "soft_result - again_top * 2"
  - again_result: {exp: again_moved}
  - scaled: again_result * soft_top
  - {write: scaled, to: c}
"""


def spec(graph: str = GRAPH, parts: str = PARTS) -> KernelSpec:
    return loads(REST + parts + graph, "rows.wave.yaml")


def mistake(graph: str = GRAPH, parts: str = PARTS) -> str:
    with pytest.raises(WavespecError) as raised:
        spec(graph, parts)
    return str(raised.value)


def test_uses_of_a_part_are_the_statements_written_out() -> None:
    assert spec() == loads(REST + WRITTEN)
    assert loads(dump_yaml(spec())) == spec()


def test_part_in_a_part_and_in_a_loop() -> None:
    parts = (
        PARTS
        + "  outer: {inputs: [x], outputs: [end], body: [in: {part: shifted, x: x, DIM: N, by: 1}, end: in.top + x]}\n"
    )
    graph = GRAPH.replace(
        "again: {part: shifted, x: soft.result, DIM: N, by: 2}", "again: {part: outer, x: soft.result}"
    )
    parts, graph = (
        parts.replace("[in:", "[deep:").replace("in.top", "deep.top"),
        graph.replace("again.result", "again.end"),
    )
    names = [getattr(op, "name", "") for op in spec(graph, parts).graph]
    assert names[4:8] == ["again_deep_top", "again_deep_moved", "again_deep_result", "again_end"]


def test_names_of_dims_in_mappings_are_inputs_too() -> None:
    parts = (
        'parts: {turn: {inputs: [x, FROM], outputs: [y], body: [y: {take: x, at: {FROM: "FROM + size(FROM) - 1"}}]}}\n'
    )
    graph = "graph: [tile: {read: a}, t: {part: turn, x: tile, FROM: N}, {write: t.y, to: c}]\n"
    assert 'at: {N: "N + size(N) - 1"}' in dump_yaml(spec(graph, parts)).replace(
        "N + size(N) - 1}", '"N + size(N) - 1"}'
    )


def test_alias_stands_for_an_expression_or_a_mapping() -> None:
    aliases = "let: {beside: N + 1, twice: beside * 2, place: {N: twice}}\n"
    graph = (
        "graph: [tile: {read: a}, t: {take: tile, at: place}, s: {take: t, at: {N: beside // 2}}, {write: s, to: c}]\n"
    )
    plain = graph.replace("place", '{N: "(N + 1) * 2"}').replace("beside // 2", '"(N + 1) // 2"')
    assert spec(graph, aliases) == spec(plain, "")


def test_alias_stands_for_constraints_wherever_these_are() -> None:
    by_rows = "[{tiling: N, tile: SIZE}, {hardware: {mma: auto}}]"
    graph = "graph: [tile: {read: a}, {write: tile, to: c}]\n"
    case = "targets: {cpu: {cases: [{when: [N > 9], params: {SIZE: 8}, constraints: CONSTRAINTS}]}}\n"
    written = spec(graph + case.replace("CONSTRAINTS", by_rows), "params: {SIZE: 4}\n")
    named = spec(graph + case.replace("CONSTRAINTS", "by_rows"), f"params: {{SIZE: 4}}\nlet: {{by_rows: {by_rows}}}\n")
    assert named == written and len(named.targets["cpu"].cases[0].constraints or ()) == 2


def test_mistake_in_constraints_with_a_name_is_shown_where_they_are_written() -> None:
    graph = "graph: [tile: {read: a}, {write: tile, to: c}]\ntargets: {cpu: {constraints: by_rows}}\n"
    assert "9:18: error[unknown-constraint]" in mistake(graph, "let: {by_rows: [{tilin: N, tile: 4}]}\n")


def test_mistake_in_a_part_is_shown_there_with_its_use() -> None:
    text = mistake(GRAPH, PARTS.replace("top * by", "tip * by"))
    assert text.startswith("rows.wave.yaml:15:21: error[undefined-name]: 'tip' is not a value")
    assert '15 |       - moved: "x - tip * by"\n    |                     ^^^' in text
    assert (
        "19 |   - soft: {part: shifted, x: tile, DIM: N, by: 1 + 0.5}\n    |                  ------- used here" in text
    )


def test_mistake_behind_what_was_replaced_is_at_its_column() -> None:
    text = mistake(GRAPH, PARTS.replace("x - top * by", "by * x + x - tip"))
    assert text.startswith("rows.wave.yaml:15:30: error[undefined-name]: 'tip' is not a value")


def test_number_in_a_part_is_wrong_there_for_its_use() -> None:
    text = mistake(GRAPH, PARTS.replace("{exp: moved}", "{exp: 3.5}"))
    assert "rows.wave.yaml:16:23: error[wrong-type]" in text and "used here" in text


def test_uses_are_in_the_json_of_a_mistake() -> None:
    with pytest.raises(WavespecError) as raised:
        spec(GRAPH, PARTS.replace("{exp: moved}", "{exp: mov}"))
    assert to_json(raised.value.diagnostics[0])["related"] == [
        {
            "span": {"file": "rows.wave.yaml", "line": 19, "column": 18, "end_line": 19, "end_column": 25},
            "label": "used here",
        }
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("part: shifted, x: tile", "part: shiftd, x: tile", "19:18: error[unknown-part]"),
        ("x: tile, ", "", "19:18: error[wrong-inputs]: The part 'shifted' needs 'x' as well."),
        ("by: 2", "by: 2, bye: 3", "20:59: error[wrong-inputs]: The part 'shifted' has no input 'bye'."),
        ("soft.top", "soft.moved", "21:28: error[unknown-output]: 'moved' is no output of the part."),
        ("- soft: {part: shifted,", "- {part: shifted,", "19:6: error[missing-name]"),
        ("part: shifted, x: tile", "part: [shifted], x: tile", "19:18: error[wrong-type]"),
        ("x: tile,", "x: [tile],", "19:30: error[wrong-type]"),
        ("- scaled", "- soft_top: tile + 1\n  - scaled", "error[redefined-name]"),
        ("x: tile", "x: tiles", "19:30: error[undefined-name]: 'tiles' is not a value"),
    ],
)
def test_mistake_of_a_use_is_shown_at_the_use(old: str, new: str, expected: str) -> None:
    assert f"{expected}" in mistake(GRAPH.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("inputs: [x,", "inputs: [top, x,", "11:14: error[alias-taken]"),
        ("[result, top]", "[result, tap]", "12:23: error[unknown-output]"),
        ("outputs:", "output:", "12:5: error[unknown-field]"),
        (
            "      - result: {exp: moved}",
            "      - result: {part: shifted, x: x, DIM: DIM, by: by}",
            "error[part-cycle]",
        ),
        ("inputs: [x,", "inputs: [part, x,", "11:14: error[alias-taken]"),
        ("inputs: [x,", "inputs: [3, x,", "11:14: error[wrong-type]"),
        ("inputs: [x,", "inputs: [for, x,", "11:14: error[bad-name]"),
        ("    body:", "    bodies:", "13:5: error[unknown-field]"),
        ("  shifted:", "  class:", "10:3: error[bad-name]"),
    ],
)
def test_mistake_of_a_part_is_shown_at_the_part(old: str, new: str, expected: str) -> None:
    assert f"{expected}" in mistake(GRAPH, PARTS.replace(old, new, 1))


@pytest.mark.parametrize(
    ("aliases", "expected"),
    [
        ("{M: N + 1}", "9:7: error[alias-taken]: 'M' is a dim already"),
        ("{tile: N + 1}", "9:7: error[alias-taken]: 'tile' is a value already"),
        ("{add: N + 1}", "9:7: error[alias-taken]: 'add' is an op already"),
        ("{u: v + 1, v: u}", "error[part-cycle]: 'u' stands for itself: u -> v -> u."),
        ("{u: [1]}", "9:10: error[wrong-type]"),
        ("{u: }", "error[wrong-type]"),
        ("{u: {N: {N: 1}}}", "9:10: error[wrong-type]"),
        ("{" + ", ".join(f"u{i}: u{i + 1}" for i in range(99)) + "}", "9:6: error[out-of-range]"),
        ("{u: {N: 1}, v: u + 1}", "9:21: error[not-in-expressions]"),
        ("[u]", "9:6: error[wrong-type]"),
        ("{class: 1}", "9:7: error[bad-name]"),
    ],
)
def test_mistake_of_an_alias_is_shown_at_the_alias(aliases: str, expected: str) -> None:
    assert expected in mistake("graph: [tile: {read: a}, {write: tile, to: c}]\n", f"let: {aliases}\n")


def test_parts_that_grow_without_end_are_refused() -> None:
    parts = "parts:\n  p0: {body: [x: {read: a}]}\n" + "".join(
        f"  p{i}: {{body: [{', '.join(f'x{j}: {{part: p{i - 1}}}' for j in range(20))}]}}\n" for i in range(1, 8)
    )
    assert "yaml-too-large" in mistake("graph: [y: {part: p7}, {write: y, to: c}]\n", parts)
    aliases = "let:\n  u0: N + N\n" + "".join(f"  u{i}: u{i - 1} * u{i - 1} + 1\n" for i in range(1, 30))
    assert "yaml-too-large" in mistake("graph: [y: u29 + 1, {write: y, to: c}]\n", aliases)


def test_parts_come_with_what_is_extended_and_can_be_edited(tmp_path: Path) -> None:
    (tmp_path / "base.wave.yaml").write_text(REST + PARTS + GRAPH)
    path = tmp_path / "child.wave.yaml"
    path.write_text(
        "apiVersion: wavespec/v1\nkind: Kernel\nextends: base.wave.yaml\nname: child\n"
        "parts: {shifted: {body: {replace: {result: {tanh: moved}}}}}\n"
        "graph: {change: {again: {by: 3}}}\n"
    )
    text = dump_yaml(load(path))
    assert "soft_result: {tanh: soft_moved}" in text and "again_moved: soft_result - again_top * 3" in text
    path.write_text(path.read_text().replace("tanh: moved", "tanh: move"))
    with pytest.raises(WavespecError) as raised:
        load(path)
    found = raised.value.diagnostics[0]
    assert str(found.where) == f"{path}:5:51" and [str(one.span) for one in found.places] == [
        f"{tmp_path}/base.wave.yaml:19:18"
    ]

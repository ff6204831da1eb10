"""A spec that extends another: lists are edited by the names of their items, targets are like others."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavespec.diagnostics import WavespecError
from wavespec.schema import KernelSpec, load
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.families.load_family import load_family
from wavespec.schema.reading.spec_to_yaml import spec_to_data

BASE = """\
apiVersion: wavespec/v1
kind: Kernel
name: base
dims: {M: {}, N: {}, K: {}}
params: {BLOCK: 64}
tensors:
  a: {shape: [M, K], dtype: f16, space: shared}
  b: {shape: [N, K], dtype: f16, space: shared}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: BLOCK, axis: 0}
  - {workgroup: N, tile: BLOCK, axis: 1}
  - {tiling: K, tile: 32}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
  - result: k_loop.acc * 2
  - {write: result, to: c}
targets:
  cpu:
    params: {BLOCK: 96}
    cases:
      - {when: [M > 64, K % 8 == 0], params: {BLOCK: 192}}
      - {when: [M > 8], params: {BLOCK: 48}}
  gfx942: {params: {BLOCK: 32}, cases: [{when: [K % 8 == 0], params: {BLOCK: 64}}]}
  gfx950: {like: gfx942}
"""
HEAD = "apiVersion: wavespec/v1\nkind: Kernel\nextends: base.wave.yaml\nname: child\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "base.wave.yaml").write_text(BASE)
    return tmp_path


def child(project: Path, text: str, name: str = "child") -> KernelSpec:
    path = project / f"{name}.wave.yaml"
    path.write_text(HEAD.replace("child", name) + text)
    return load(path)


def graph(spec: KernelSpec) -> list[str]:
    """The statements, those of the loop behind it, as `name: what`."""
    lines: list[str] = []
    for statement in spec_to_data(spec)["graph"]:  # pyright: ignore[reportGeneralTypeIssues]
        assert isinstance(statement, dict)
        for name, value in statement.items():
            body = value.pop("body", []) if isinstance(value, dict) else []
            lines.append(f"{name}: {value}")
            assert isinstance(body, list)
            lines += [f"  {key}: {inner}" for one in body if isinstance(one, dict) for key, inner in one.items()]
    return lines


def mistakes(project: Path, text: str) -> list[str]:
    with pytest.raises(WavespecError) as raised:
        child(project, text)
    return [f"{one.where}: {one.code}" for one in raised.value.diagnostics]


def test_statement_is_replaced_by_name(project: Path) -> None:
    changed = child(project, "graph: {replace: {result: relu(k_loop.acc)}}\n")
    assert graph(changed)[-3:] == ["result: relu(k_loop.acc)", "write: result", "to: c"]
    assert graph(changed)[:-3] == graph(load(project / "base.wave.yaml"))[:-3]


def test_statements_are_put_before_and_behind_one_in_a_loop(project: Path) -> None:
    text = "graph: {after: {a_tile: [twice: a_tile * 2]}, before: {acc: [more: twice + 1]}}\n"
    assert [line.split(":")[0].strip() for line in graph(child(project, text))[2:7]] == [
        "a_tile", "twice", "b_tile", "more", "acc",
    ]  # fmt: skip


def test_removed_statement_may_be_replaced_by_several(project: Path) -> None:
    text = "graph: {remove: [result], after: {result: [half: k_loop.acc / 2, result: half + 1]}}\n"
    assert "half: k_loop.acc / 2" in graph(child(project, text))


def test_change_merges_fields_into_a_loop_and_keeps_its_edited_body(project: Path) -> None:
    text = "graph: {change: {k_loop: {end: 96}}, after: {b_tile: [twice: b_tile * 2]}}\n"
    lines = graph(child(project, text))
    assert "'end': 96" in lines[1] and lines[4] == "  twice: b_tile * 2"


def test_effect_is_called_by_its_word_and_tensor(project: Path) -> None:
    assert "write: k_loop.acc" in graph(child(project, "graph: {change: {write c: {write: k_loop.acc}}}\n"))


def test_constraints_are_called_by_their_word_and_dim(project: Path) -> None:
    spec = child(
        project,
        """\
constraints:
  change: {workgroup M: {axis: 1}}
  replace: {workgroup N: {workgroup: N, tile: 32, axis: 0}}
  after: {hardware: [assume: M % 8 == 0]}
  remove: [tiling K]
  before: {hardware: [{tiling: K, tile: 16}]}
""",
    )
    assert spec_to_data(spec)["constraints"] == [
        {"workgroup": "M", "tile": "BLOCK", "axis": 1},
        {"workgroup": "N", "tile": 32, "axis": 0},
        {"tiling": "K", "tile": 16},
        {"hardware": {"mma": "auto"}},
        {"assume": "M % 8 == 0"},
    ]


@pytest.mark.parametrize("name", ["case 1", '"M > 64, K % 8 == 0"', '"M > 64,  K % 8 == 0"'])
def test_cases_are_called_by_number_or_conditions(project: Path, name: str) -> None:
    spec = child(project, f"targets: {{cpu: {{cases: {{change: {{{name}: {{params: {{BLOCK: 384}}}}}}}}}}}}\n")
    assert [str(case.params["BLOCK"]) for case in spec.targets["cpu"].cases] == ["384", "48"]


def test_remove_in_a_mapping_leaves_out_and_what_is_written_comes_last(project: Path) -> None:
    spec = child(
        project,
        """\
dims: {remove: [K], L: {}}
tensors: {remove: [a, c], a: {shape: [M, L], dtype: f16}, c: {shape: [M, N], dtype: f32, role: output}, b: {shape: [N, L]}}
constraints: {replace: {tiling K: {tiling: L, tile: 32}}}
graph: {change: {k_loop: {iterate: L}}}
targets: {remove: [cpu, gfx942, gfx950]}
""",
    )
    assert (list(spec.dims), list(spec.tensors), spec.targets) == (["M", "N", "L"], ["b", "a", "c"], {})


def test_a_dim_may_be_called_remove(project: Path) -> None:
    assert "remove" in child(project, "dims: {K: {value: 8}, remove: {}}\ntensors: {b: {shape: [N, remove]}, a: {shape: [M, remove]}}\n"
                             "constraints: {replace: {tiling K: {tiling: remove, tile: 32}}}\n"
                             "graph: {change: {k_loop: {iterate: remove}}}\ntargets: {remove: [cpu, gfx942, gfx950]}\n"
                             ).dims  # fmt: skip


def test_target_is_like_another_also_where_that_is_changed_later(project: Path) -> None:
    base = load(project / "base.wave.yaml")
    assert base.targets["gfx950"] == base.targets["gfx942"]
    spec = child(project, "targets: {gfx942: {params: {BLOCK: 48}}, gfx950: {schedule: {stages: 2}}}\n")
    assert str(spec.targets["gfx950"].params["BLOCK"]) == "48"
    assert spec.targets["gfx950"].schedule and not spec.targets["gfx942"].schedule


def test_edits_of_what_like_brings_go_one_over_the_other(project: Path) -> None:
    change = "targets: {{gfx950: {{cases: {{change: {{case 1: {{params: {{BLOCK: {}}}}}}}}}}}}}\n"
    child(project, change.format(16), "middle")
    path = project / "last.wave.yaml"
    path.write_text(
        HEAD.replace("base", "middle").replace("child", "last")
        + "targets: {gfx950: {cases: {after: {case 1: [{when: [M > 1], params: {BLOCK: 80}}]}}}}\n"
    )
    spec = load(path)
    assert [str(case.params["BLOCK"]) for case in spec.targets["gfx950"].cases] == ["16", "80"]
    assert [str(case.params["BLOCK"]) for case in spec.targets["gfx942"].cases] == ["64"]


def test_edits_over_several_files_are_of_what_each_extends(project: Path) -> None:
    child(project, "graph: {after: {result: [more: result + 1]}, change: {write c: {write: more}}}\n", "middle")
    path = project / "last.wave.yaml"
    path.write_text(HEAD.replace("base", "middle").replace("child", "last") + "graph: {replace: {more: result + 2}}\n")
    assert "more: result + 2" in graph(load(path))


def test_kernel_equals_the_one_that_is_built(project: Path) -> None:
    k = KernelBuilder("child")
    m, n, depth = k.dim("M"), k.dim("N"), k.dim("K")
    a, b = k.input("a", [m, depth], "f16", space="shared"), k.input("b", [n, depth], "f16", space="shared")
    c = k.output("c", [m, n], "f32")
    block = k.param("BLOCK", 64)
    k.workgroup(m, block, axis=0)
    k.workgroup(n, block, axis=1)
    k.tiling(depth, 32)
    k.hardware("auto")
    zero = k.register("zero", [m, n], "f32", 0)
    with k.iterate("k_loop", depth, acc=zero) as loop:
        k.mma("acc", k.read("a_tile", a), k.read("b_tile", b), loop["acc"])
    k.write(loop["acc"], c)
    text = (
        "graph: {remove: [result], change: {write c: {write: k_loop.acc}}}\ntargets: {remove: [cpu, gfx942, gfx950]}\n"
    )
    assert child(project, text) == k.build()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("graph: {replace: {reslt: zero}}", "5:19: unknown-item"),
        ("graph: {remove: [result, result]}", "5:26: edited-twice"),
        ("graph: {remove: [result], replace: {result: zero}}", "5:37: edited-twice"),
        ("graph: {remove: [k_loop, acc]}", "5:26: edited-twice"),
        ("graph: {remove: [acc, k_loop]}", "5:23: edited-twice"),
        ("graph: {after: {acc: {x: zero}}}", "5:22: wrong-type"),
        ("graph: {replace: [acc]}", "5:18: wrong-type"),
        ("graph: {change: {result: {add: x}}}", "5:18: wrong-type"),
        ("graph: {remove: result}", "5:17: wrong-type"),
        ("graph: {remove: [3]}", "5:18: wrong-type"),
        ("tensors: {remove: [d]}", "5:20: unknown-key"),
        ("constraints: {remove: [wave M]}", "5:24: unknown-item"),
        ("targets: {cpu: {cases: {remove: [case 3]}}}", "5:34: unknown-item"),
        ("targets: {sm_90: {cases: {remove: [case 1]}}}", "5:26: nothing-to-edit"),
        ("targets: {gfx942: {like: gfx950}}", "5:26: like-cycle"),
        ("targets: {cpu: {like: sm_90}}", "5:23: nothing-to-edit"),
        ("targets: {cpu: {like: gfx94}}", "5:23: unknown-target"),
        ("targets: {cpu: {like: [gfx942]}}", "5:23: wrong-type"),
    ],
)
def test_mistake_is_shown_where_it_is_written(project: Path, text: str, expected: str) -> None:
    found = mistakes(project, text + "\n")
    assert f"{project}/child.wave.yaml:{expected}" in found


def test_mistake_of_the_extended_text_is_shown_there(project: Path) -> None:
    assert mistakes(project, "graph: {remove: [zero]}\n") == [f"{project}/base.wave.yaml:19:20: undefined-name"]


def test_name_of_two_loops_needs_that_of_the_loop(project: Path) -> None:
    loops = BASE.replace(
        "  - result", BASE[BASE.index("  - k_loop") : BASE.index("  - result")].replace("k_loop", "more") + "  - result"
    )
    (project / "base.wave.yaml").write_text(loops)
    with pytest.raises(WavespecError, match=r"Write 'k_loop\.a_tile' or 'more\.a_tile'"):
        child(project, "graph: {replace: {a_tile: {read: a}}}\n")
    assert child(project, "graph: {change: {more.a_tile: {read: a}}}\n")


def test_edit_without_a_base_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "alone.wave.yaml"
    path.write_text(BASE[: BASE.index("graph:")] + "graph: {remove: [x]}\n")
    with pytest.raises(WavespecError, match="nothing-to-edit"):
        load(path)


def test_template_of_a_family_edits_what_it_extends(project: Path) -> None:
    path = project / "family.wave.yaml"
    path.write_text(
        "apiVersion: wavespec/v1\nkind: Family\nname: fam\nparameters: {F: [relu, gelu]}\npick: {F: keyword(f)}\n"
        "template: |\n  extends: base.wave.yaml\n  graph: {replace: {result: {{ F }}(k_loop.acc)}}\n"
    )
    assert [graph(member.spec)[5] for member in load_family(path).members] == [
        "result: gelu(k_loop.acc)", "result: relu(k_loop.acc)",
    ]  # fmt: skip
    path.write_text(path.read_text().replace("{result:", "{ {{ F }}ed:"))
    with pytest.raises(WavespecError, match=r"family.wave.yaml:8:22: error\[unknown-item\]") as raised:
        load_family(path)
    assert "In the member F=gelu." in str(raised.value)

"""Families that extend kernels and families, and are extended; members of several element types, and without inputs
that others have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.schema.test_extending import BASE, graph
from wavespec.diagnostics import WavespecError
from wavespec.schema import KernelSpec, load, loads
from wavespec.schema.families.expand import Family
from wavespec.schema.families.load_family import is_family_file, load_family
from wavespec.schema.reading.spec_to_yaml import dump_yaml

HEAD = "apiVersion: wavespec/v1\nkind: Family\n"
SCALED = (
    HEAD
    + """\
extends: base.wave.yaml
name: scaled
doc: c is a multiple of a · b, and more.
parameters: {SCALE: [1, 2], BIAS: [plain, bias]}
when: [SCALE == 1 or BIAS == 'bias']
pick: {SCALE: keyword(scale=1)}
template: |
  params: {BLOCK: {{ 32 * SCALE }}}
  {% if BIAS == 'bias' %}
  tensors: {bias: {shape: [N], dtype: f32}}
  graph:
    before: {result: [bias_tile: {read: bias}]}
    replace: {result: k_loop.acc * {{ SCALE }} + bias_tile}
  {% endif %}
"""
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "base.wave.yaml").write_text(BASE)
    (tmp_path / "scaled.wave.yaml").write_text(SCALED)
    return tmp_path


def family(project: Path, text: str, name: str = "child") -> Family:
    path = project / f"{name}.wave.yaml"
    path.write_text(f"{HEAD}name: {name}\n{text}")
    return load_family(path)


def kernel(project: Path, text: str) -> KernelSpec:
    path = project / "one.wave.yaml"
    path.write_text(f"apiVersion: wavespec/v1\nkind: Kernel\nname: one\n{text}")
    return load(path)


def last(spec: KernelSpec) -> str:
    """The statement that makes the result."""
    return next(line for line in graph(spec) if line.startswith("result"))


def inputs(spec: KernelSpec) -> list[str]:
    return [name for name, tensor in spec.tensors.items() if tensor.role == "input"]


def test_members_go_over_the_kernel_that_the_family_extends(project: Path) -> None:
    members = load_family(project / "scaled.wave.yaml").members
    assert [one.name for one in members] == ["scaled_bias_1", "scaled_bias_2", "scaled_plain_1"]
    assert [str(one.spec.params["BLOCK"]) for one in members] == ["32", "64", "32"]
    assert [inputs(one.spec) for one in members] == [["a", "b", "bias"], ["a", "b", "bias"], ["a", "b"]]
    assert members[2].spec.targets == load(project / "base.wave.yaml").targets
    assert all(loads(one.text) == one.spec for one in members)


def test_family_has_what_the_one_says_that_it_extends(project: Path) -> None:
    found = family(project, "extends: scaled.wave.yaml\nparameters: {SCALE: [1], BIAS: [bias]}\n")
    assert found.spec.doc == "c is a multiple of a · b, and more."
    assert found.picks == load_family(project / "scaled.wave.yaml").picks
    assert [one.name for one in found.members] == ["child_bias_1"]
    assert last(found.members[0].spec) == "result: k_loop.acc * 1 + bias_tile"


def test_members_edit_those_of_the_same_values(project: Path) -> None:
    text = "extends: scaled.wave.yaml\nparameters: {SIGN: [plus, minus]}\npick: {SIGN: keyword(sign)}\ntemplate: |\n"
    text += "  {% if SIGN == 'minus' and BIAS == 'bias' %}\n"
    text += "  graph: {replace: {result: k_loop.acc * {{ SCALE }} - bias_tile}}\n  {% endif %}\n"
    found = family(project, text)
    assert len(found.members) == 6
    results = [last(found.member(f"SCALE=2,SIGN={sign}").spec) for sign in ("plus", "minus")]
    assert results == ["result: k_loop.acc * 2 + bias_tile", "result: k_loop.acc * 2 - bias_tile"]


def test_member_of_another_value_names_where_it_starts(project: Path) -> None:
    text = "extends: scaled.wave.yaml\nparameters: {SCALE: [1, 5]}\nwhen: []\ntemplate: |\n"
    found = family(
        project, text + "  {% if SCALE == 5 %}\n  member: {SCALE: 1}\n  params: {BLOCK: 96}\n  {% endif %}\n"
    )
    assert {one.label: str(one.spec.params["BLOCK"]) for one in found.members} == {
        "BIAS=bias,SCALE=1": "32",
        "BIAS=bias,SCALE=5": "96",
        "BIAS=plain,SCALE=1": "32",
        "BIAS=plain,SCALE=5": "96",
    }


def test_parameter_of_the_base_can_be_taken_away(project: Path) -> None:
    text = "extends: scaled.wave.yaml\nparameters: {remove: [BIAS]}\nwhen: [SCALE == 1 or SCALE == 2]\n"
    found = family(project, text + "template: |\n  member: {BIAS: bias}\n")
    assert [one.name for one in found.members] == ["child_1", "child_2"]
    assert all(inputs(one.spec) == ["a", "b", "bias"] for one in found.members)


def test_kernel_extends_the_member_that_it_names(project: Path) -> None:
    head = "extends: scaled.wave.yaml\nmember: {BIAS: bias, SCALE: 2}\n"
    edits = "tensors: {remove: [bias]}\ngraph: {remove: [bias_tile], replace: {result: k_loop.acc}}\n"
    spec = kernel(project, head + edits)
    assert spec.name == "one" and inputs(spec) == ["a", "b"] and last(spec) == "result: k_loop.acc"
    assert str(spec.params["BLOCK"]) == "64"


def test_values_that_tell_a_member_from_the_others_are_enough(project: Path) -> None:
    assert inputs(kernel(project, "extends: scaled.wave.yaml\nmember: {BIAS: plain}\n")) == ["a", "b"]


def test_mistake_in_a_member_is_shown_in_the_template_that_has_it(project: Path) -> None:
    (project / "scaled.wave.yaml").write_text(SCALED.replace("+ bias_tile", "+ bias_title"))
    with pytest.raises(WavespecError, match=r"scaled.wave.yaml:15:23: error.undefined-name.: 'bias_title'"):
        kernel(project, "extends: scaled.wave.yaml\nmember: {SCALE: 2}\n")


def test_families_that_extend_each_other_are_refused(project: Path) -> None:
    (project / "scaled.wave.yaml").write_text(SCALED.replace("base.wave.yaml", "child.wave.yaml"))
    with pytest.raises(WavespecError, match="extends-cycle"):
        family(project, "extends: scaled.wave.yaml\n")


def test_family_without_a_file_extends_nothing(project: Path) -> None:
    from wavespec.schema.families.load_family import loads_family

    with pytest.raises(WavespecError, match="unsafe-path"):
        loads_family(SCALED)


TYPED = """\
extends: scaled.wave.yaml
template: |
  dtypes: {T: [f16, bf16]}
  tensors: {a: {dtype: T}, b: {dtype: T}}
"""


def test_every_member_is_in_every_type(project: Path) -> None:
    found = family(project, TYPED)
    assert [one.name for one in found.members[:2]] == ["child_bias_1", "child_bias_1_bf16"]
    assert len(found.members) == 6 and len({one.name for one in found.members}) == 6
    assert found.member("SCALE=2,T=bf16").spec.tensors["a"].dtype == "bf16"
    assert found.member("child_bias_2").spec.tensors["b"].dtype == "f16"
    assert [(name, pick.what, pick.name) for name, pick in found.picks] == [
        ("SCALE", "keyword", "scale"),
        ("T", "dtype", "a"),
        ("T", "dtype", "b"),
    ]
    assert all(loads(one.text) == one.spec for one in found.members)


def test_types_of_an_extended_kernel_are_those_of_the_members(project: Path) -> None:
    typed = BASE.replace("dtype: f16", "dtype: T").replace("dims:", "dtypes: {T: [f16, bf16]}\ndims:", 1)
    (project / "base.wave.yaml").write_text(typed)
    assert len(load_family(project / "scaled.wave.yaml").members) == 6


def test_kernel_of_a_member_with_types_has_them(project: Path) -> None:
    family(project, TYPED)
    spec = kernel(project, "extends: child.wave.yaml\nmember: {SCALE: 2}\n")
    assert spec.tensors["a"].dtype == "f16" and is_family_file(project / "one.wave.yaml")
    assert [one.name for one in load_family(project / "one.wave.yaml").members] == ["one", "one_bf16"]
    only = kernel(project, "extends: child.wave.yaml\nmember: {SCALE: 2}\ndtypes: {T: [bf16]}\n")
    assert only.tensors["a"].dtype == "bf16"


def test_mistake_of_one_type_names_the_member(project: Path) -> None:
    text = TYPED + "  targets: {cpu: {params: {BLOCK: 96 // (bits(T) - 16)}}}\n"
    with pytest.raises(WavespecError, match=r"BIAS=bias,SCALE=1,T=f16|In all 6 members"):
        family(project, text)


def test_members_without_something_to_tell_them_by_are_ambiguous(project: Path) -> None:
    with pytest.raises(WavespecError, match=r"ambiguous-members.*SCALE"):
        family(project, "extends: scaled.wave.yaml\npick: {remove: [SCALE]}\n")


def test_whole_text_of_a_family_is_the_same_family(project: Path) -> None:
    found = family(project, TYPED)
    again = project / "again.wave.yaml"
    again.write_text(dump_yaml(found.spec))
    assert load_family(again) == found

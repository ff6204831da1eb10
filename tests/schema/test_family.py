"""Families: their members, whatever order the grid is written in; places in the template; YAML and Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schema.families import PRODUCT, SCORES
from tests.specs import FAMILIES
from wavespec.diagnostics import WavespecError
from wavespec.schema import load, loads
from wavespec.schema.families.expand import Family, expand, members_of_grid
from wavespec.schema.families.family_builder import FamilyBuilder
from wavespec.schema.families.load_family import family_spec, load_family, loads_family
from wavespec.schema.language.family import FamilySpec, member_label
from wavespec.schema.reading.spec_to_yaml import dump_yaml


@pytest.fixture(scope="module")
def product() -> Family:
    return loads_family(PRODUCT, "product.wave.yaml")


def test_members_are_the_grid_without_what_conditions_leave_out(product: Family) -> None:
    labels = ["DTYPE=bf16,LAYOUT=nt", "DTYPE=f16,LAYOUT=nn", "DTYPE=f16,LAYOUT=nt"]
    assert [member.label for member in product.members] == labels
    assert [member.name for member in product.members] == ["product_bf16_nt", "product_f16_nn", "product_f16_nt"]


def test_member_is_a_kernel_by_itself(product: Family) -> None:
    for member in product.members:
        assert loads(member.text) == member.spec
    nn = product.member("LAYOUT=nn").spec
    assert nn.tensors["b"].shape == ("K", "N") and nn.tensors["b"].dtype == "f16"
    assert [constraint.span is not None for constraint in nn.constraints] == [True] * 4


def test_member_is_found_by_what_tells_it_from_the_others(product: Family) -> None:
    assert product.member("LAYOUT=nt,DTYPE=f16").name == product.member("product_f16_nt").name == "product_f16_nt"
    for text in ("DTYPE=f16", "DTYPE=f32", "", "LAYOUT"):
        with pytest.raises(WavespecError, match="unknown-member"):
            product.member(text)


@given(st.permutations(["DTYPE", "LAYOUT"]), st.permutations(["f16", "bf16"]), st.permutations(["nt", "nn"]))
def test_members_do_not_depend_on_the_order_of_the_grid(
    names: list[str], dtypes: list[str], layouts: list[str]
) -> None:
    values = {"DTYPE": dtypes, "LAYOUT": layouts}
    grid = ", ".join(f"{name}: [{', '.join(values[name])}]" for name in names)
    text = PRODUCT.replace("DTYPE: [f16, bf16], LAYOUT: [nt, nn]", grid)
    assert loads_family(text).members == loads_family(PRODUCT).members


def test_places_of_members_are_in_the_template(product: Family) -> None:
    lines = PRODUCT.splitlines()
    spec = product.member("LAYOUT=nn").spec

    def written(*path: str | int) -> str:
        span = spec.span_of(*path)
        assert span is not None and span.file == "product.wave.yaml" and span.line == span.end_line
        return lines[span.line - 1][span.column - 1 : span.end_column - 1]

    assert written("dims", "K") == "{multiple_of: 8}"
    assert written("tensors", "a", "dtype") == "{{ DTYPE }}" and written("tensors", "b", "shape", 1) == "{{ B }}"
    assert written("constraints", 1, "tile") == "{{ 48 * loop.index }}"
    assert written("graph", 1, "dim") == "K" and written("workloads", 0, "N") == "30"
    assert written("name") == "product"


def test_a_made_up_text_has_no_parts(product: Family) -> None:
    span = product.member("LAYOUT=nn").spec.span_of("tensors", "b", "shape", 1)
    assert span is not None and span.part(1, 1) == span


def test_yaml_is_lossless() -> None:
    for text in (PRODUCT, SCORES, *(path.read_text() for path in FAMILIES)):
        spec, beside = family_spec(text), FAMILIES[0]
        assert family_spec(dump_yaml(spec)) == spec
        assert expand(family_spec(dump_yaml(spec)), beside).members == expand(spec, beside).members


@given(st.text(alphabet="ab: \n\t{%-#'\"|>", min_size=1).filter(str.strip), st.sampled_from(["on", "1e3", "064", "x"]))
def test_any_template_and_any_value_is_lossless(template: str, value: str) -> None:
    fields = {"apiVersion": "wavespec/v1", "kind": "Family", "name": "anything", "template": template}
    spec = FamilySpec.model_validate({**fields, "parameters": {"A": (value, 3)}, "when": ("A == ': #'",)})
    assert family_spec(dump_yaml(spec)) == spec


def test_python_gives_the_family_of_the_yaml() -> None:
    yaml = family_spec(PRODUCT)
    family = FamilyBuilder("product", doc=yaml.doc)
    family.parameter("DTYPE", "f16", "bf16", pick="dtype(a)")
    family.parameter("LAYOUT", "nt", "nn", pick="keyword(layout)")
    family.when("DTYPE == 'f16' or LAYOUT == 'nt'")
    family.template(yaml.template)
    assert family.build().spec == yaml
    assert family.build().members == expand(yaml).members


def test_mistakes_of_a_family_in_python_are_at_lines_of_its_template() -> None:
    family = FamilyBuilder("product")
    family.parameter("DTYPE", "f16", pick="dtype(a)")
    family.template("\n    dims: {M: {}}\n    tensors: {a: {shape: [M], dtype: {{ DTIPE }}}}\n")
    with pytest.raises(WavespecError, match=r"product\.template:2:37: error\[undefined-name\]"):
        family.build()
    family.parameter("DTYPE", "f 16")
    with pytest.raises(WavespecError, match=r"product\.parameters\.DTYPE.*: error\[bad-name\]"):
        family.build()


def test_template_may_extend_a_kernel(tmp_path: Path) -> None:
    plain = loads_family(PRODUCT).member("LAYOUT=nn")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "base.wave.yaml").write_text(plain.text)
    head = PRODUCT[: PRODUCT.index("template:")]
    template = "  extends: base.wave.yaml\n  doc: In {{ DTYPE }}.\n  dims: {K: {multiple_of: {{ 9 if LAYOUT == 'nn' else 8 }}}}\n"
    path = tmp_path / "more.wave.yaml"
    path.write_text(f"{head}template: |\n{template}".replace("DTYPE: dtype(a), ", "DTYPE: keyword(dtype), "))
    family = load_family(path)
    assert [member.spec.doc for member in family.members] == ["In bf16.", "In f16.", "In f16."]
    span = family.members[0].spec.span_of("graph")
    assert span is not None and span.file == str(tmp_path / "base.wave.yaml")
    path.write_text(path.read_text().replace("base.wave", "../base.wave"))
    with pytest.raises(WavespecError, match="unsafe-path"):
        load_family(path)


def test_a_family_is_no_kernel_and_a_kernel_no_family(tmp_path: Path, product: Family) -> None:
    path = tmp_path / "product.wave.yaml"
    path.write_text(PRODUCT)
    with pytest.raises(WavespecError, match=r":2:7: error\[family-as-kernel\]"):
        load(path)
    with pytest.raises(WavespecError, match=r":2:7: error\[unknown-value\]: 'kind' is 'Family', not 'Kernel'"):
        loads_family(product.members[0].text)


def test_grid_is_in_the_order_of_numbers() -> None:
    text = SCORES.replace("[64, 128], HALF: [0, 1]", "[128, 64, 96], HALF: [1]")
    assert [member_label(row) for row in members_of_grid(family_spec(text))] == [
        "HALF=1,HEAD=64",
        "HALF=1,HEAD=96",
        "HALF=1,HEAD=128",
    ]


def test_mistakes_of_the_order_of_a_grid_are_the_same(product: Family) -> None:
    wrong = PRODUCT.replace("{read: b}", "{read: {{ 'b' if DTYPE == 'f16' else 'e' }}}")
    texts: list[str] = []
    for text in (wrong, wrong.replace("[f16, bf16]", "[bf16, f16]").replace("[nt, nn]", "[nn, nt]")):
        with pytest.raises(WavespecError) as raised:
            loads_family(text)
        texts.append(str(raised.value))
    assert texts[0] == texts[1] and "In the member DTYPE=bf16,LAYOUT=nt." in texts[0]


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("[f16, bf16]", "[1.5]", "wrong-type", "Expected an integer, found the number 1.5."),
        ("[f16, bf16]", "[]", "out-of-range", "'DTYPE' is at least 1 entry long, not 0."),
        ("{{ DTYPE }}", "{{ [] | max }}", "failing-template", "No aggregated item, sequence was empty."),
        ("{{ DTYPE }}", "{{ " + " + ".join(["1"] * 4000) + " }}", "malformed-template", "it nests too deeply."),
    ],
)
def test_each_mistake_of_a_family_is_told_once_and_for_what_it_is(old: str, new: str, code: str, message: str) -> None:
    with pytest.raises(WavespecError) as raised:
        loads_family(ONE_TYPE.replace(old, new))
    told = [(one.code, one.message) for one in raised.value.diagnostics]
    assert [one for one, _ in told] == [code]
    assert told[0][1].endswith(message) and not told[0][1].endswith("..")


def test_a_template_of_no_text_is_told() -> None:
    with pytest.raises(WavespecError, match="Expected some text for 'template', found none"):
        loads_family(ONE_TYPE.partition("template:")[0] + "template: ''\n")


ONE_TYPE = """
apiVersion: wavespec/v1
kind: Family
name: copied
parameters: {DTYPE: [f16, bf16]}
pick: {DTYPE: dtype(x)}
template: |
  dims: {N: {}}
  tensors:
    x: {shape: [N], dtype: {{ DTYPE }}}
    y: {shape: [N], dtype: {{ DTYPE }}, role: output}
  graph:
    - part: {read: x}
    - {write: part, to: y}
"""

"""`dtypes`: a kernel for each element type, with the type in place of its name; mistakes once, at their places."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schema.typed import SCALED
from wavespec.diagnostics import Span, WavespecError
from wavespec.ir.dtype import DTYPES
from wavespec.schema import load, loads
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.families.expand import Family
from wavespec.schema.families.load_family import is_family_file, load_family, loads_family
from wavespec.schema.language.dtypes import ACCUMULATORS
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import EvaluationError
from wavespec.schema.load import load_tuned, load_untuned
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.reading.tuned import path_of_member
from wavespec.schema.reading.with_dtypes import data_with_dtypes, node_with_dtypes
from wavespec.schema.reading.yaml_source import MappingNode, ScalarNode, yaml_to_nodes
from wavespec.schema.symbols import bits

TYPES = {"T": "bf16", "S": "f32"}
TUNED = """\
apiVersion: wavespec/v1
kind: Tuned
kernel: scaled_bf16
targets:
  cpu:
    - {when: [N >= 4096], params: {COLUMNS: 512}, measured: {machine: x, timings: [{sizes: {M: 1, N: 4096}, tuned: 1.0}]}}
"""


@pytest.fixture(scope="module")
def scaled() -> Family:
    return loads_family(SCALED, "scaled.wave.yaml")


def replaced(text: str) -> tuple[str, Span]:
    """An expression with the types, and its span in a file."""
    root, _ = yaml_to_nodes(f"params: '{text}'", "x.yaml")
    assert isinstance(root, MappingNode)
    node = node_with_dtypes(root, TYPES).entries[0].value  # pyright: ignore[reportArgumentType]
    assert isinstance(node, ScalarNode)
    return str(node.value), node.span


def test_there_is_a_kernel_for_each_type_and_the_first_is_the_kernel(scaled: Family) -> None:
    assert [(member.label, member.name) for member in scaled.members] == [
        ("T=f32", "scaled"),
        ("T=bf16", "scaled_bf16"),
    ]
    assert scaled.plain is scaled.members[0] and scaled.members[0].spec == loads(SCALED)
    assert [pick for _, pick in scaled.picks] and [pick.name for _, pick in scaled.picks] == ["x", "weight"]


def test_the_type_is_where_its_name_was(scaled: Family) -> None:
    spec = scaled.member("T=bf16").spec
    assert {name: tensor.dtype for name, tensor in spec.tensors.items()} == {
        **dict.fromkeys(("x", "weight", "y", "most"), "bf16"),
        "bias": "f32",
    }
    assert str(spec.params["COLUMNS"]) == "256" and str(spec.targets["cpu"].cases[0].when[0]) == "N % 8 == 0"
    assert "result: bf16(f32(part) * f32(factor) + offset)" in dump_yaml(spec)
    assert "doc: y[M, N] = x[M, N] * weight[N], and" in dump_yaml(spec)
    for member in scaled.members:
        assert loads(member.text) == member.spec


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("N % (128 // bits(T)) == 0", "N % (8) == 0"),
        ("(128 // bits(T)) * 2 + N", "16 + N"),
        ("2 * (128 // (bits(T) + bits(S)))", "4"),
        ("max(bits(T), bits(S)) * N", "32 * N"),
        ("1 / bits(T)", "1 / 16"),
        ("N * mantissa(T) + mantissa(S) - bits(S)", "N * 7 + 23 - 32"),
        ("T(S(x) * T(y))", "bf16(f32(x) * bf16(y))"),
        ("where(T(x) > 0, x, bits(T))", "where(bf16(x) > 0, x, 16)"),
        ("T + size(T) + rows.T(x) + TT(x) + start(N)", "T + size(T) + rows.T(x) + TT(x) + start(N)"),
    ],
)
def test_conversions_and_bits_are_replaced_and_nothing_else(text: str, expected: str) -> None:
    assert replaced(text)[0] == expected
    assert str(data_with_dtypes({"params": text}, TYPES)) == str({"params": expected})  # pyright: ignore


def test_places_behind_what_is_replaced_are_where_they_were_written() -> None:
    text = "T(S(x) * bits(T) + wrong)"
    made, span = replaced(text)
    for part in ("x", "wrong", " + "):
        found = span.part(made.index(part), len(part))
        assert (found.column, found.end_column) == (10 + text.index(part), 10 + text.index(part) + len(part))
    of_bits = span.part(made.rindex("16"), 2)
    assert (of_bits.column, of_bits.end_column) == (
        10 + text.index("bits"),
        10 + text.index("bits(T)") + len("bits(T)"),
    )


NUMBERS = st.recursive(
    st.integers(0, 9).map(str) | st.sampled_from(["bits(T)", "bits(S)", "N"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/%"), inner).map(lambda one: f"({one[0]} {one[1]} {one[2]})"),
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//"]), inner).map(" ".join),
        inner.map(lambda one: f"-({one})"),
        st.tuples(inner, inner).map(lambda one: f"max({one[0]}, {one[1]})"),
    ),
    max_leaves=8,
)


@given(NUMBERS, st.integers(0, 50))
def test_expressions_keep_their_value(text: str, n: int) -> None:
    """What is computed with `bits` is what the whole expression has in it."""

    def value(written: str) -> int | str:
        try:
            return int(parse_expression(written).evaluate({"N": n}))
        except EvaluationError:
            return "none"

    plain = text.replace("bits(T)", "16").replace("bits(S)", "32")
    assert value(replaced(text)[0]) == value(plain)


def test_accumulator_is_that_of_products() -> None:
    for name, dtype in ACCUMULATORS.items():
        assert DTYPES[name].summed_in == dtype
    text = SCALED.replace("[f32, bf16]", "[f64, f16]")
    assert [one.spec.tensors["bias"].dtype for one in loads_family(text).members] == ["f64", "f32"]


def test_several_names_make_all_combinations() -> None:
    text = SCALED.replace("  S:", "  W: [f32, f16]\n  S:").replace(
        "weight: {shape: [N], dtype: T", "weight: {shape: [N], dtype: W"
    )
    family = loads_family(text)
    names = ["scaled", "scaled_f32_f16", "scaled_bf16_f32", "scaled_bf16_f16"]
    assert [member.name for member in family.members] == names
    assert family.member("T=bf16,W=f16").spec.tensors["weight"].dtype == "f16"


def test_a_name_with_the_types_in_it_has_those_of_every_kernel(tmp_path: Path) -> None:
    family = loads_family(SCALED.replace("name: scaled", "name: scaled_T_rows"))
    assert [member.name for member in family.members] == ["scaled_f32_rows", "scaled_bf16_rows"]
    assert family.spec.name == "scaled_rows" and family.plain is family.members[0]
    pairs = SCALED.replace("name: scaled", "name: scaled_W_U").replace("  S:", "  W: [f32, f16]\n  S:")
    pairs = pairs.replace("weight: {shape: [N], dtype: T", "weight: {shape: [N], dtype: W")
    names = ["scaled_f32_U", "scaled_f16_U", "scaled_f32_U_bf16", "scaled_f16_U_bf16"]
    assert [member.name for member in loads_family(pairs).members] == names
    path = tmp_path / "scaled.wave.yaml"
    path.write_text(SCALED.replace("name: scaled", "name: scaled_T"))
    settings = path_of_member(path, "scaled", "scaled_bf16").with_name("scaled_bf16.tuned.yaml")
    settings.write_text(TUNED)
    assert load_tuned(settings)[0].name == "scaled_bf16"
    assert [len(member.spec.targets["cpu"].cases) for member in load_family(path).members] == [1, 2]


def test_python_makes_the_kernels_of_the_yaml() -> None:
    k = KernelBuilder("copied", doc="b = a + 1")
    t, s = k.dtype("T", "f32", "bf16"), k.dtype("S", "accumulator(T)")
    m, n = k.dim("M", fold="leading"), k.dim("N")
    block = k.param("BLOCK", 4096 // bits(t))
    a, b = k.input("a", [m, n], t), k.output("b", [m, n], t)
    k.workgroup(m, 4, axis=0)
    k.workgroup(n, block, axis=1)
    one = k.register("one", [], s, 1)
    k.write(k.formula("y", f"T(S({k.read('x', a)}) + {one})"), b)
    text = """
apiVersion: wavespec/v1
kind: Kernel
name: copied
doc: b = a + 1
dtypes: {T: [f32, bf16], S: accumulator(T)}
dims: {M: {fold: leading}, N: {}}
params: {BLOCK: 4096 // bits(T)}
tensors: {a: {shape: [M, N], dtype: T}, b: {shape: [M, N], dtype: T, role: output}}
constraints: [{workgroup: M, tile: 4, axis: 0}, {workgroup: N, tile: BLOCK, axis: 1}]
graph:
  - one: {register: [], dtype: S, value: 1}
  - x: {read: a}
  - y: T(S(x) + one)
  - {write: y, to: b}
"""
    assert k.build() == loads(text)
    assert [member.spec for member in k.build_family().members] == [
        member.spec for member in loads_family(text).members
    ]
    k.dtype("S", "accumulator(U)")
    with pytest.raises(WavespecError, match=r"copied.dtypes.S: error\[undefined-name\]: 'U'"):
        k.build()
    with pytest.raises(WavespecError, match=r"plain.dtypes: error\[missing-field\]"):
        KernelBuilder("plain").build_family()


def test_mistake_of_every_type_is_said_once_and_without_them() -> None:
    with pytest.raises(WavespecError) as raised:
        loads_family(SCALED.replace("tile: COLUMNS", "tile: COLUMN"), "scaled.wave.yaml")
    (found,) = raised.value.diagnostics
    assert found.span and (found.span.line, found.span.column) == (18, 23) and found.notes == ()


def test_mistake_of_one_type_names_it() -> None:
    with pytest.raises(WavespecError) as raised:
        loads_family(
            SCALED.replace("[f32, bf16]", "[f32, f16, bf16]").replace("T(S(part)", "(S(part)"), "scaled.wave.yaml"
        )
    (found,) = raised.value.diagnostics
    assert found.code == "dtype-mismatch" and found.notes == ("With T=f16, and likewise with T=bf16.",)
    assert loads(SCALED.replace("T(S(part)", "(S(part)")).name == "scaled"  # it is none of the first types


def test_a_spec_that_extends_one_has_its_types(tmp_path: Path) -> None:
    (tmp_path / "base.wave.yaml").write_text(SCALED)
    child = tmp_path / "child.wave.yaml"
    child.write_text("apiVersion: wavespec/v1\nkind: Kernel\nextends: base.wave.yaml\nname: child\n")
    assert is_family_file(child) and [one.name for one in load_family(child).members] == ["child", "child_bf16"]
    assert load(child).name == "child"


def test_a_spec_may_extend_the_kernel_of_one_type(tmp_path: Path) -> None:
    (tmp_path / "base.wave.yaml").write_text(SCALED.replace("M: {fold: leading}", "M: {}"))
    child = tmp_path / "child.wave.yaml"
    head = "apiVersion: wavespec/v1\nkind: Kernel\nextends: base.wave.yaml\nname: child\n"
    child.write_text(head + "member: {T: bf16}\ntensors: {most: {strides: any}}\n")
    spec = load(child)
    assert not is_family_file(child) and spec.name == "child" and spec.tensors["most"].strides == "any"
    assert (spec.tensors["x"].dtype, spec.tensors["bias"].dtype, str(spec.params["COLUMNS"])) == ("bf16", "f32", "256")
    child.write_text(head + "member: {T: f16}\n")
    with pytest.raises(WavespecError, match=r"'T=f16' is no member of scaled.\n(.*\n)*.*T=f32; T=bf16"):
        load(child)


def test_settings_of_each_kernel_are_beside_the_spec(tmp_path: Path) -> None:
    path = tmp_path / "scaled.wave.yaml"
    path.write_text(SCALED)
    settings = path_of_member(path, "scaled", "scaled_bf16").with_name("scaled_bf16.tuned.yaml")
    settings.write_text(TUNED)
    first, second = (member.spec.targets["cpu"].cases for member in load_family(path).members)
    assert len(first) == 1 and len(second) == 2 and str(second[0].when[0]) == "N >= 4096"
    assert load_tuned(settings)[0].name == "scaled_bf16" and len(load(path).targets["cpu"].cases) == 1
    spec, tuned = load_untuned(path, "scaled_bf16", path_of_member(path, "scaled", "scaled_bf16"))
    assert spec.name == "scaled_bf16" and tuned is not None and tuned.kernel == "scaled_bf16"
    (tmp_path / "scaled_f16.tuned.yaml").write_text(TUNED)
    with pytest.raises(WavespecError, match="tuned-without-spec"):
        load_tuned(tmp_path / "scaled_f16.tuned.yaml")


def test_leading_dims_are_in_no_hash_where_there_are_none() -> None:
    """A field that a spec does not use changes nothing of what was built of it."""
    spec = loads(SCALED)
    assert spec.dims["M"].model_dump()["fold"] == "leading" and "fold" not in spec.dims["N"].model_dump()

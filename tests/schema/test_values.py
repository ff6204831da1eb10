"""`values`: what tensors are meant to hold is read, written, built in Python and edited; it changes no sum and no code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import SPECS
from wavespec.cli.specs import kernels_of
from wavespec.diagnostics import WavespecError
from wavespec.generate import spec_sha256
from wavespec.schema import KernelSpec, load, loads
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Num
from wavespec.schema.language.values import Values, bound_value, in_words
from wavespec.schema.reading.json_schema import json_schema
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.tune.declared_inputs import held_by_inputs
from wavespec.tune.held_numbers import Held
from wavespec.tune.integer_inputs import meanings

LOOK_UP = """\
apiVersion: wavespec/v1
kind: Kernel
name: look_up
dims: {T: {}, V: {}, D: {}}
params: {P: 3}
scalars: {limit: {dtype: f32, default: 1}, count: {dtype: i32, default: 2, min: 1}}
tensors:
  x: {shape: [V, D], dtype: f32, values: {min: -0.5, max: limit}}
  i: {shape: [T], dtype: i32, values: {min: P - 3, max: V - count}}
  y: {shape: [T, D], dtype: f32, role: output}
constraints: [{workgroup: T, tile: 8, axis: 0}, {workgroup: D, tile: 64, axis: 1}]
graph:
  - place: {read: i}
  - row: {read: x, dims: [T, D], at: {V: place}}
  - {write: "row", to: y}
"""


def look_up() -> KernelSpec:
    return loads(LOOK_UP.replace('write: "row"', "write: row") + "\n", "look_up.wave.yaml")


def test_a_spec_with_values_is_written_and_read_again() -> None:
    spec = look_up()
    assert loads(dump_yaml(spec), "again.wave.yaml") == spec
    assert "values: {min: -0.5, max: limit}" in dump_yaml(spec)


def test_bounds_are_numbers_of_a_call() -> None:
    held = held_by_inputs(look_up(), {"T": 4, "V": 9, "D": 8}, {"limit": 2.5, "count": 2})
    assert held == {"x": Held(-0.5, 2.5), "i": Held(0, 7)}


def test_a_bound_without_a_value_is_told() -> None:
    text = LOOK_UP.replace('write: "row"', "write: row").replace("max: V - count", "max: T // V")
    spec = loads(text, "look_up.wave.yaml")
    with pytest.raises(WavespecError, match="'T // V' has no value in this call: the divisor is 0"):
        held_by_inputs(spec, {"T": 4, "V": 0, "D": 8}, {"limit": 2.5, "count": 2})


def test_values_are_no_part_of_what_a_spec_means() -> None:
    plain = loads(LOOK_UP.replace('write: "row"', "write: row").replace(", values: {min: -0.5, max: limit}", ""), "x")
    with_scalar = look_up()
    assert plain.tensors["x"].values is None and with_scalar.tensors["x"].values is not None
    assert spec_sha256(plain) == spec_sha256(with_scalar)


def test_the_builder_takes_them_with_symbols() -> None:
    k = KernelBuilder("copied")
    m, v = k.dim("M"), k.dim("V", value=4)
    a = k.input("a", [m], "i32", values={"min": 0, "max": v - 1, "order": "sorted"})
    b = k.output("b", [m], "i32")
    k.workgroup(m, 64, axis=0)
    k.write(k.read("x", a), b)
    values = k.build().tensors["a"].values
    assert values == Values(min=Num(0), max=parse_expression("V - 1"), order="sorted")


def test_extending_specs_edit_them_like_other_fields(tmp_path: Path) -> None:
    (tmp_path / "base.wave.yaml").write_text(LOOK_UP.replace('write: "row"', "write: row"))

    def extended(tensors: str) -> KernelSpec:
        path = tmp_path / "own.wave.yaml"
        head = "apiVersion: wavespec/v1\nkind: Kernel\nextends: base.wave.yaml\nname: own\n"
        path.write_text(f"{head}tensors: {{{tensors}}}\n")
        return load(path)

    changed = extended("i: {values: {max: V - 1, order: sorted}}").tensors["i"].values
    assert changed == Values(min=parse_expression("P - 3"), max=parse_expression("V - 1"), order="sorted")
    assert extended("i: {values: {remove: [min]}}").tensors["i"].values == Values(max=parse_expression("V - count"))
    assert extended("i: {remove: [values]}").tensors["i"].values is None
    with pytest.raises(WavespecError) as raised:
        extended("i: {values: {max: W}}")
    assert "own.wave.yaml:5:29: error[undefined-name]: 'W' is not a dim" in str(raised.value)


@pytest.mark.parametrize(
    ("values", "shape", "expected"),
    [
        (Values(min=Num(0), max=parse_expression("V - 1")), ("T",), "numbers from 0 to V - 1"),
        (Values(min=Num(0.5)), (), "numbers of at least 0.5"),
        (Values(max=Num(2), order="sorted"), ("M", "N"), "numbers of at most 2, sorted along N"),
        (Values(order="sorted", along="M"), ("M", "N"), "numbers, sorted along M"),
        (Values(max=Num(2), order="distinct"), ("M", "N"), "numbers of at most 2, distinct along N"),
        (Values(order="permutation"), ("N",), "a permutation of the places along N"),
        (Values(positive_definite=("M", "N")), ("M", "N"), "symmetric positive definite over M and N"),
    ],
)
def test_words_of_docstrings(values: Values, shape: tuple[str, ...], expected: str) -> None:
    assert in_words(values, shape) == expected


def test_a_bound_is_one_number_or_computed_of_integers() -> None:
    assert bound_value(Num(0.25), {}) == 0.25
    assert bound_value(parse_expression("-0.25"), {}) == -0.25
    assert bound_value(parse_expression("scale"), {"scale": 0.5}) == 0.5
    assert bound_value(parse_expression("max(M, 3) * 2"), {"M": 1, "scale": 0.5}) == 6


def test_editors_are_told_of_numbers_with_a_point() -> None:
    bound = json_schema()["$defs"]["Values"]["properties"]["min"]
    assert {"type": "number"} in bound["anyOf"]


def test_declared_values_agree_with_what_graphs_use_integers_for() -> None:
    """Where both are there, so that neither a spec nor the guess is off."""
    compared = 0
    for path in sorted(SPECS.glob("*.wave.yaml")):
        for _, spec in kernels_of(path):
            sizes = {name: 16 + 4 * number for number, name in enumerate(spec.dims)}
            bare = {name: one.model_copy(update={"values": None}) for name, one in spec.tensors.items()}
            declared = held_by_inputs(spec, sizes)
            guessed = held_by_inputs(spec.model_copy(update={"tensors": bare}), sizes)
            for name in meanings(spec):
                if spec.tensors[name].values is not None:
                    axis = len(spec.tensors[name].shape) - 1 if guessed[name].order else -1
                    one = guessed[name]
                    assert declared[name] == Held(one.least, one.most, one.order, axis), f"{spec.name}: {name}"
                    compared += 1
    assert compared >= 14


def test_a_bound_that_divides_by_zero_is_told_whatever_the_sizes() -> None:
    text = """
apiVersion: wavespec/v1
kind: Kernel
name: copied
dims: {N: {}}
tensors: {x: {shape: [N], dtype: i32, values: {min: 0, max: N // 0}}, y: {shape: [N], dtype: i32, role: output}}
graph: [{part: {read: x}}, {write: part, to: y}]
"""
    with pytest.raises(WavespecError, match=r"6:\d+: error\[no-constant-value\]: 'N // 0' divides by 0"):
        loads(text)
    assert loads(text.replace("N // 0", "N // 2")).name == "copied"

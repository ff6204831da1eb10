"""Scalars of specs: their YAML, the calls that build them, and what a checked spec may do with them."""

from __future__ import annotations

import pytest

from tests.ops.scalars import CALLS, WINDOW
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import best_variant, lower
from wavespec.schema import loads
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.cases import cases_for_target
from wavespec.schema.reading.json_schema import json_schema
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.resolved import resolve
from wavespec.schema.symbols import maximum

_TEXT = """
apiVersion: wavespec/v1
kind: Kernel
name: shifted
dims: {M: {}, N: {}, L: {equals: "max(N - shift, 0)"}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, L], dtype: f32, role: output}
scalars:
  eps: {dtype: f32, default: 1e-6, min: 0, doc: What is added.}
  shift: {dtype: i32, default: 0, min: 0, max: 99}
  is_twice: {dtype: bool}
  scale: {dtype: f64, default: 1 / sqrt(N)}
constraints:
  - {workgroup: M, tile: 8, axis: 0}
  - {workgroup: L, tile: 64, axis: 1}
  - {assume: N > shift}
graph:
  - part: {read: x, dims: [M, L], at: {N: L + shift}}
  - result: "where(is_twice, part * 2, part) * f32(scale) + eps"
  - {write: result, to: y}
"""


def test_python_builds_what_yaml_says() -> None:
    k = KernelBuilder("shifted")
    m, n = k.dim("M"), k.dim("N")
    shift = k.scalar("shift", "i32", default=0, min=0, max=99)
    eps = k.scalar("eps", "f32", default=1e-6, min=0, doc="What is added.")
    k.scalar("is_twice", "bool")
    scale = k.scalar("scale", "f64", default="1 / sqrt(N)")
    rest = k.dim("L", equals=maximum(n - shift, 0))
    x, y = k.input("x", [m, n], "f32"), k.output("y", [m, rest], "f32")
    k.workgroup(m, 8, axis=0)
    k.workgroup(rest, 64, axis=1)
    k.assume(n > shift)
    part = k.read("part", x, dims=[m, rest], at={"N": rest + shift})
    k.write(k.formula("result", f"where(is_twice, {part} * 2, {part}) * f32({scale}) + {eps}"), y)
    assert k.build() == loads(_TEXT, "a.wave.yaml")


@pytest.mark.parametrize("text", [_TEXT, *{call.text for call in CALLS.values()}])
def test_yaml_of_a_spec_loads_back(text: str) -> None:
    spec = loads(text, "a.wave.yaml")
    assert loads(dump_yaml(spec), "a.wave.yaml") == spec


def test_editors_know_scalars() -> None:
    schema = json_schema()
    (named,) = schema["properties"]["scalars"]["patternProperties"].values()
    assert named == {"$ref": "#/$defs/Scalar"}
    assert set(schema["$defs"]["Scalar"]["properties"]) == {"dtype", "default", "min", "max", "doc"}


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("doc: What is added.}", "doc: What is added., step: 1}", "unknown-field"),
        ("{dtype: bool}", "{dtype: i8}", "unknown-value"),
        ("{dtype: bool}", "{}", "missing-field"),
        ("default: 1e-6", "default: [1]", "wrong-type"),
        ("default: 1e-6", "default: small", "undefined-name"),
        ("default: 1e-6", "default: 1 / cbrt(N)", "unknown-function"),
        ("default: 1e-6", "default: 1 / L", "bad-scalar"),
        ("default: 1e-6", "default: 1 / shift", "bad-scalar"),
        ("default: 1e-6", "default: N > 2", "bad-scalar"),
        ("default: 1e-6", "default: 1 / 3", "bad-scalar"),
        ("default: 0", "default: N", "bad-scalar"),
        ("x: {shape: [M, N], dtype: f32}", "x: {shape: [M, N], dtype: f32, values: {max: scale}}", "bad-values"),
        ("N: L + shift", "N: L // shift", "no-constant-value"),
        ("assume: N > shift", "assume: N > eps", "not-an-integer"),
        ("tile: 64, axis: 1", "tile: 64, axis: 1, order: index + shift", "undefined-name"),
        ("  is_twice: {", "  part: {", "redefined-name"),
    ],
)
def test_what_is_not_allowed_is_told_by_name(old: str, new: str, code: str) -> None:
    assert _TEXT.count(old) == 1
    with pytest.raises(WavespecError) as raised:
        loads(_TEXT.replace(old, new), "a.wave.yaml")
    assert code in {found.code for found in raised.value.diagnostics}


def test_an_index_is_divided_by_a_scalar_that_is_never_0() -> None:
    loads(WINDOW.replace("start + step * L", "start + L // step"), "a.wave.yaml")


@pytest.mark.parametrize(
    ("conditions", "limits"),
    [
        ("step >= 4", {"step": (4, 16)}),
        ("step > 4, 9 >= step", {"step": (5, 9)}),
        ("step == 3", {"step": (3, 3)}),
        ("large < -7", {"large": (-(2**63), -8)}),
        ("turned == 1", {"turned": (1, 1)}),
        ("start + step > 3, N > start", {"start": (0, 1000), "step": (1, 16)}),
    ],
)
def test_conditions_on_whole_scalars_are_limits_in_their_case(
    conditions: str, limits: dict[str, tuple[int, int]]
) -> None:
    spec = loads(WINDOW.replace("step == 1, turned == 0", conditions), "a.wave.yaml")
    case, every = cases_for_target(spec, "cpu")
    found, others = (resolve(one.spec, "cpu").scalars for one in (case, every))
    assert {name: found[name].limits for name in limits} == limits
    assert all(others[name].limits == one.limits for name, one in spec.scalars.items() if not one.is_float)
    symbols = {one.args[0]: (one.low, one.high) for one in lower(case.spec, best_variant("cpu")).symbols}
    assert {name: symbols.get(f"{name}.scalar", bounds) for name, bounds in limits.items()} == limits


@pytest.mark.parametrize("condition", ["step >= 17", "start < 0", "turned == 2", "step % 4 == 5"])
def test_conditions_that_no_scalar_meets_are_told(condition: str) -> None:
    with pytest.raises(WavespecError) as raised:
        loads(WINDOW.replace("step == 1, turned == 0", condition), "a.wave.yaml")
    assert [found.code for found in raised.value.diagnostics] == ["contradictory-case"]


def test_a_case_that_an_earlier_one_covers_is_told() -> None:
    with pytest.raises(WavespecError) as raised:
        loads(
            WINDOW.replace("{when: [step == 1, turned == 0]}", "{when: [step < 9]}, {when: [step < 5]}"), "a.wave.yaml"
        )
    assert [found.code for found in raised.value.diagnostics] == ["unreachable-case"]

"""Scalars whose defaults follow from the sizes of a call: what a call has that says nothing, in every way to call."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.runtime.generated import import_wrapper
from wavespec.generate import kernel_files
from wavespec.pipeline import emit
from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.checks import ArgumentError, ArgumentTypeError
from wavespec.runtime.kernel import Kernel
from wavespec.runtime.manifest import load_artifact, pack_artifact, unpack_artifact
from wavespec.runtime.number_expr import OPERATIONS, evaluate_number, number_from_json
from wavespec.runtime.scalar_arguments import ScalarArguments
from wavespec.runtime.scalars import ScalarParameter
from wavespec.schema import loads
from wavespec.schema.language.scalars import DEFAULT_FUNCTIONS, Scalar
from wavespec.sim.reference import reference
from wavespec.targets.machine import machines

TEXT = """
apiVersion: wavespec/v1
kind: Kernel
name: scaled_of_test
dims: {M: {}, N: {}, P: {value: 4}}
tensors:
  x: {shape: [M, N, P], dtype: f32}
  y: {shape: [M, N, P], dtype: f32, role: output}
scalars:
  scale: {dtype: f32, default: 1 / sqrt(N * P), min: -100, max: 100, doc: What rows are multiplied by.}
  more: {dtype: f32, default: 1}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {workgroup: P, tile: 4, axis: 2}
graph:
  - part: {read: x}
  - result: "part * scale * more"
  - {write: result, to: y}
"""


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("computed")
    for name, data in kernel_files(loads(TEXT, "a.wave.yaml"), ["cpu"], "specs/a.wave.yaml", command="c").items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    yield import_wrapper(folder / "scaled_of_test.py")


def _artifact(scaled: ModuleType) -> KernelArtifact:
    assert scaled.__file__ is not None
    return load_artifact(Path(scaled.__file__).with_name("scaled_of_test.artifacts") / "cpu.json")


@pytest.mark.compiles
def test_a_call_that_says_nothing_has_what_its_sizes_give(scaled: ModuleType) -> None:
    function, raw, kernel = scaled.scaled_of_test, scaled.scaled_of_test_raw, Kernel(_artifact(scaled))
    calls: list[dict[str, Any]] = [{}, {"scale": None}, {"scale": 0.3}, {"more": 2.0}, {"scale": -0.0, "more": 3.0}]
    for _ in range(2):  # in full, then as a call like an earlier one
        for size in (9, 16, 1):
            x = torch.ones(2, size, 4)
            for given in calls:
                scale = given.get("scale")
                factor = 1 / math.sqrt(size * 4) if scale is None else scale
                right = x * torch.tensor(factor) * given.get("more", 1.0)
                out = torch.empty_like(x)
                assert torch.equal(function(x, **given), right)
                assert function(x, **given, out=out) is out and torch.equal(out, right)
                raw(x, out.zero_(), **given)
                assert torch.equal(out, right)
                assert torch.equal(kernel(x, **given), right)
                assert torch.equal(reference(loads(TEXT, "a.wave.yaml"), x, compute=None, **given), right)


@pytest.mark.compiles
def test_what_sizes_give_no_number_is_refused_unless_it_is_passed(scaled: ModuleType) -> None:
    function, nothing = scaled.scaled_of_test, torch.ones(2, 0, 4)
    assert function(nothing, scale=1.0).shape == (2, 0, 4)
    for _ in range(2):
        with pytest.raises(ArgumentError, match=r"'scale' has no default for N = 0, P = 4; pass it"):
            function(nothing)
        with pytest.raises(ArgumentError, match=r"'scale' is 101\.0, expected at most 100"):
            function(torch.ones(2, 3, 4), scale=101.0)
        with pytest.raises(ArgumentTypeError, match="'more' is of type NoneType"):
            function(torch.ones(2, 3, 4), more=None)


@pytest.mark.compiles
def test_signatures_and_schemas_say_none(scaled: ModuleType) -> None:
    function, operator = scaled.scaled_of_test, scaled._scaled_of_test_op
    found = inspect.signature(function).parameters["scale"]
    assert found.default is None and found.annotation == "float | None"
    assert "scale: What rows are multiplied by; a number of f32, at least -100, at most 100; 1 / sqrt(N" in (
        " ".join(function.__doc__.split())
    )
    assert str(operator._schema).endswith("(Tensor x, float? scale=None, float more=1.) -> Tensor")
    x = torch.ones(2, 4, 4)
    for given in ((), (None,), (0.5,), (None, 2.0)):
        torch.library.opcheck(operator, (x, *given))
        torch.library.opcheck(scaled._scaled_of_test_out_op, (x, torch.empty_like(x), *given))


@pytest.mark.compiles
def test_graphs_are_compiled_whole(scaled: ModuleType) -> None:
    @torch.compile(fullgraph=True, backend="aot_eager")
    def function(x: torch.Tensor, scale: float | None) -> torch.Tensor:
        return scaled.scaled_of_test(x + 0, scale=scale)

    for size in (4, 25):
        x = torch.ones(2, size, 4)
        assert torch.equal(function(x, None), x * torch.tensor(1 / math.sqrt(size * 4)))
        assert torch.equal(function(x, 0.5), x * 0.5)


def test_artifacts_keep_defaults_that_are_computed() -> None:
    module = emit(loads(TEXT, "a.wave.yaml"), machines("sm_90")[0])
    artifact = replace(module.interface, binaries=(module.binary(),))
    assert artifact.scalars[0].computed == ("/", 1, ("sqrt", ("*", "N", "P")))
    assert artifact.scalars[1].computed is None
    assert unpack_artifact(pack_artifact(artifact)) == artifact


def test_scalars_without_such_a_default_take_no_none() -> None:
    arguments = ScalarArguments("k", [ScalarParameter("a", "f32", 1.0), ScalarParameter("b", "f64", computed="N")])
    assert arguments(1.0, None) == (1.0, None) and arguments.named({}) == (1.0, None)
    assert arguments.as_held((1.0, None), {"N": 7}) == (1.0, 7.0)
    assert arguments.words((1.0, None), {"N": 7}) == arguments.words((1.0, 7.0), {})
    with pytest.raises(ArgumentTypeError, match="'a' is of type NoneType"):
        arguments(None, None)


@pytest.mark.parametrize(
    ("default", "sizes", "right"),
    [
        ("-N // 2 + N % 3", {"N": 5}, -1),
        ("min(N, 3, M) * max(N, M) - 0.5", {"N": 5, "M": 2}, 9.5),
        ("exp2(log2(N)) + log(exp(0.25 * N)) / N", {"N": 8}, 8.25),
        ("1 / sqrt(max(D, 1))", {"D": 0}, 1.0),
    ],
)
def test_expressions_are_those_of_python(default: str, sizes: dict[str, int], right: float) -> None:
    computed = Scalar.model_validate({"dtype": "f32", "default": default}).computed
    assert computed is not None
    assert evaluate_number(computed, sizes) == right


def test_every_function_of_defaults_has_a_meaning() -> None:
    assert {*DEFAULT_FUNCTIONS} == {name for name in OPERATIONS if name.isalnum()}
    for name, counts in DEFAULT_FUNCTIONS.items():
        assert OPERATIONS[name][1:] == counts


@pytest.mark.parametrize(
    "value", [None, True, [], ["N"], ["pow", 1, 2], ["sqrt", 1, 2], ["/", 1], ["+", 1, ["sqrt", None]], {"+": 1}]
)
def test_manifests_have_no_other_expressions(value: object) -> None:
    with pytest.raises(ValueError, match="an expression of a number is"):
        number_from_json(value)

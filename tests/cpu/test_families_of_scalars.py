"""A family whose members take different numbers: its function, its operator, and calls that are refused."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.runtime.generated import import_wrapper
from wavespec.cache import CompileCache
from wavespec.generate import family_files, write_files
from wavespec.runtime import ArgumentError, ArgumentTypeError
from wavespec.schema.families.load_family import loads_family

PARTS = """\
apiVersion: wavespec/v1
kind: Family
name: parts
doc: "y[M, R] = f(x) + shift: x itself, factor · x, or every step-th column."
parameters: {HOW: [plain, scaled, every]}
pick: {HOW: keyword(how)}
template: |
  dims: {M: {}, N: {}, R: {equals: {{ '"ceildiv(N, step)"' if HOW == 'every' else 'N' }}}}
  tensors:
    x: {shape: [M, N], dtype: f32}
    y: {shape: [M, R], dtype: f32, role: output}
  scalars:
    shift: {dtype: f32, default: 0.5}
  {% if HOW == 'scaled' %}
    factor: {dtype: f32, max: 100}
    root: {dtype: f32, default: sqrt(N)}
  {% elif HOW == 'every' %}
    step: {dtype: i32, default: 2, min: 1}
  {% endif %}
  constraints:
    - {workgroup: M, tile: 4, axis: 0}
    - {workgroup: R, tile: 64, axis: 1}
  graph:
    - part: {read: x, dims: [M, R], at: {N: {{ 'R * step' if HOW == 'every' else 'R' }}}}
    - result: part {{ '* (factor / root)' if HOW == 'scaled' else '' }} + shift
    - {write: result, to: y}
"""
X = torch.arange(280.0).reshape(4, 70)


@pytest.fixture(scope="module")
def module(one_variant: None, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    folder, family = tmp_path_factory.mktemp("parts"), loads_family(PARTS, "parts.wave.yaml")
    files = family_files(
        family, ["cpu"], "specs/parts.wave.yaml", command="wavespec build", cache=CompileCache(folder / "cache")
    )
    write_files(files, folder)
    return import_wrapper(folder / "parts.py")


def expected(how: str, shift: float = 0.5, **numbers: Any) -> Tensor:
    if how == "scaled":
        return X * (numbers["factor"] / numbers.get("root", 70**0.5)) + shift
    return X[:, :: numbers.get("step", 2) if how == "every" else 1] + shift


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("plain", {}),
    ("plain", {"shift": -3.0}),
    ("scaled", {"factor": 7}),
    ("scaled", {"factor": 7.0, "root": 2.0, "shift": 1.0}),
    ("every", {}),
    ("every", {"step": 1}),
    ("every", {"step": 9, "shift": 2.0}),
]


@pytest.mark.parametrize(("how", "numbers"), CALLS)
def test_members_get_the_numbers_that_they_have(module: ModuleType, how: str, numbers: dict[str, Any]) -> None:
    right = expected(how, **numbers)
    for _ in range(3):  # in full, then as a call like an earlier one
        torch.testing.assert_close(module.parts(X, how=how, **numbers), right)
    y = torch.empty_like(right)
    assert module.parts(X, how=how, out=y, **numbers) is y
    torch.testing.assert_close(y, right)
    module.parts_raw(X, y.zero_(), how=how, **numbers)
    torch.testing.assert_close(y, right)


def test_what_a_member_lacks_is_none_in_the_signature_and_in_the_schema(module: ModuleType) -> None:
    signature = inspect.signature(module.parts)
    found = {name: (one.annotation, one.default) for name, one in signature.parameters.items() if name != "x"}
    assert list(found) == ["how", "shift", "step", "factor", "root", "out"]
    assert found["shift"] == ("float", 0.5)
    assert found["factor"] == found["root"] == ("float | None", None) and found["step"] == ("int | None", None)
    wanted = "(Tensor x, str how, float shift=0.5, SymInt? step=None, float? factor=None, float? root=None) -> Tensor"
    assert wanted in str(module._parts_op._schema)
    text = " ".join(str(module.parts.__doc__).split())
    assert "step: a whole number of i32, at least 1; 2 where it is None; None for kernels without it." in text
    assert "factor: a number of f32, at most 100; None for kernels without it." in text
    assert '"plain": x[M, N] -> y[M, R]' in text and '"scaled": x[M, N], factor, root -> y[M, R]' in text


@pytest.mark.parametrize(
    ("how", "numbers", "error", "message"),
    [
        ("plain", {"step": 2}, ArgumentTypeError, r"parts_plain: got 'step', but it has the scalars shift\."),
        ("every", {"root": 2.0}, ArgumentTypeError, r"parts_every: got 'root', but it has the scalars shift, step\."),
        ("scaled", {}, ArgumentTypeError, r"parts_scaled: argument 'factor' has no default; pass factor=\.\.\.\."),
        ("every", {"step": 0}, ArgumentError, r"parts_every: argument 'step' is 0, expected at least 1\."),
        ("every", {"step": 1.5}, ArgumentTypeError, r"parts_every: argument 'step' is of type float"),
        (
            "every",
            {"step": 2**70},
            ArgumentError,
            r"parts_every: argument 'step' is 1180.*, beyond the numbers of i32\.",
        ),
        (
            "scaled",
            {"factor": 101},
            ArgumentError,
            r"parts_scaled: argument 'factor' is 101\.0, expected at most 100\.",
        ),
    ],
)
@pytest.mark.parametrize("way", ["parts", "_parts_op", "parts_raw"])
def test_a_number_that_the_member_lacks_is_refused_by_name(
    module: ModuleType, way: str, how: str, numbers: dict[str, Any], error: type[Exception], message: str
) -> None:
    if way == "_parts_op" and numbers in ({"step": 1.5}, {"step": 2**70}):  # torch itself compares it with the schema
        error, message = RuntimeError, "step"
    with pytest.raises(error, match=message):
        getattr(module, way)(X, *([torch.empty(4, 70)] if way == "parts_raw" else []), how=how, **numbers)


@pytest.mark.parametrize("how", ["plain", "every"])
def test_none_in_place_of_the_only_tensor_is_refused_by_name(module: ModuleType, how: str) -> None:
    """torch's dispatcher, which passes None on beside a tensor, finds no kernel where there is none."""
    message = r"parts(_\w+)?: argument 'x' is of type NoneType, expected a torch\.Tensor\."
    for out in (None, torch.empty(4, 70)):
        with pytest.raises(ArgumentTypeError, match=message):
            module.parts(None, how=how, out=out)


@pytest.mark.parametrize(("how", "numbers"), [CALLS[1], CALLS[3], CALLS[4], CALLS[6]])
def test_operators_pass_opcheck(module: ModuleType, how: str, numbers: dict[str, Any]) -> None:
    torch.library.opcheck(module._parts_op, (X, how), numbers)


def test_a_compiled_graph_has_sizes_that_follow_from_numbers(module: ModuleType) -> None:
    def function(x: Tensor, step: int | None) -> Tensor:
        return module.parts(x, how="every", step=step) * 2

    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for step in (3, 5, 7, None):
        assert torch.equal(compiled(X, step), expected("every", step=2 if step is None else step) * 2)
    torch._dynamo.reset()
    refused = torch.compile(lambda x: module.parts(x, how="plain", step=3), fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match="got 'step', but it has the scalars shift"):
        refused(X)

"""Elementwise ops and casts in the language: their table, types, and the same thing from Python."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import yaml

from tests.ops.epilogues import epilogue
from wavespec.diagnostics import WavespecError
from wavespec.ops.elementwise import MEANINGS
from wavespec.schema import KernelSpec, loads
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.ops import FUNCTIONS, OPS, Binary, Choice, Elementwise, Range, Ternary, Unary
from wavespec.schema.reading.json_schema import json_schema
from wavespec.schema.reading.spec_to_yaml import dump_yaml

WORDS = [function.word for function in FUNCTIONS]
BIAS = "bias: {shape: [N], dtype: f32}"
OPERANDS = {1: "sums.acc", 2: "[sums.acc, bias_tile]", 3: "[sums.acc, bias_tile, 0]"}
CHOICE = "[positive, sums.acc, 0]"
WHOLE = {1: "whole", 2: "[whole, 3]"}


def everything() -> KernelSpec:
    statements = ["bias_tile: {read: bias}", "whole: {cast: sums.acc, dtype: i32}", "positive: {gt: [sums.acc, 0]}"]
    for number, row in enumerate(FUNCTIONS):
        operands = WHOLE if row.dtypes in ("integers", "bits") else OPERANDS
        statements.append(f"v{number}: {{{row.word}: {CHOICE if row.word == 'where' else operands[row.operands]}}}")
    return epilogue(*statements, "y: {mul: [0.5, sums.acc]}", tensors=BIAS)


def test_every_function_has_a_model_and_a_meaning() -> None:
    assert list(MEANINGS) == WORDS
    models = [OPS[word] for word in WORDS]
    assert all(issubclass(model, Elementwise) for model in models)
    for function, model in zip(FUNCTIONS, models, strict=True):
        plain = {1: Unary, 2: Binary, 3: Ternary}[function.operands]
        wanted = {"where": Choice, "clamp": Range}.get(function.word, plain)
        assert issubclass(model, wanted)
        assert model.__doc__ == function.doc


def test_every_function_survives_yaml_and_fits_the_json_schema() -> None:
    spec = everything()
    text = dump_yaml(spec)
    assert loads(text) == spec
    validator: Any = jsonschema.Draft202012Validator(json_schema())
    validator.validate(yaml.safe_load(text))


@pytest.mark.parametrize(("numbers", "dtype"), [("1, 0", "i32"), ("1.0, 0", "f32"), ("0, -.inf", "f32")])
def test_numbers_that_are_chosen_between_say_the_type(numbers: str, dtype: str) -> None:
    spec = epilogue("low: {lt: [sums.acc, 1]}", f"y: {{where: [low, {numbers}]}}", result=dtype)
    assert spec.tensors["c"].dtype == dtype


def test_python_equals_yaml() -> None:
    kernel = KernelBuilder("epilogue")
    m, n, k = kernel.dim("M"), kernel.dim("N"), kernel.dim("K")
    a, b = (kernel.input(name, [rows, k], "f16", space="shared") for name, rows in (("a", m), ("b", n)))
    bias, c = kernel.input("bias", [n], "f32"), kernel.output("c", [m, n], "f16")
    kernel.workgroup(m, 48, axis=0)
    kernel.workgroup(n, 64, axis=1)
    kernel.tiling(k, 16)
    kernel.wave(m, 48)
    kernel.wave(n, 64)
    kernel.hardware("auto")
    with kernel.iterate("sums", k, acc=kernel.register("zero", [m, n], "f32", 0)) as loop:
        kernel.mma("acc", kernel.read("a_tile", a), kernel.read("b_tile", b), loop["acc"])
    half = kernel.elementwise("mul", "half", loop["acc"], 0.5)
    biased = kernel.elementwise("add", "biased", half, kernel.read("bias_tile", bias))
    kernel.write(kernel.cast("y", kernel.elementwise("gelu", "active", biased), "f16"), c)
    statements = (
        "half: {mul: [sums.acc, 0.5]}",
        "bias_tile: {read: bias}",
        "biased: {add: [half, bias_tile]}",
        "active: {gelu: biased}",
        "y: {cast: active, dtype: f16}",
    )
    assert kernel.build() == epilogue(*statements, result="f16", operands="f16", tensors=BIAS)


@pytest.mark.parametrize(
    ("word", "operands", "code"),
    [("gel", 1, "unknown-op"), ("mma", 1, "unknown-op"), ("add", 3, "wrong-operand-count")],
)
def test_mistakes_in_python_are_told_in_words(word: str, operands: int, code: str) -> None:
    kernel = KernelBuilder("k")
    value = kernel.input("x", [kernel.dim("M")], "f32")
    with pytest.raises(WavespecError, match=rf"k\.graph\.y: error\[{code}\]"):
        kernel.elementwise(word, "y", *[value] * operands)


@pytest.mark.parametrize(
    ("statement", "dims"),
    [
        ("y: {add: [scale_tile, sums.acc]}", ("M", "N")),
        ("y: {add: [sums.acc, turned_tile]}", ("M", "N")),
        ("y: {sub: [turned_tile, bias_tile]}", ("N", "M")),
        ("y: {maximum: [1, bias_tile]}", ("N",)),
        ("y: {mul: [scale_tile, bias_tile]}", ("M", "N")),
        ("y: {mul: [bias_tile, scale_tile]}", ("N", "M")),
    ],
)
def test_the_result_has_the_dims_of_all_operands(statement: str, dims: tuple[str, ...]) -> None:
    tensors = """bias: {shape: [N], dtype: f32}
  scale: {shape: [M], dtype: f32}
  turned: {shape: [N, M], dtype: f32}"""
    reads = [f"{name}_tile: {{read: {name}}}" for name in ("bias", "scale", "turned")]
    if dims == ("M", "N"):
        epilogue(*reads, statement, tensors=tensors)
        return
    with pytest.raises(WavespecError) as caught:
        epilogue(*reads, statement, tensors=tensors)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == f"'y' has the dims [{', '.join(dims)}]; 'c' has [M, N]."


def test_whole_numbers_have_arithmetic_and_no_division() -> None:
    epilogue(
        "twice: {mul: [sums.acc, 2]}", "low: {maximum: [twice, -128]}", "y: {neg: low}", operands="i8", result="i32"
    )
    with pytest.raises(WavespecError, match=r"'div' takes floating point; 'sums\.acc' is i32"):
        epilogue("y: {div: [sums.acc, 2]}", operands="i8", result="i32")
    with pytest.raises(WavespecError, match="number-out-of-range"):
        epilogue("y: {mul: [sums.acc, 0.5]}", operands="i8", result="i32")


def test_comparisons_give_bool_which_is_written_converted_and_chosen_by() -> None:
    epilogue("y: {lt: [sums.acc, 1]}", result="bool")
    epilogue("low: {lt: [sums.acc, 1]}", "not_low: {logical_not: low}", "y: {where: [not_low, sums.acc, -.inf]}")
    epilogue("low: {lt: [sums.acc, 1]}", "y: {cast: low, dtype: i8}", result="i8")
    epilogue(
        "more_tile: {read: more}", "y: {where: [more_tile, 1, sums.acc]}", tensors="more: {shape: [N], dtype: bool}"
    )


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("y: {where: [sums.acc, 1, sums.acc]}", "The condition of 'where' is bool; 'sums.acc' is f32."),
        ("y: {where: [low, 2147483648, 0]}", "'2147483648' needs more than the numbers of i32."),
        ("y: {add: [low, sums.acc]}", "'add' takes numbers; 'low' is bool."),
        ("y: {sqrt: low}", "'sqrt' takes floating point; 'low' is bool."),
        ("y: {bitwise_and: [sums.acc, 1]}", "'bitwise_and' takes integers and bool; 'sums.acc' is f32."),
        ("y: {bitwise_left_shift: [low, 1]}", "'bitwise_left_shift' takes integers; 'low' is bool."),
    ],
)
def test_types_that_do_not_fit_are_named(statement: str, message: str) -> None:
    with pytest.raises(WavespecError) as caught:
        epilogue("low: {lt: [sums.acc, 1]}", statement)
    assert caught.value.diagnostics[0].message == message


@pytest.mark.parametrize("dtype", ["f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"])
def test_8_bit_floats_are_multiplied_into_f32_and_nothing_else(dtype: str) -> None:
    epilogue("y: {relu: sums.acc}", operands=dtype)
    with pytest.raises(WavespecError, match=f"'add' takes no floats of 8 bits or less; 'more_tile' is {dtype}"):
        epilogue(
            "more_tile: {read: more}", "y: {add: [more_tile, 1]}", tensors=f"more: {{shape: [M, N], dtype: {dtype}}}"
        )

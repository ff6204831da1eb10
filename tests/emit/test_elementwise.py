"""Epilogues as each backend spells them."""

from __future__ import annotations

import re

import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.ops.epilogues import PLACES, epilogue, every_function, words_for
from wavespec.generate import isa_text
from wavespec.pipeline import build_variant, emit
from wavespec.schema import KernelSpec
from wavespec.targets.machine import Machine


def linear(result: str = "bf16", function: str = "gelu") -> KernelSpec:
    statements = ("bias_tile: {read: bias}", "biased: {add: [sums.acc, bias_tile]}", f"active: {{{function}: biased}}")
    return epilogue(
        *statements,
        f"y: {{cast: active, dtype: {result}}}",
        result=result,
        operands="bf16",
        tensors="bias: {shape: [N], dtype: f32}",
        tile=(96, 64, 32),
        wave=(32, 32),
    )


def isa(spec: KernelSpec, machine: Machine) -> str:
    return isa_text(build_variant(spec, machine, intermediates=True)[1].dumped)[1]


@pytest.mark.compiles
@pytest.mark.parametrize(("result", "pairs"), [("bf16", "cvt.rn.bf16x2.f32"), ("f16", "cvt.rn.f16x2.f32")])
def test_pairs_are_converted_at_once_and_powers_are_one_instruction(result: str, pairs: str) -> None:
    text = isa(linear(result), NVIDIA)
    elements = 32 * 32 // 32
    assert (text.count(pairs), text.count("ex2.approx.ftz.f32")) == (elements // 2, elements)
    assert "__nv_" not in text and "max.NaN.f32" in text


def test_the_upper_half_of_a_pair_is_the_second_element() -> None:
    text = emit(linear(), NVIDIA).text
    match = re.search(
        r"(%\d+) = vector.extract (%\d+)\[1\].*\n\s+(%\d+) = vector.extract \2\[0\].*\n.*x2\"\((.*?)\)", text
    )
    assert match is not None and match[4] == f"{match[1]}, {match[3]}"


@pytest.mark.compiles
def test_a_power_is_one_instruction_without_care_for_small_numbers() -> None:
    text = isa(linear(), AMD)
    assert text.count("v_exp_f32") == 32 * 32 // 64 and "v_ldexp" not in text


def test_functions_work_on_whole_vector_registers() -> None:
    text = emit(linear(function="tanh"), CPU).text
    vectors = {int(size) for size in re.findall(r"arith\.divf .* : vector<(\d+)xf32>", text)}
    assert vectors == {CPU.vector_bytes // 4}
    assert "math.exp" not in text and "math.tanh" not in text


def test_unsigned_numbers_are_compared_and_converted_as_such() -> None:
    spec = epilogue(
        "more_tile: {read: more}",
        "small: {minimum: [more_tile, 200]}",
        "wide: {cast: small, dtype: f32}",
        "sum_f32: {add: [wide, sums.acc]}",
        "y: {cast: sum_f32, dtype: u8}",
        result="u8",
        tensors="more: {shape: [M, N], dtype: u8}",
    )
    text = emit(spec, CPU).text
    assert all(word in text for word in ("arith.minui", "arith.uitofp", "arith.fptoui"))


def test_small_floats_become_others_and_integers_by_way_of_f32() -> None:
    spec = epilogue(
        "half: {cast: sums.acc, dtype: f16}",
        "other: {cast: half, dtype: bf16}",
        "y: {cast: other, dtype: i32}",
        result="i32",
    )
    text = emit(spec, CPU).text
    steps = re.findall(r"arith\.(truncf|extf|fptosi) %\S+ : vector<16x(\w+)> to vector<16x(\w+)>", text)
    assert {
        ("extf", "f16", "f32"),
        ("truncf", "f32", "bf16"),
        ("fptosi", "f32", "i32"),
    } <= set(steps)
    assert not {("truncf", "f16", "bf16"), ("fptosi", "bf16", "i32")} & set(steps)
    assert re.search(r"arith.bitcast %\S+ : vector<16xbf16> to vector<16xi16>", text)  # widened by a shift


@pytest.mark.rare
@pytest.mark.compiles
@pytest.mark.parametrize("dtype", ["f32", "f64", "i64", "u8", "bool"])
def test_no_function_calls_a_library(dtype: str) -> None:
    words = words_for(dtype)
    for some in (words[::2], words[1::2]):  # a kernel has 64 tensors at most
        text = isa(every_function(some, dtype, tile=(32, 32, 32), wave=(32, 32), operands="bf16"), NVIDIA)
        assert "__nv_" not in text and "call" not in text


@pytest.mark.compiles
def test_what_is_written_in_f64_is_computed_in_f64() -> None:
    """IREE made f32 of it for AMD."""
    spec = epilogue(
        "wide: {cast: sums.acc, dtype: f64}",
        "y: {mul: [wide, wide]}",
        result="f64",
        operands="bf16",
        tile=(32, 32, 32),
        wave=(32, 32),
    )
    assert "v_mul_f64" in isa(spec, AMD)


def test_a_bool_is_a_byte_in_memory_and_a_bit_in_registers() -> None:
    text = emit(epilogue("low: {lt: [sums.acc, 1]}", "y: {logical_not: low}", result="bool"), CPU).text
    assert "memref<?xi1" not in text and re.search(r"store .* vector<\d+xi8>", text) and "xi1>" in text


@pytest.mark.compiles
def test_places_and_bits_call_no_library() -> None:
    text = isa(epilogue(*PLACES, tile=(64, 64, 32), wave=(32, 32), operands="bf16"), NVIDIA)
    assert "call" not in text

"""Codes of 8 bits and less are looked up: every code with every kind of scale, and which kernels do so."""

from __future__ import annotations

import pytest
import torch

from wavespec.pipeline import compile, emit
from wavespec.schema import KernelSpec, loads
from wavespec.targets.machine import machines

VARIANTS = {machine.variant: machine for machine in machines("cpu")}
BYTES = VARIANTS["x86_64_v3"].byte_table
CODES, WORDS = VARIANTS["x86_64_v4"].word_table, VARIANTS["x86_64_v4"].word_tables
SEVEN_BITS = VARIANTS["x86_64_amx"].byte_tables
SCALED = """\
apiVersion: wavespec/v1
kind: Kernel
name: decoded
dims: {M: {}, K: {multiple_of: 64}, G: {equals: "ceildiv(K, 32)"}}
tensors:
  x: {shape: [M, K], dtype: CODE}
  scale: {shape: [M, G], dtype: SCALE}
  y: {shape: [M, K], dtype: bf16, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
  - {workgroup: K, tile: 64, axis: 1}
  - {wave: M, tile: 1}
graph:
  - code: {read: x}
  - factor: {read: scale, dims: [M, K], at: {G: K // 32}}
  - result: RESULT
  - {write: result, to: y}
"""


def spec(code: str, scale: str = "f32", result: str = "bf16(f32(code) * f32(factor))") -> KernelSpec:
    return loads(SCALED.replace("CODE", code).replace("SCALE", scale).replace("RESULT", result), "decoded.wave.yaml")


@pytest.mark.parametrize(
    ("code", "variant", "word"),
    [
        ("i4", "x86_64_v4", CODES),
        ("f4e2m1fn", "x86_64_v4_bf16", CODES),
        ("i4", "x86_64_v3", BYTES),
        ("i8", "x86_64_v4", ""),
        ("i8", "x86_64_v3", ""),
    ],
)
def test_numbers_of_four_bits_are_words_of_a_table_where_the_machine_has_one(
    code: str, variant: str, word: str
) -> None:
    module = emit(spec(code), VARIANTS[variant]).text
    assert [one for one in (CODES, BYTES) if one in module] == ([word] if word else [])


def test_a_factor_for_each_element_makes_no_table() -> None:
    text = SCALED.replace("CODE", "i4").replace("shape: [M, G], dtype: SCALE", "shape: [M, K], dtype: f32")
    text = text.replace("{read: scale, dims: [M, K], at: {G: K // 32}}", "{read: scale}")
    text = text.replace("RESULT", "bf16(f32(code) * factor)")
    assert CODES not in emit(loads(text, "decoded.wave.yaml"), VARIANTS["x86_64_v4"]).text


@pytest.mark.compiles
def test_every_integer_of_four_bits_is_scaled_and_rounded_as_by_itself() -> None:
    pairs = torch.arange(256, dtype=torch.uint8).repeat(4)[None]  # 2048 codes, all pairs of them
    scale = torch.randn(1, 64)
    scale[0, :4] = torch.tensor([0.0, torch.inf, 2.0**-133, -1.5])
    got = compile(spec("i4"), target="cpu")(pairs.view(torch.int8) if False else pairs, scale)
    codes = torch.stack([pairs & 15, pairs >> 4], -1).flatten(-2).int()
    wanted = (((codes ^ 8) - 8).float() * scale.repeat_interleave(32, 1)).bfloat16()
    torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.compiles
@pytest.mark.parametrize("code", ["f8e4m3fn", "f8e5m2"])
def test_every_number_of_eight_bits_is_itself(code: str) -> None:
    one = spec(code, result="bf16(code)")
    assert WORDS in emit(one, VARIANTS["x86_64_v4"]).text
    every = torch.arange(256, dtype=torch.uint8)[None].view(getattr(torch, f"float8_{code[2:]}"))
    got = compile(one, target="cpu")(every, torch.ones(1, 8))
    torch.testing.assert_close(got, every.float().bfloat16(), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(got.signbit() | got.isnan(), every.float().signbit() | every.float().isnan())


@pytest.mark.compiles
@pytest.mark.parametrize("elements", [32, 64, 128])
def test_bytes_are_looked_up_in_registers_that_are_full_or_half(elements: int) -> None:
    text = SCALED.replace("CODE", "f8e4m3fn").replace("SCALE", "f32").replace("RESULT", "bf16(code)")
    one = loads(text.replace("tile: 64", f"tile: {elements}"), "decoded.wave.yaml")
    assert SEVEN_BITS in emit(one, VARIANTS["x86_64_amx"]).text
    every = torch.arange(256, dtype=torch.uint8)[None].view(torch.float8_e4m3fn)
    got = compile(one, target="cpu")(every, torch.ones(1, 8))
    torch.testing.assert_close(got, every.float().bfloat16(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.compiles
def test_every_scale_is_itself() -> None:
    one = spec("f8e4m3fn", "f8e8m0fnu", "bf16(f32(factor))")
    every = torch.arange(256, dtype=torch.uint8)[None].view(torch.float8_e8m0fnu)
    got = compile(one, target="cpu")(torch.zeros(1, 256 * 32).to(torch.float8_e4m3fn), every)
    wanted = every.float().bfloat16().repeat_interleave(32, 1)
    torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)

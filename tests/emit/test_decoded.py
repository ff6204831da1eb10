"""Pairs of four bits are decoded by their bits: every code of every type, as the written instructions compute it."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from wavespec.emit.decoded import CODES, byte_of, decoded_pair
from wavespec.emit.mlir_text import MlirText
from wavespec.ir.dtype import DTYPES

_WORDS = {"muli": np.multiply, "andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor}
NUMBERS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


def computed(text: MlirText, byte: int, result: str, number: type) -> list[float]:
    """What the written lines make of a byte."""
    known: dict[str, np.ndarray] = {"%byte": np.array(byte, np.uint32), "%codes": np.array(CODES, np.uint32)}
    for line in text.lines():
        name, _, written = line.strip().partition(" = ")
        verb, *operands = re.findall(r"[\w.]+|%\w+", written.split(" loc")[0].partition(" : ")[0])
        names = [f"%{one}" if f"%{one}" in known else one for one in operands]
        if verb == "arith.constant":
            value = written.removeprefix("arith.constant ").partition(" : ")[0].removeprefix("dense<").removesuffix(">")
            wide = "vector" in written
            known[name] = np.array([float(value)] * 2, number) if wide else np.array(int(value) % 2**32, np.uint32)
        elif verb == "arith.extui":
            known[name] = known[names[0]]
        elif verb == "llvm.bitcast":
            known[name] = np.atleast_1d(known[names[0]]).view(number)
        elif verb in ("llvm.fsub", "llvm.fmul"):
            left, right = (known[one] for one in names)
            known[name] = left - right if verb == "llvm.fsub" else left * right
        else:
            known[name] = _WORDS[verb.removeprefix("arith.")](*(known[one] for one in names))
    return [float(one) for one in known[result]]


@pytest.mark.parametrize("after", ["bf16", "f16"])
@pytest.mark.parametrize("before", ["i4", "f4e2m1fn"])
def test_every_byte_is_its_two_numbers(before: str, after: str) -> None:
    text = MlirText()
    result = decoded_pair(text, "%byte", DTYPES[before], DTYPES[after], "%codes")
    small = ml_dtypes.int4 if before == "i4" else ml_dtypes.float4_e2m1fn
    for byte in range(256):
        codes = np.array([byte & 15, byte >> 4], np.uint8)
        wanted = ((codes.astype(np.int8) ^ 8) - 8) if before == "i4" else codes.view(small)
        assert computed(text, byte, result, NUMBERS[after]) == [float(one) for one in wanted], byte


def test_two_codes_share_a_byte() -> None:
    text = MlirText()
    byte_of(text, "%pair")
    assert sum("arith" in line and "constant" not in line for line in text.lines()) == 3

"""Pairs of four bits are decoded by their bits: every code of every type, as the written instructions compute it."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from wavespec.emit.decoded import CODES, byte_of, decoded_integers, decoded_pair, decoded_words, has_table
from wavespec.emit.mlir_text import MlirText
from wavespec.ir.dtype import DTYPES

_WORDS = {
    "muli": np.multiply,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "shli": np.left_shift,
    "shrui": np.right_shift,
}
NUMBERS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


def picked(low: int, high: int, places: int) -> int:
    """What `prmt` makes of three words."""
    found, there = 0, low | high << 32
    for number in range(4):
        place = places >> 4 * number & 15
        byte = there >> 8 * (place & 7) & 255
        found |= (byte if place < 8 else 255 * (byte >> 7)) << 8 * number
    return found


def computed(text: MlirText, byte: int, result: str, number: type) -> list[float]:
    """What the written lines make of a byte, or a word."""
    known: dict[str, np.ndarray] = {"%byte": np.array(byte, np.uint32), "%codes": np.array(CODES, np.uint32)}
    for line in text.lines():
        name, _, written = line.strip().partition(" = ")
        verb, *operands = re.findall(r"[\w.]+|%\w+", written.split(" loc")[0].partition(" : ")[0])
        names = [f"%{one}" if f"%{one}" in known else one for one in operands]
        if verb == "arith.constant":
            value = written.removeprefix("arith.constant ").partition(" : ")[0].removeprefix("dense<").removesuffix(">")
            wide = "vector" in written
            known[name] = np.array([float(value)] * 2, number) if wide else np.array(int(value) % 2**32, np.uint32)
        elif verb == "llvm.call_intrinsic":
            assert "llvm.nvvm.prmt" in written
            words = (int(known[one]) for one in re.findall(r"%\w+", written))
            known[name] = np.array(picked(*words), np.uint32)
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


@pytest.mark.parametrize("after", ["bf16", "f16"])
def test_a_word_is_its_eight_numbers(after: str) -> None:
    """Each code at each place, beside others of both signs."""
    before, text, kept = DTYPES["f4e2m1fn"], MlirText(), dict[int, str]()

    def register(number: int) -> str:
        return kept.setdefault(number, text.constant(number - (1 << 32 if number >> 31 else 0), "i32"))

    pairs = decoded_words(text, "%byte", before, DTYPES[after], register)
    words = [*(code * 0x11111111 for code in range(16)), 0x76543210, 0xFEDCBA98, 0x89ABCDEF, 0x10325476, 0xF0E1D2C3]
    for word in words:
        codes = np.array([word >> 4 * place & 15 for place in range(8)], np.uint8).view(ml_dtypes.float4_e2m1fn)
        found = [number for pair in pairs for number in computed(text, word, pair, NUMBERS[after])]
        assert found == [float(one) for one in codes], hex(word)
        assert np.signbit(found).tolist() == [bool(word >> 4 * place & 8) for place in range(8)], hex(word)


@pytest.mark.parametrize("after", ["bf16", "f16"])
def test_a_word_is_its_eight_whole_numbers_by_two_instructions_a_pair_and_a_subtraction(after: str) -> None:
    text, kept = MlirText(), {CODES: "%codes"}
    pairs = decoded_integers(text, "%byte", DTYPES["i4"], DTYPES[after], kept.__getitem__)
    for word in [*(code * 0x11111111 for code in range(16)), 0x76543210, 0xFEDCBA98, 0x89ABCDEF, 0xF0E1D2C3]:
        codes = np.array([word >> 4 * place & 15 for place in range(8)], np.int8)
        found = [number for pair in pairs for number in computed(text, word, pair, NUMBERS[after])]
        assert found == [float(one) for one in (codes ^ 8) - 8], hex(word)
    verbs = [line.split(" = ")[-1].split()[0] for line in text.lines()]
    counts = {verb: verbs.count(verb) for verb in ("arith.shrui", "llvm.call_intrinsic", "arith.andi", "llvm.fsub")}
    assert counts == {"arith.shrui": 1, "llvm.call_intrinsic": 4, "arith.andi": 4, "llvm.fsub": 4}


def test_numbers_with_a_sign_of_their_own_are_found_in_a_table() -> None:
    bf16 = DTYPES["bf16"]
    assert has_table(DTYPES["f4e2m1fn"], bf16) and not has_table(DTYPES["i4"], bf16)
    assert not has_table(DTYPES["f4e2m1fn"], DTYPES["f32"])


def test_two_codes_share_a_byte() -> None:
    text = MlirText()
    byte_of(text, "%pair")
    assert sum("arith" in line and "constant" not in line for line in text.lines()) == 3

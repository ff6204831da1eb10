"""What atomic operations are on NVIDIA's machines: one instruction each, seen by the whole device."""

from __future__ import annotations

import re

import pytest

from tests.ops.old_values import OldValues
from wavespec.pipeline import build


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("combine", "dtype", "instruction"),
    [
        ("add", "i32", "atom.relaxed.gpu.global.add.u32"),
        ("add", "f16", "atom.relaxed.gpu.global.add.noftz.f16"),
        ("add", "bf16", "atom.relaxed.gpu.global.add.noftz.bf16"),
        ("exchange", "f64", "atom.relaxed.gpu.global.exch.b64"),
        ("compare_and_swap", "i64", "atom.relaxed.gpu.global.cas.b64"),
        ("xor", "i32", "atom.relaxed.gpu.global.xor.b32"),
    ],
)
def test_old_values_come_from_one_instruction(combine: str, dtype: str, instruction: str) -> None:
    (binary,) = build(OldValues(combine, dtype).observed.spec, "sm_90").binaries
    found = set(re.findall(rb"\b(?:atom|red)\.[a-z0-9._]+", binary.data))
    assert found - {b"atom.relaxed.gpu.global.max.s32"} == {instruction.encode()}

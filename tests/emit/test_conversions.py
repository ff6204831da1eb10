"""Conversions between all element types compile for GPUs, and need no library."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD, NVIDIA
from tests.ops.conversions import conversions
from wavespec.pipeline import build_variant, emit, module_to_binaries
from wavespec.schema import loads


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", ["f64", "bf16", "i16", "bool"])
def test_conversions_are_instructions(dtype: str) -> None:
    (binary,), _ = module_to_binaries(emit(conversions(dtype), NVIDIA))
    assert "call" not in binary.data.decode()
    assert build_variant(conversions(dtype), AMD)[0].binaries


def test_both_halves_of_words_are_numbers_as_they_are() -> None:
    """A shift for the first and a mask for the second: taken out as an element, the second takes two instructions."""
    spec = loads(
        """apiVersion: wavespec/v1
kind: Kernel
name: widened
dims: {N: {multiple_of: 8}}
tensors: {x: {shape: [N], dtype: bf16}, y: {shape: [N], dtype: f32, role: output}}
constraints: [{workgroup: N, tile: 1024, axis: 0}, {wave: N, tile: 256}]
graph:
  - part: {read: x}
  - wide: f32(part)
  - {write: wide, to: y}
"""
    )
    given = emit(spec, NVIDIA).text
    assert "vector<4xbf16>" in given, "as many as a lane writes at once"
    assert "arith.extf" not in given
    assert "-65536 : i32" in given

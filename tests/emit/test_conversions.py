"""Conversions between all element types compile for GPUs, and need no library."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD, NVIDIA
from tests.ops.conversions import conversions
from wavespec.pipeline import build_variant, emit, module_to_binaries


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", ["f64", "bf16", "i16", "bool"])
def test_conversions_are_instructions(dtype: str) -> None:
    (binary,), _ = module_to_binaries(emit(conversions(dtype), NVIDIA))
    assert "call" not in binary.data.decode()
    assert build_variant(conversions(dtype), AMD)[0].binaries

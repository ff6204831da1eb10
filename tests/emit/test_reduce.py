"""Emission of reductions: lanes of GPUs exchange words, whatever the elements are."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD, NVIDIA
from tests.ops.rows import Rows
from tests.rungs import often
from wavespec.pipeline import build_variant, emit, module_to_binaries

TYPES = ["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8"]
EACH = [(word, dtype) for word in ("sum", "max") for dtype in TYPES]


@pytest.mark.compiles
@pytest.mark.parametrize(("word", "dtype"), often(EACH, [("sum", "f64"), ("sum", "i8"), ("max", "bf16")]))
def test_every_type_is_exchanged_by_registers(word: str, dtype: str) -> None:
    spec = Rows(word, dtype=dtype).spec
    (binary,), _ = module_to_binaries(emit(spec, NVIDIA))
    ptx = binary.data.decode()
    assert "shfl.sync.bfly.b32" in ptx and "call" not in ptx
    artifact, _ = build_variant(spec, AMD)
    assert artifact.binaries


@pytest.mark.compiles
def test_waves_along_a_row_meet_in_shared_memory() -> None:
    (binary,), _ = module_to_binaries(emit(Rows(tile=(2, 512), wave=(1, 128)).spec, NVIDIA))
    ptx = binary.data.decode()
    assert "bar.sync" in ptx or "barrier.sync" in ptx
    assert "st.shared" in ptx and "ld.shared" in ptx

"""Emission of reductions: lanes of GPUs exchange words, whatever the elements are."""

from __future__ import annotations

import pytest

from tests.kernels import subjects
from tests.lower.gemms import AMD, NVIDIA
from tests.ops.rows import Rows
from tests.rungs import often
from wavespec.pipeline import build_variant, emit, module_to_binaries
from wavespec.schema.cases import case_for_sizes

TYPES = ["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8"]
EACH = [(word, dtype) for word in ("sum", "max") for dtype in TYPES]


@pytest.mark.compiles
@pytest.mark.parametrize(("word", "dtype"), often(EACH, [("sum", "f64"), ("sum", "i8"), ("max", "bf16")]))
def test_every_type_is_exchanged_by_registers(word: str, dtype: str) -> None:
    spec = Rows(word, dtype=dtype).spec
    (binary,), _ = module_to_binaries(emit(spec, NVIDIA))
    ptx = binary.data.decode()
    assert ("shfl.sync.bfly.b32" in ptx or "redux.sync." in ptx) and "call" not in ptx
    artifact, _ = build_variant(spec, AMD)
    assert artifact.binaries


@pytest.mark.compiles
def test_waves_along_a_row_meet_in_shared_memory() -> None:
    (binary,), _ = module_to_binaries(emit(Rows(tile=(2, 512), wave=(1, 128)).spec, NVIDIA))
    ptx = binary.data.decode()
    assert "bar.sync" in ptx or "barrier.sync" in ptx
    assert "st.shared" in ptx and "ld.shared" in ptx


@pytest.mark.parametrize(("name", "dtype"), [("softmax_bf16", "bf16"), ("softmax_f16", "f16")])
def test_largest_elements_of_16_bits_are_found_in_words(name: str, dtype: str) -> None:
    """Two at a time, as exactly as in f32, in which lanes exchange them; one machine has no such instruction."""
    subject = next(one for one in subjects("sm_90") if one.name == name)
    pairs = f": (vector<2x{dtype}>, vector<2x{dtype}>) -> vector<2x{dtype}>"
    for machine, has_words in ((NVIDIA, True), (AMD, False)):
        case = case_for_sizes(subject.cases(machine.target), {"M": 64, "N": 4096})
        extremes = [line for line in emit(case.spec, machine).text.splitlines() if "llvm.intr.maximum" in line]
        assert any(pairs in line for line in extremes) == has_words
        assert any(": (f32, f32) -> f32" in line for line in extremes)

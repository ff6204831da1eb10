"""Elements at places that values say: what loads them on CPUs."""

from __future__ import annotations

from functools import cache

import pytest

from wavespec.pipeline import emit
from wavespec.schema import loads
from wavespec.targets.machine import machines

GATHER = "llvm.intr.masked.gather"
SPEC = """
apiVersion: wavespec/v1
kind: Kernel
name: taken
dims: {R: {}, C: {}, N: {}}
tensors:
  x: {shape: [R, C], dtype: f32}
  places: {shape: [N], dtype: i32}
  y: {shape: [R, N], dtype: f32, role: output}
graph:
  - place: {read: places}
  - taken: {read: x, dims: [R, N], at: {C: place}}
  - {write: taken, to: y}
"""


@cache
def text(variant: str, dtype: str) -> str:
    (machine,) = machines(f"cpu:{variant}")
    return emit(loads(SPEC.replace("f32", dtype)), machine).text


@pytest.mark.parametrize(
    ("variant", "dtype", "gathers"),
    [
        ("x86_64_amx", "f32", True),
        ("x86_64_amx", "bf16", False),
        ("x86_64_v4_bf16", "f32", False),
        ("x86_64_v3", "f32", False),
    ],
)
def test_words_are_gathered_where_that_is_fast(variant: str, dtype: str, gathers: bool) -> None:
    assert (GATHER in text(variant, dtype)) == gathers


def test_a_gather_leaves_out_what_is_outside() -> None:
    """No address is chosen for it: what is not loaded is zero."""
    lines = text("x86_64_amx", "f32").splitlines()
    assert any("llvm.getelementptr" in line and "x!llvm.ptr>" in line for line in lines)
    assert not any("arith.select" in line and "xi64>" in line for line in lines)

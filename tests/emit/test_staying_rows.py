"""Rows of 16 bits in workgroups that stay: weights that wait narrow, clusters that meet once, quotients by reciprocals."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD, NVIDIA
from wavespec.pipeline import emit
from wavespec.schema import loads
from wavespec.targets.machine import Machine

SPEC = """\
apiVersion: wavespec/v1
kind: Kernel
name: rows
dims: {M: {}, N: {multiple_of: 8, max: MOST}}
tensors:
  x: {shape: [M, N], dtype: bf16}
  weight: {shape: [N], dtype: bf16}
  y: {shape: [M, N], dtype: bf16, role: output}
constraints:
  - {workgroup: M, tile: 1, axis: 0}
  - {tiling: N, tile: 1024}
  - {wave: N, tile: 256}
graph:
  - none: {register: [M], dtype: f32, value: 0}
  - rows:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - wide: f32(part)
        - total: {sum: wide, dim: N, init: total}
  - results:
      iterate: N
      carry: {}
      body:
        - again: {read: x}
        - factor: {read: weight}
        - result: RESULT
        - {write: result, to: y}
schedule: {workgroups: {SCHEDULE}}
"""
SCALED, SHARE = "bf16(f32(again) * rows.total * f32(factor))", "bf16(f32(again) / rows.total)"
HIDDEN = '"", "=r,0"'


def text(result: str, schedule: str, machine: Machine = NVIDIA) -> str:
    most = 2048 if "split" in schedule else 1024
    spec = SPEC.replace("RESULT", result).replace("SCHEDULE", schedule).replace("MOST", str(most))
    return emit(loads(spec, "rows.wave.yaml"), machine).text


def test_weights_that_wait_are_hidden_a_word_at_a_time() -> None:
    """A lane has 8 weights, of which two are a word."""
    assert text(SCALED, "persistent: true").count(HIDDEN) == 4
    assert HIDDEN not in text(SCALED, "resident: 1")


def test_where_nothing_hides_them_they_are_themselves() -> None:
    assert HIDDEN not in text(SCALED, "persistent: true, count: 8", AMD)


@pytest.mark.parametrize(("schedule", "is_ahead"), [("split: 2, persistent: true", True), ("split: 2", False)])
def test_clusters_that_stay_meet_once_before_they_load(schedule: str, is_ahead: bool) -> None:
    """Others meet where the first of them sends something, which would be in every round."""
    before, _, after = text(SCALED, schedule).partition("nvvm.cluster.wait")
    assert "nvvm.cluster.wait" not in after and "st.async" in after
    assert ("memref.load" not in before and "llvm.load" not in before and "vector.load" not in before) is is_ahead


def test_quotients_that_16_bits_hide_are_products() -> None:
    """The correction, which makes them those of a division, is for those that somebody sees in f32."""
    seen = "bf16(f32(again) / rows.total - rows.total)"
    assert "math.fma" not in text(SHARE, "resident: 1")
    assert "math.fma" in text(seen, "resident: 1")

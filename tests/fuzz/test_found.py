"""Texts that searches found, cut down: each ended in an internal error, and builds, or is refused by name, since."""

from __future__ import annotations

import pytest

from tests.fuzz.graph import RandomSpec
from tests.fuzz.judge import judge
from tests.fuzz.lowered import judge_text

ROWS_OF_ONE = """
extends: linear_i4.wave.yaml
tensors: {scale: {shape: [G, N]}}
"""
COPIED_FLAGS = """
extends: linear_i4.wave.yaml
dims: {K: {multiple_of: 1}}
tensors: {w: {dtype: bool}}
"""
MASKED_BY_A_VALUE = """
extends: attention.wave.yaml
tensors: {count: {shape: [], dtype: i32}}
graph:
  after: {q_tile: [{valid: {read: count}}]}
  change: {v_tile: {at: {N: "N + max(N + 1 - valid, 0) * size(N)"}}}
schedule: {stages: 2}
"""


@pytest.mark.parametrize("text", [ROWS_OF_ONE, COPIED_FLAGS, MASKED_BY_A_VALUE])
def test_texts_that_were_internal_errors(text: str) -> None:
    assert judge_text(f"apiVersion: wavespec/v1\nkind: Kernel\n{text}") in {"builds", "refused"}


def test_a_sine_of_a_scan_errs_as_the_scan_does() -> None:
    """Sums of 150 numbers are about 16, of which the last bit is 16 times that of a sine."""
    text = """apiVersion: wavespec/v1
kind: Kernel
name: random
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 8, axis: 0}
  - {wave: M, tile: 4}
  - {tiling: N, tile: 256}
graph:
  - zero: {register: [M], dtype: f32, value: 0}
  - rows:
      iterate: N
      carry: {before: zero}
      body:
        - x_tile: {read: x}
        - total: {cumsum: x_tile, dim: N, init: before}
        - before: {sum: x_tile, dim: N, init: before}
        - y_tile: {sin: total}
        - {write: y_tile, to: y}
"""
    assert judge(RandomSpec(text, False, ({"M": 7, "N": 150},)), cpu=False) == "right"

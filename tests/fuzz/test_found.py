"""Texts that searches found, cut down: each ended in an internal error, and builds, or is refused by name, since."""

from __future__ import annotations

import pytest

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

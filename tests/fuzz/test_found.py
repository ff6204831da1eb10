"""Texts that searches found, cut down: each ended in an internal error, and builds, or is refused by name, since."""

from __future__ import annotations

import pytest

from tests.fuzz.graph import RandomSpec
from tests.fuzz.judge import judge
from tests.fuzz.lowered import judge_text
from wavespec.pipeline import emit
from wavespec.schema import loads
from wavespec.targets.machine import Machine, variants

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


@pytest.mark.parametrize("machine", variants("cpu"), ids=lambda machine: machine.variant)
def test_code_for_every_cpu_of_a_product_whose_operands_lie_across_the_steps(machine: Machine) -> None:
    """One line of rows at most was announced line by line; blocks of 4 x 4 in 16 bits were turned as if they had 128."""
    text = """apiVersion: wavespec/v1
kind: Kernel
name: random
dims: {B: {}, M: {}, N: {}, K: {}}
tensors:
  a: {shape: [B, K, M], dtype: bf16, space: global}
  b: {shape: [B, K, N], dtype: bf16, space: global}
  c: {shape: [B, M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 1}
  - {workgroup: N, tile: 64, axis: 0}
  - {tiling: K, tile: 32}
  - {wave: M, tile: 32}
  - {wave: N, tile: 64}
  - {hardware: {mma: auto}}
  - {workgroup: B, tile: 1, axis: 2}
graph:
  - zero: {register: [B, M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
  - {write: k_loop.acc, to: c}
"""
    assert emit(loads(text, "random.wave.yaml"), machine).text


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

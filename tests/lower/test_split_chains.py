"""Sums that fill the registers are added up one after the other."""

from __future__ import annotations

import pytest

from tests.lower.gemms import CPU, NVIDIA, run
from tests.lower.ir_text import Text, lines
from wavespec.lower.split_chains import SplitChains
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads

_TEXT = """\
apiVersion: wavespec/v1
kind: Kernel
name: pair
dims: {M: {}, N: {max: 64}, K: {}}
tensors:
  a: {shape: [M, K], dtype: f32, space: shared}
  b: {shape: [N, K], dtype: f32, space: shared}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 48, axis: 0}
  - {tiling: N, tile: 64}
  - {tiling: K, tile: 16}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
  - {write: k_loop.acc, to: c}
"""


def pair() -> KernelSpec:
    return loads(_TEXT, "pair.wave.yaml")


CHAINS = Text("""
    thread kernel @k target cpu lanes 1
    symbol at_K in 0..63 by 1
    plan "auto" stages 1 group 0
    memory @a : f32 (M: [24], K: [64]) shared [M/1: 24 by 64, K/1: 64 by 1]
    memory @b : f32 (N: [32], K: [64]) shared [N/1: 32 by 64, K/1: 64 by 1]
""")
BOTH = """
    %zero = constant {value = 0.0} : f32x384
    %upper, %lower = for %zero, %zero {induction = "at_K", lower = [0], step = [1], unroll = 1, upper = [64]} : f32x384, f32x384 (%u : f32x384, %l : f32x384) do
      %b = load {memory = "b", offset = [at_K]} : f32x32
      %a = load {memory = "a", offset = [at_K]} : f32x12
      %a.1 = load {memory = "a", offset = [at_K + 768]} : f32x12
      %u.1 = mma %a, %b, %u {instruction = "fma_f32_12x32x1"} : f32x384
      %l.1 = mma %a.1, %b, %l {instruction = "fma_f32_12x32x1"} : f32x384
      yield %u.1, %l.1
    end
"""


def test_each_fragment_has_a_loop_of_its_own() -> None:
    assert CHAINS.after(SplitChains(), CPU, BOTH) == lines("""
        %zero = constant {value = 0.0} : f32x384
        %upper = for %zero {induction = "at_K", lower = [0], step = [1], unroll = 1, upper = [64]} : f32x384 (%u : f32x384) do
          %b.1 = load {memory = "b", offset = [at_K]} : f32x32
          %a.2 = load {memory = "a", offset = [at_K]} : f32x12
          %u.2 = mma %a.2, %b.1, %u {instruction = "fma_f32_12x32x1"} : f32x384
          yield %u.2
        end
        %lower = for %zero {induction = "at_K", lower = [0], step = [1], unroll = 1, upper = [64]} : f32x384 (%l : f32x384) do
          %b.2 = load {memory = "b", offset = [at_K]} : f32x32
          %a.3 = load {memory = "a", offset = [at_K + 768]} : f32x12
          %l.2 = mma %a.3, %b.2, %l {instruction = "fma_f32_12x32x1"} : f32x384
          yield %l.2
        end
    """)


@pytest.mark.parametrize(
    "body",
    [
        BOTH.replace("mma %a.1, %b, %l", "mma %a.1, %b, %u"),
        BOTH.replace("      yield", "      barrier\n      yield"),
        BOTH.replace("mma %a, %b, %u {", "pack %u {").replace("mma %a.1, %b, %l {", "pack %l {").replace('{instruction = "fma_f32_12x32x1"} ', ""),
    ],
    ids=["uses one sum for another", "does more than that", "multiplies nothing"],
)  # fmt: skip
def test_loop_stays_one_that(body: str) -> None:
    kernel = CHAINS.kernel(body)
    assert SplitChains()(kernel, CPU) is kernel


def test_machines_whose_registers_hold_all_sums_keep_their_loops() -> None:
    kernel = CHAINS.kernel(BOTH)
    assert SplitChains()(kernel, NVIDIA) is kernel


def test_results_are_exact() -> None:
    assert [len(op.operands) for op in lower(pair(), CPU, after="split-chains").walk() if op.name == "for"][-2:] == [
        1,
        1,
    ]
    report, expected = run(pair(), CPU, {"M": 13, "N": 40, "K": 35})
    assert report.findings == () and (report.tensors["c"] == expected).all()

"""Sums that the instruction of a product never leaves below the smallest normal number are rounded by an instruction."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.lower.ir_text import Text
from wavespec.emit.normal_sums import normal_sums
from wavespec.pipeline import compile, emit
from wavespec.schema import loads
from wavespec.targets.machine import machines

VARIANTS = {machine.variant: machine for machine in machines("cpu")}
ROUNDING = "llvm.x86.avx512bf16.cvtneps2bf16.512"
PRODUCT = """\
apiVersion: wavespec/v1
kind: Kernel
name: rounded
dims: {M: {}, N: {}, K: {max: MOST}}
tensors:
  a: {shape: [M, K], dtype: bf16, space: shared}
  b: {shape: [N, K], dtype: bf16, space: shared}
  c: {shape: [M, N], dtype: bf16, role: output}
constraints:
  - {workgroup: M, tile: 96, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 64}
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
  - result: bf16(SUMS)
  - {write: result, to: c}
"""

NESTED = Text("""
    thread kernel @k target cpu lanes 1
    symbol K in 0..4096 by 64
    symbol line in 0..4064 by 32
    symbol in_K in 0..30 by 2
    plan "auto" stages 1 group 0
    memory @x : bf16 (K: [K]) global input
    memory @y : f32 (K: [K]) global output
""")


def text(most: int, sums: str) -> str:
    return PRODUCT.replace("MOST", str(most)).replace("SUMS", sums)


@pytest.mark.parametrize(
    ("variant", "most", "sums", "is_rounded_by_it"),
    [
        ("x86_64_v4_bf16", 64, "k_loop.acc", True),
        ("x86_64_v4_bf16", 640, "k_loop.acc", False),  # blocks are added up in memory
        ("x86_64_v4_bf16", 64, "k_loop.acc + 1", False),
        ("x86_64_v4", 64, "k_loop.acc", False),
    ],
)
def test_only_results_of_the_product_are(variant: str, most: int, sums: str, is_rounded_by_it: bool) -> None:
    module = emit(loads(text(most, sums), "rounded.wave.yaml"), VARIANTS[variant]).text
    assert (ROUNDING in module) == is_rounded_by_it


@pytest.mark.parametrize("first", [0, 1])
def test_loops_inside_of_loops_carry_such_numbers_on_if_they_begin_as_such(first: int) -> None:
    kernel = NESTED.kernel(f"""
      %zero = constant {{value = {first}.0}} : f32x32
      %sums = for %zero {{induction = "line", lower = [0], step = [32], unroll = 1, upper = [K]}} : f32x32 (%one : f32x32) do
        %part = for %one {{induction = "in_K", lower = [0], step = [2], unroll = 1, upper = [32]}} : f32x32 (%two : f32x32) do
          %a = load {{memory = "x", offset = [in_K + line]}} : bf16x2
          %w = load {{memory = "x", offset = [in_K + line]}} : bf16x32
          %next = mma %a, %w, %two {{instruction = "dot2_bf16_12x32x2"}} : f32x32
          yield %next
        end
        yield %part
      end
      store %sums {{memory = "y", offset = [0]}}
    """)
    assert ("sums" in normal_sums(kernel, VARIANTS["x86_64_v4_bf16"])) == (first == 0)


@pytest.mark.parametrize("again", ["store", "accumulate"])
def test_what_a_private_memory_keeps_of_them_is_such_where_nothing_is_added(again: str) -> None:
    """Two sums that cancel may leave less than the smallest normal number."""
    onto = ", onto = ()" if again == "accumulate" else ""
    kernel = Text(NESTED.head + "memory @kept : f32 (element: [32]) private\n").kernel(f"""
      %zero = constant {{value = 0.0}} : f32x32
      %a = load {{memory = "x", offset = [0]}} : bf16x2
      %w = load {{memory = "x", offset = [0]}} : bf16x32
      %one = mma %a, %w, %zero {{instruction = "dot2_bf16_12x32x2"}} : f32x32
      store %one {{memory = "kept", offset = [0]}}
      {again} %one {{buffer = [0], mask = (), memory = "kept", offset = [0], valid = [32]{onto}}}
      %sums = load {{memory = "kept", offset = [0]}} : f32x32
      store %sums {{memory = "y", offset = [0]}}
    """)
    assert ("sums" in normal_sums(kernel, VARIANTS["x86_64_v4_bf16"])) == (again == "store")


@pytest.mark.compiles
def test_sums_are_rounded_as_numbers_are() -> None:
    """Ties, infinities and NaN; sums below the smallest normal number are zero on machines with the instruction."""
    kernel = compile(loads(text(64, "k_loop.acc"), "rounded.wave.yaml"))
    bits = torch.arange(256, dtype=torch.int32)
    large = torch.tensor([1.0, -1.0, 1.5, 3e38, float("inf"), float("nan")])
    a = torch.stack([torch.ones(6 * 256), torch.ones(6 * 256)], dim=1).bfloat16()
    a[:, 0] = large.repeat_interleave(256).bfloat16()
    a[:, 1] = (bits.float() / 2**15).repeat(6).bfloat16()
    b = torch.ones(5, 2).bfloat16()
    got = kernel(a, b)
    assert isinstance(got, torch.Tensor)
    expected = (a.float() @ b.float().T).bfloat16()
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


def test_weights_of_attention_are_rounded_by_it_on_their_way_to_tile_registers() -> None:
    spec = loads((Path(__file__).parents[2] / "specs" / "attention.wave.yaml").read_text(encoding="utf-8"))
    assert emit(spec, VARIANTS["x86_64_amx"]).text.count(ROUNDING) == 64, "vectors of 16 rows of 64 weights"
    assert ROUNDING not in emit(spec, VARIANTS["x86_64_v4_bf16"]).text


EXCHANGED = """\
apiVersion: wavespec/v1
kind: Kernel
name: exchanged
dims: {M: {}, N: {}, K: {max: 64}}
tensors:
  x: {shape: [M, K], dtype: f32}
  y: {shape: [M, K], dtype: f32}
  b: {shape: [N, K], dtype: bf16, space: shared}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 128, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 64}
  - {wave: M, tile: 32}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - x_tile: {read: x}
  - y_tile: {read: y}
  - one: bf16(x_tile)
  - other: bf16(y_tile)
  - steps:
      repeat: 3
      carry: {acc: zero, now: one, later: other}
      body:
        - b_tile: {read: b}
        - acc: {mma: [now, b_tile, acc]}
        - before: now
        - now: later
        - later: before
  - {write: steps.acc, to: c}
"""
"""Two operands that a loop exchanges: what is kept of each comes round to itself."""


@pytest.mark.compiles
def test_operands_that_a_loop_exchanges_are_multiplied_in_turn() -> None:
    random = torch.Generator().manual_seed(0)
    x, y, b = (torch.randint(-3, 4, (rows, 50), generator=random).float() for rows in (70, 70, 33))
    got = compile(loads(EXCHANGED))(x, y, b.bfloat16())
    assert isinstance(got, torch.Tensor)
    assert torch.equal(got, (2 * x + y) @ b.T)

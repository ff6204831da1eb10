"""A right specialised GEMM, written by hand: two waves of 128 lanes multiply, a third copies ahead of them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.sim.simulated_kernels import NVIDIA, numbers
from wavespec.ir.kernel import Kernel
from wavespec.ir.parser import parse_kernel
from wavespec.sim.findings import SimulationReport
from wavespec.sim.interleaving import Order
from wavespec.sim.simt import simulate

STAGES = 3
SIZES = {"M": 200, "N": 128, "K": 328}

_STEP = "((tile - workgroup)//2*((K + 63)//64) + at_K//64)"
_RELEASED = f"({_STEP} - 1)"
_LAST = "((tile - workgroup)//2*((K + 63)//64) + (K - 1)//64)"
_PRODUCTS = "\n".join(
    f"""        %p{i} = mma_async %{f"p{i - 1}" if i else "acc"} {{instruction = "wgmma_m64n64k16_bf16",
          a_memory = "a.shared", a_offset = [wave_M*4096 + {16 * i}], a_buffer = [{_STEP}%{STAGES}], a_major = "k",
          b_memory = "b.shared", b_offset = [{16 * i}], b_buffer = [{_STEP}%{STAGES}], b_major = "k"}} : f32x32"""
    for i in range(4)
)
_ROW = "(lane//32*16 + lane%32//8%2*8 + lane%8)"
_STORES = "\n".join(
    f"""      %s{i} = slice %rounded {{start = {8 * i}, size = 8}} : bf16x8
      store_matrix %s{i} {{memory = "c.shared", count = 4, buffer = [0],
        offset = [wave_M*4096 + {_ROW}*64 + xor({2 * i} + lane%32//16, lane%8)*8]}}"""
    for i in range(4)
)
_ONE_LANE = "(([lane], [1],),)"

TEXT = f"""thread kernel @gemm target sm_90 lanes 128
symbol M in 1..100000 by 1
symbol N in 8..100000 by 8
symbol K in 8..100000 by 8
symbol workgroup in 0..1 by 1
symbol tile in 0..100000 by 1
symbol wg0 in 0..100000 by 1
symbol wg1 in 0..100000 by 1
symbol wave_M in 0..1 by 1
symbol lane in 0..127 by 1
symbol at_K in 0..100000 by 64
plan "auto" stages {STAGES} group 1 persistent
wave wave_M 2
producers 1
grid [2]
memory @a : bf16 (M: [M], K: [K]) global input
memory @b : bf16 (N: [N], K: [K]) global input
memory @c : bf16 (M: [M], N: [N]) global output
memory @a.shared : bf16 (M: [128], K: [64]) shared [M/1: 128 by 64, K/1: 64 by 1; swizzle K 8 x 8 by M//1] x{STAGES}
memory @b.shared : bf16 (N: [64], K: [64]) shared [N/1: 64 by 64, K/1: 64 by 1; swizzle K 8 x 8 by N//1] x{STAGES}
memory @c.shared : bf16 (M: [128], N: [64]) shared [M/1: 128 by 64, N/1: 64 by 1; swizzle N 8 x 8 by M//1]
memory @full : i64 () signal x{STAGES} arrivals 1
memory @empty : i64 () signal x{STAGES} arrivals 2
{{
  role {{first = 2, waves = 1, registers = 40}} () do
    for {{induction = "tile", lower = [workgroup], upper = [(M + 127)//128*((N + 63)//64)], step = [2]}} () do
      let {{symbol = "wg0", value = [tile%((M + 127)//128)]}}
      let {{symbol = "wg1", value = [tile//((M + 127)//128)]}}
      for {{induction = "at_K", lower = [0], upper = [K], step = [64]}} () do
        if {{mask = {_ONE_LANE}}} () do
          signal_wait {{signal = "empty", index = [{_STEP}%{STAGES}], phase = [1 - {_STEP}//{STAGES}%2]}}
          signal_arrive {{signal = "full", index = [{_STEP}%{STAGES}], bytes = 24576}}
          bulk_copy {{source = "a", corner = ([wg0*128], [at_K],), box = (128, 64,), memory = "a.shared", offset = [0],
            buffer = [{_STEP}%{STAGES}], signal = "full", index = [{_STEP}%{STAGES}]}}
          bulk_copy {{source = "b", corner = ([wg1*64], [at_K],), box = (64, 64,), memory = "b.shared", offset = [0],
            buffer = [{_STEP}%{STAGES}], signal = "full", index = [{_STEP}%{STAGES}]}}
          yield
        end
        yield
      end
      yield
    end
    yield
  end
  role {{first = 0, waves = 2, registers = 232}} () do
    for {{induction = "tile", lower = [workgroup], upper = [(M + 127)//128*((N + 63)//64)], step = [2]}} () do
      let {{symbol = "wg0", value = [tile%((M + 127)//128)]}}
      let {{symbol = "wg1", value = [tile//((M + 127)//128)]}}
      %zero = constant {{value = 0.0}} : f32x32
      %sum = for %zero {{induction = "at_K", lower = [0], upper = [K], step = [64]}} : f32x32 (%acc : f32x32) do
        signal_wait {{signal = "full", index = [{_STEP}%{STAGES}], phase = [{_STEP}//{STAGES}%2]}}
        mma_fence
{_PRODUCTS}
        mma_commit
        mma_wait {{pending = 1}}
        if {{mask = (([lane], [1],), ([0], [at_K],),)}} () do
          signal_arrive {{signal = "empty", index = [{_RELEASED}%{STAGES}], bytes = 0}}
          yield
        end
        yield %p3
      end
      %done = mma_wait %sum {{pending = 0}} : f32x32
      if {{mask = {_ONE_LANE}}} () do
        signal_arrive {{signal = "empty", index = [{_LAST}%{STAGES}], bytes = 0}}
        bulk_wait {{pending = 0}}
        yield
      end
      barrier {{first = [wave_M], waves = 1}}
      %rounded = cast %done : bf16x32
{_STORES}
      fence_async
      barrier {{first = [wave_M], waves = 1}}
      if {{mask = {_ONE_LANE}}} () do
        bulk_store {{memory = "c.shared", offset = [wave_M*4096], buffer = [0], target = "c",
          corner = ([wg0*128 + wave_M*64], [wg1*64],), box = (64, 64,)}}
        bulk_commit
        yield
      end
      yield
    end
    if {{mask = {_ONE_LANE}}} () do
      bulk_wait {{pending = 0}}
      yield
    end
    yield
  end
}}
"""


def specialized_gemm(text: str = TEXT) -> Kernel:
    return parse_kernel(text)


def run_gemm(kernel: Kernel, order: Order = "forward") -> tuple[SimulationReport, np.ndarray]:
    """The report, and the exact result; operands are small whole numbers."""
    m, n, k = SIZES.values()
    a, b = numbers(m, k, dtype=ml_dtypes.bfloat16, seed=1), numbers(n, k, dtype=ml_dtypes.bfloat16, seed=2)
    report = simulate(kernel, NVIDIA, {"a": a, "b": b}, SIZES, order=order)
    return report, (a.astype(np.float64) @ b.astype(np.float64).T).astype(ml_dtypes.bfloat16)

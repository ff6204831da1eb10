"""How many bytes a call reads and writes goes in; a kernel that does nothing else, in CUDA C, comes out."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

_ACCESS_BYTES = 16
_THREADS = 256
_ACCESSES = 8
"""Of a thread, all of which are under way at once."""
_SOURCE = r"""
extern "C" __global__ void stream(const uint4* from, uint4* to, int reads, int writes) {
  uint4 values[ACCESSES];
  unsigned odd = 0;
  const long long first = blockIdx.x * (long long)(ACCESSES * THREADS) + threadIdx.x;
  #pragma unroll
  for (int k = 0; k < ACCESSES; k++)
    values[k] = first + k * THREADS < reads ? from[first + k * THREADS] : make_uint4(1, 2, 3, 4);
  #pragma unroll
  for (int k = 0; k < ACCESSES; k++)
    if (first + k * THREADS < writes) to[first + k * THREADS] = values[k];
    else odd ^= values[k].x ^ values[k].y ^ values[k].z ^ values[k].w;
  if (odd == 0x12345677u) to[0].x = odd;  // what is read has to be there
}
"""


@cache
def _kernel() -> Any:
    source = _SOURCE.replace("ACCESSES", str(_ACCESSES)).replace("THREADS", str(_THREADS))
    compiled: Any = torch.cuda._compile_kernel  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]
    return compiled(source, "stream")


def stream(reads: int, writes: int) -> Callable[[], object]:
    """A call that reads and writes so many bytes of its own, in whole accesses.

    A copy writes half of what it moves, and who only reads waits for the memory to write back what a flush left in the
    cache: neither says how long the other one may take.
    """
    sizes = [-(-size // _ACCESS_BYTES) for size in (reads, writes)]
    source, target = (torch.zeros(max(size, 1), 4, dtype=torch.int32, device="cuda") for size in sizes)
    blocks = -(-max(sizes) // (_THREADS * _ACCESSES))
    return lambda: _kernel()((blocks, 1, 1), (_THREADS, 1, 1), [source, target, *sizes])

"""What makes tensors of a CPU goes in; the same comes out, which asks for large pages where the memory is new.

Memory that the system has just mapped gets its pages when they are first touched, 4 KiB at a time, which takes several
times as long as to write them. Linux gives 2 MiB at a time to those who ask for it (`transparent_hugepage: madvise`,
the default: https://www.kernel.org/doc/html/latest/admin-guide/mm/transhuge.html). A kernel writes all of its results,
so that no page is there for nothing.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import sys
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

LEAST_BYTES: Final = 32 << 20
"""What is as large is mapped by glibc for each tensor anew; of what is smaller it keeps the memory
(`M_MMAP_THRESHOLD`: https://man7.org/linux/man-pages/man3/mallopt.3.html)."""

_Empty = Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], Tensor]


def in_large_pages(empty: _Empty) -> _Empty:
    """``empty``, whose large tensors have large pages, where the system has some, but for parts at their ends."""
    advise = _advise()
    if advise is None:
        return empty

    def make(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        tensor = empty(shape, strides, dtype)
        start, size = tensor.data_ptr(), tensor.untyped_storage().nbytes()
        if size >= LEAST_BYTES:
            first, end = start + -start % mmap.PAGESIZE, (start + size) // mmap.PAGESIZE * mmap.PAGESIZE
            advise(first, end - first, mmap.MADV_HUGEPAGE)  # a hint: where there are none, nothing is different
        return tensor

    return make


@functools.cache
def _advise() -> Any:
    """`madvise` of the system; None where it has no such pages."""
    if sys.platform != "linux" or not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    advise: Any = ctypes.CDLL(None).madvise
    advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return advise

"""Large new tensors ask for large pages, others are made as before."""

from __future__ import annotations

import mmap
import sys

import pytest
import torch

from wavespec.runtime import large_pages
from wavespec.runtime.large_pages import LEAST_BYTES, in_large_pages


def _empty(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype)


def test_whole_pages_inside_of_a_large_tensor_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[int, int, int]]()

    def advise(start: int, length: int, advice: int) -> None:
        asked.append((start, length, advice))

    monkeypatch.setattr(large_pages, "_advise", lambda: advise)
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 14, raising=False)
    make = in_large_pages(_empty)
    size = LEAST_BYTES // 4 + 100
    tensor = make((size,), (1,), torch.float32)
    ((start, length, advice),) = asked
    assert advice == 14 and start % mmap.PAGESIZE == length % mmap.PAGESIZE == 0
    assert tensor.data_ptr() <= start and start + length <= tensor.data_ptr() + 4 * size
    assert length > 4 * size - 2 * mmap.PAGESIZE
    make((100,), (1,), torch.float32)
    assert len(asked) == 1


def test_without_such_pages_nothing_is_different(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_pages, "_advise", lambda: None)
    assert in_large_pages(_empty) is _empty


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has the call that asks for large pages")
def test_the_system_takes_the_hint() -> None:
    tensor = in_large_pages(_empty)((LEAST_BYTES,), (1,), torch.uint8)
    tensor.fill_(3)
    assert int(tensor[-1]) == 3

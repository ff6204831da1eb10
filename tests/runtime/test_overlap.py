"""Whether views share memory: never wrongly denied, and known of what torch's own views make."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from torch import Tensor

from wavespec.runtime.overlap import may_overlap_itself, may_share_memory

_DIMS = some.lists(some.tuples(some.integers(0, 4), some.integers(0, 12)), min_size=1, max_size=3)


@some.composite
def views(draw: some.DrawFn) -> Tensor:
    dims, start = draw(_DIMS), draw(some.integers(0, 20))
    return _MEMORY.as_strided([size for size, _ in dims], [stride for _, stride in dims], start)


_MEMORY = torch.arange(200)


@given(views(), views())
def test_tensors_with_an_element_in_common_are_never_taken_for_apart(first: Tensor, second: Tensor) -> None:
    shared = {*first.flatten().tolist()} & {*second.flatten().tolist()}
    assert may_share_memory(first, second) or not shared


@given(views())
def test_an_element_that_is_there_twice_is_always_found(view: Tensor) -> None:
    elements = view.flatten().tolist()
    assert may_overlap_itself(view) or len(set(elements)) == len(elements)


_POOL = torch.zeros(3, 2, 5, 4)
_FUSED = torch.zeros(2, 7, 3, 4, 8)


@pytest.mark.parametrize(
    "parts",
    [
        [_POOL[:, 0], _POOL[:, 1]],
        [part.transpose(1, 2) for part in _FUSED.unbind(2)],
        [_POOL[..., :1], _POOL[..., 1:3], _POOL[..., 3:]],
        [_FUSED[:, :2], _FUSED[:, 2:]],
        [_POOL[::2], _POOL[1::2]],
    ],
    ids=["halves of a pool", "fused", "columns", "rows of batches", "every other"],
)
def test_parts_of_a_tensor_are_apart(parts: list[Tensor]) -> None:
    assert not any(may_share_memory(one, other) for one, other in itertools.combinations(parts, 2))
    assert all(may_share_memory(one, one) and not may_overlap_itself(one) for one in parts)

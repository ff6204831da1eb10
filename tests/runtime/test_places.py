"""Where the memory of few tensors is, which is asked without a loop, is what the loop finds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from wavespec.runtime.places import PLACE_OF, place_of_any

COUNTS = pytest.mark.parametrize("count", sorted(PLACE_OF))


class _Odd(Tensor):
    pass


def tensors(count: int) -> list[Tensor]:
    """Views of memory of different lengths, each at another place in it."""
    return [torch.zeros(20 + number)[number : number + 5] for number in range(count)]


@COUNTS
def test_few_tensors_are_told_as_any_number_of_them(count: int) -> None:
    given = tuple(tensors(count))
    expected = tuple(fact for number, one in enumerate(given) for fact in (one.data_ptr(), number, 4 * (20 + number)))
    assert PLACE_OF[count](given) == place_of_any(given) == expected


@COUNTS
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")
def test_every_tensor_is_asked_whether_it_is_plain(count: int) -> None:
    nested: Tensor = torch.nested.nested_tensor([torch.zeros(5)])  # pyright: ignore[reportUnknownMemberType]
    for strange in (nested, torch.zeros(5).as_subclass(_Odd), None):
        for number in range(count):
            given = tensors(count)
            given[number] = strange  # pyright: ignore
            assert PLACE_OF[count](tuple(given)) is None and place_of_any(tuple(given)) is None


@COUNTS
def test_memory_that_was_taken_away_is_another_place(count: int) -> None:
    given = tuple(tensors(count))
    for one in given:
        before = place_of_any(given)
        one.untyped_storage().resize_(8)
        assert PLACE_OF[count](given) == place_of_any(given) != before


@COUNTS
def test_tensor_without_a_storage_is_told(count: int) -> None:
    for number in range(count):
        given = tensors(count)
        given[number] = torch.eye(3).to_sparse()
        with pytest.raises(RuntimeError):
            PLACE_OF[count](tuple(given))

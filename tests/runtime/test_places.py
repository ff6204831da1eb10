"""Where the memory of tensors is, which machine code tells, is what Python finds."""

from __future__ import annotations

import struct

import pytest
import torch
from torch import Tensor

from wavespec.runtime import places as module
from wavespec.runtime.machine_functions import can_run
from wavespec.runtime.places import place_of, place_of_any

COUNTS = pytest.mark.parametrize("count", [1, 2, 3, 4, 9, 32])


class _Odd(Tensor):
    pass


def tensors(count: int) -> list[Tensor]:
    """Views of memory of different lengths, each at another place in it."""
    return [torch.zeros(20 + number)[number : number + 5] for number in range(count)]


def numbers(*given: Tensor) -> tuple[int, ...]:
    """What `place_of` tells."""
    place = place_of(*given)
    assert place
    return struct.unpack(f"<{3 * len(given)}Q", place) if isinstance(place, bytes) else place


@pytest.mark.skipif(not can_run(), reason="needs CPython on Linux, x86-64 or aarch64")
def test_this_torch_is_one_that_the_machine_code_knows() -> None:
    assert place_of is not place_of_any


@COUNTS
def test_machine_code_tells_what_python_does(count: int) -> None:
    given = tensors(count)
    given[0] = torch.nn.Parameter(given[0])
    expected = tuple(fact for number, one in enumerate(given) for fact in (one.data_ptr(), number, 4 * (20 + number)))
    assert numbers(*given) == place_of_any(*given) == expected


def test_tensors_without_memory_are_somewhere() -> None:
    for one in (torch.zeros(0, 3), torch.zeros(2, device="meta")):
        assert numbers(one) == place_of_any(one)


@COUNTS
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")
def test_every_tensor_is_asked_whether_it_is_plain(count: int) -> None:
    nested: Tensor = torch.nested.nested_tensor([torch.zeros(5)])  # pyright: ignore[reportUnknownMemberType]
    for strange in (nested, torch.zeros(5).as_subclass(_Odd), torch.eye(3).to_sparse(), None, 5, Tensor):
        for number in range(count):
            given = tensors(count)
            given[number] = strange  # pyright: ignore
            assert not place_of(*given) and not place_of_any(*given)


def test_tensors_of_a_transform_are_none_that_may_be_known() -> None:
    found: list[object] = []

    def ask(one: Tensor) -> Tensor:
        assert type(one) is Tensor
        found.append(place_of(one))
        return one

    torch.vmap(ask)(torch.zeros(3, 4))  # pyright: ignore[reportUnknownMemberType]
    assert not any(found) and found


@COUNTS
def test_memory_that_was_taken_away_is_another_place(count: int) -> None:
    given = tensors(count)
    for one in given:
        before = numbers(*given)
        one.untyped_storage().resize_(8)
        assert numbers(*given) == place_of_any(*given) != before


def test_more_tensors_than_there_is_room_for_are_not_known() -> None:
    assert place_of is place_of_any or not place_of(*tensors(33))


def test_a_torch_of_another_kind_is_asked_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose functions have other names, or whose objects are elsewhere in Python's."""
    with monkeypatch.context() as patch:
        patch.setitem(module.ASKED, "offset", "aoti_torch_get_nothing")
        assert module.by_machine_code() is None
    with monkeypatch.context() as patch:
        patch.setattr(module, "_place_in_object", lambda _: None)  # pyright: ignore
        assert module.by_machine_code() is None
    with monkeypatch.context() as patch:
        patch.setitem(module.ASKED, "offset", module.ASKED["bytes"])
        assert module.by_machine_code() is None, "it tells other numbers"
    monkeypatch.setattr(module, "can_run", lambda: False)
    assert module.by_machine_code() is None

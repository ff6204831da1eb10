"""Tensors of one call go in; where their memory is comes out, by which a call like an earlier one is known.

Of each tensor three numbers: its address, where that is in its storage in elements, and the bytes of the storage. All
are asked each time, since a storage may be shrunk below a tensor that stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from wavespec.runtime.checks import PLAIN_TYPES

Place = tuple[int, ...]

# Note [places of few tensors]: most calls have two to four tensors, and a loop over them takes a third longer than the
# questions by themselves (1.5 µs for three tensors in place of 1.1, Python 3.11).


def _of_two(tensors: tuple[Any, ...]) -> Place | None:
    a, b = tensors
    # fmt: off
    if type(a) not in PLAIN_TYPES or type(b) not in PLAIN_TYPES or a.is_nested or b.is_nested:
        return None
    return (
        a.data_ptr(), a.storage_offset(), len(a.untyped_storage()),
        b.data_ptr(), b.storage_offset(), len(b.untyped_storage()),
    )
    # fmt: on


def _of_three(tensors: tuple[Any, ...]) -> Place | None:
    a, b, c = tensors
    # fmt: off
    if type(a) not in PLAIN_TYPES or type(b) not in PLAIN_TYPES or type(c) not in PLAIN_TYPES:
        return None
    if a.is_nested or b.is_nested or c.is_nested:
        return None
    return (
        a.data_ptr(), a.storage_offset(), len(a.untyped_storage()),
        b.data_ptr(), b.storage_offset(), len(b.untyped_storage()),
        c.data_ptr(), c.storage_offset(), len(c.untyped_storage()),
    )
    # fmt: on


def _of_four(tensors: tuple[Any, ...]) -> Place | None:
    a, b, c, d = tensors
    # fmt: off
    if type(a) not in PLAIN_TYPES or type(b) not in PLAIN_TYPES or type(c) not in PLAIN_TYPES:
        return None
    if type(d) not in PLAIN_TYPES or a.is_nested or b.is_nested or c.is_nested or d.is_nested:
        return None
    return (
        a.data_ptr(), a.storage_offset(), len(a.untyped_storage()),
        b.data_ptr(), b.storage_offset(), len(b.untyped_storage()),
        c.data_ptr(), c.storage_offset(), len(c.untyped_storage()),
        d.data_ptr(), d.storage_offset(), len(d.untyped_storage()),
    )
    # fmt: on


def place_of_any(tensors: tuple[Any, ...]) -> Place | None:
    """The numbers of all tensors in order; None where one is of another class, or nested: Dynamo's guard would end the
    process over that.

    Raises:
        RuntimeError: one has no storage.
    """
    place: list[int] = []
    for one in tensors:
        if type(one) not in PLAIN_TYPES or one.is_nested:
            return None
        place += one.data_ptr(), one.storage_offset(), len(one.untyped_storage())
    return tuple(place)


PLACE_OF: Final[dict[int, Callable[[tuple[Any, ...]], Place | None]]] = {2: _of_two, 3: _of_three, 4: _of_four}
"""The same as `place_of_any` for so many tensors. See Note [places of few tensors]."""

"""Tensors of one call go in; where their memory is comes out, by which a call like an earlier one is known.

Of each tensor three numbers: its address, where that is in its storage in elements, and the bytes of the storage. All
are asked each time, since a storage may be shrunk below a tensor that stays as it was.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from wavespec.runtime.checks import PLAIN_TYPES
from wavespec.runtime.machine_functions import address_of, can_run, machine_function, word_at

Place = bytes | tuple[int, ...]

# Note [places by machine code]: Python asks for nine numbers of three tensors in 1.06 µs, and has them as a key in
# 0.06 more. torch's C functions for code that Inductor made ahead of time answer the same (`aoti_torch_get_...`, which
# keep their ABI: torch/csrc/inductor/aoti_torch/c/shim.h); all of them by one function of Python take 0.06. They take
# the place of torch's tensor in the Python object. Which that is, torch tells of any tensor (`_cdata`), as it does what
# objects of the class of plain tensors begin with: nested, sparse and batched ones are of other classes in C++.
ASKED: Final = {
    "address": "aoti_torch_get_data_ptr",
    "offset": "aoti_torch_get_storage_offset",
    "bytes": "aoti_torch_get_storage_size",
}


def place_of_any(*tensors: Any) -> Place | None:
    """The numbers of all tensors in order; None where one is of another class, or nested: Dynamo's guard would end the
    process over that; or where one has no storage."""
    place: list[int] = []
    try:
        for one in tensors:
            if type(one) not in PLAIN_TYPES or one.is_nested:
                return None
            place += one.data_ptr(), one.storage_offset(), len(one.untyped_storage())
    except RuntimeError:
        return None
    return tuple(place)


def by_machine_code() -> Callable[..., Any] | None:
    """`place_of_any`, which gives the numbers as bytes, something false in place of None, and that for more than 32
    tensors as well. None where this machine, or torch, is another one than it knows. See Note [places by machine code].
    """
    if not can_run():
        return None
    probes = torch.zeros(3), torch.nn.Parameter(torch.zeros(7)[2:5])
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        asked = {member: address_of(getattr(library, name)) for member, name in ASKED.items()}
        at = _place_in_object(probes)
        plain = {word_at(one._cdata) for one in probes}  # pyright: ignore
        if at is None or len(plain) > 1:
            return None
        classes = {"tensor": id(Tensor), "parameter": id(torch.nn.Parameter)}
        place = machine_function("place", at=at, plain=plain.pop(), **classes, **asked)(None)
    except (OSError, AttributeError):
        return None
    numbers = place_of_any(*probes)
    return place if place(*probes) == b"".join(one.to_bytes(8, "little") for one in numbers or ()) else None


def _place_in_object(tensors: tuple[Tensor, ...]) -> int | None:
    """Bytes in front of where Python's objects have torch's, the same for all."""
    for at in range(16, Tensor.__basicsize__, 8):
        if all(word_at(id(one) + at) == one._cdata for one in tensors):  # pyright: ignore
            return at
    return None


place_of: Final[Callable[..., Place | None]] = by_machine_code() or place_of_any
"""Something false where a tensor is none that may be known; `place_of_any` says which."""

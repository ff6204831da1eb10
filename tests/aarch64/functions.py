"""The machine code of `direct_code.py` goes in; nothing comes out where its functions do as they say.

It needs no torch: objects with slots are its tensors, functions that ctypes makes are torch's. So the emulated Python
of an aarch64 machine can run it: `python functions.py`.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from wavespec.runtime.machine_functions import address_of, machine_function

_AT = object.__basicsize__
_ASKED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Plain:
    """What is in its slot is torch's object: its first word is how often it is referred to."""

    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


class Parameter(Plain):
    __slots__ = ()


class Other(Plain):
    __slots__ = ()


def _answer(of: int) -> Any:
    """A function of torch, that fails for objects without a storage: it tells a number of the object, ``of`` more."""

    def ask(tensor: int, answer: int) -> int:
        held = ctypes.cast(tensor, ctypes.POINTER(ctypes.py_object)).contents.value
        ctypes.c_int64.from_address(answer).value = number = held.number + of
        return int(number % 1000 == 13 + of)

    return _ASKED(ask)


class _Held:
    def __init__(self, number: int) -> None:
        self.number = number


def check_place() -> None:
    """Numbers of up to 32 tensors of two classes."""
    answers = [_answer(of) for of in (0, 1, 2)]
    asked = dict(zip(("address", "offset", "bytes"), map(address_of, answers), strict=True))
    given = [(Parameter if number % 3 else Plain)(_Held(1000 * number)) for number in range(33)]
    classes = {"tensor": id(Plain), "parameter": id(Parameter)}
    place = machine_function("place", at=_AT, plain=1, **classes, **asked)(None)
    for count in range(33):
        expected = [1000 * number + of for number in range(count) for of in range(3)]
        assert place(*given[:count]) == struct.pack(f"<{3 * count}q", *expected), count
    assert not place(*given)
    often = _Held(1)
    for strange in (Other(_Held(1)), Plain(often), Plain(_Held(13)), None, 7, Plain(_Held(-1))):
        for number in range(4):
            row = list[Any](given[:4])
            row[number] = strange
            assert bool(place(*row)) == (type(strange) is Plain and strange.held.number == -1), (strange, number)
    unset = Plain(often)
    del unset.held
    assert not place(unset)


def check_run() -> None:
    """What is told, with addresses that are made, and the status of the body."""
    space = (ctypes.c_uint64 * 64)()
    seen: list[list[int]] = []

    def body(address: int) -> None:
        assert address == ctypes.addressof(space)
        seen.append(list(space))
        space[9] = status

    code = _BODY(body)
    run = machine_function("run", body=address_of(code), space=ctypes.addressof(space))
    for count in range(4):
        for made in range(3):
            said = [100 + number for number in range(count)]
            launch = run(struct.pack(f"<{2 + count}Q", count, 40, *said), space)
            for status in (0, 5, 2**32 - 1):
                ctypes.memset(space, 0, 512)
                places = [2**62 + number for number in range(made)]
                assert launch(*places) == (status if status < 2**31 else -1)
                expected = [0] * 6 + said + [0] * (34 - count) + places + [0] * (24 - made)
                assert seen.pop() == expected


if __name__ == "__main__":
    check_place()
    check_run()
    print("right")

"""The name of one of the functions of `direct_code.py` goes in; functions of Python that run it come out.

ctypes takes a tenth of a microsecond for each argument that it turns into C's. A function as extensions have them takes
0.06 with all that it does, and needs no compiler: `PyCFunction_NewEx` makes it of an address, and what the machine code
calls of Python is in its stable ABI (https://docs.python.org/3/c-api/stable.html).
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import sysconfig
from collections.abc import Callable
from typing import Any, Final, Protocol

from wavespec.architecture import architecture
from wavespec.runtime.direct_code import CODE, TABLE
from wavespec.runtime.loaded_code import keep, new_memory, protect

_VECTORCALL: Final = 0x80  # METH_FASTCALL
_TYPE_AT: Final = 8
"""Bytes of a Python object in front of its class, in CPython with a lock for all threads."""
_OF_PYTHON: Final = {
    "as_bytes": "PyBytes_FromStringAndSize",
    "as_number": "PyLong_FromLong",
    "text": "PyBytes_AsString",
    "number": "PyLong_AsUnsignedLong",
}


class MachineFunction(Protocol):
    """Makes a function of Python."""

    def __call__(self, of: object, holder: object = None) -> Callable[..., Any]:
        """The function whose machine code gets ``of`` as ``self``; it holds ``holder`` as well."""
        ...


class _Definition(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = (("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def can_run() -> bool:
    """Whether this Python is one that the machine code knows, on Linux and a processor that has some."""
    if sys.platform != "linux" or sys.implementation.name != "cpython" or architecture() not in CODE:
        return False
    probe = object()
    return not sysconfig.get_config_var("Py_GIL_DISABLED") and word_at(id(probe) + _TYPE_AT) == id(object)


def machine_function(name: str, **table: int) -> MachineFunction:
    """The function ``name``, where `can_run`.

    Args:
        table: members of the table that it reads, but for those that are Python's.

    Raises:
        OSError: the system gives no memory that can be executed.
    """
    code = CODE[architecture()]
    memory, address = new_memory(2 * mmap.PAGESIZE)
    members = {key: address_of(getattr(ctypes.pythonapi, of)) for key, of in _OF_PYTHON.items()} | table
    written = b"".join(members.get(member, 0).to_bytes(8, "little") for member in TABLE)
    memory[: len(code.code)] = code.code
    memory[:8] = (address + mmap.PAGESIZE).to_bytes(8, "little")
    memory[mmap.PAGESIZE : mmap.PAGESIZE + len(written)] = written
    protect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC)
    definition = _Definition(name.encode(), address + getattr(code, name), _VECTORCALL, None)
    keep(memory, definition)  # functions that are freed look at it, too
    make: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    place = ctypes.addressof(definition)
    return lambda of, holder=None: make(place, of, holder)


def word_at(address: int) -> int:
    """The eight bytes there, which are in memory."""
    return ctypes.c_uint64.from_address(address).value


def address_of(function: Any) -> int:
    """Of a function of a library that ctypes found."""
    found = ctypes.cast(function, ctypes.c_void_p).value
    assert found is not None
    return found

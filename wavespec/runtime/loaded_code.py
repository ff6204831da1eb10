"""A vmfb for CPUs goes in; the function in it is in memory, ready to be called.

IREE keeps a kernel as an ELF library in the module, made to be loaded without the system's linker: it imports nothing,
and all its relocations add the address that it was loaded at. What it exports, and what the function takes, is laid
down in IREE's `runtime/src/iree/hal/local/executable_library.h`.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from wavespec.architecture import architecture
from wavespec.runtime.code import ArtifactError

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_PAIR: Final = struct.Struct("<QQ")
_RELOCATION: Final = struct.Struct("<QQq")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_MAGIC: Final = b"\x7fELF\x02\x01"  # 64 bits, little endian
_MACHINES: Final = {"x86_64": (62, 8), "aarch64": (183, 1027)}
"""By architecture: the number of ELF, and of the relocation that adds where the library is."""
_LOAD, _DYNAMIC, _EXECUTABLE = 1, 2, 1
_HASH, _STRINGS, _SYMBOLS, _RELOCATIONS, _RELOCATION_BYTES = 4, 5, 6, 7, 8

_QUERY: Final = b"iree_hal_executable_library_query\0"
_VERSION: Final = 6
_ADDRESS: Final = struct.Struct("<Q")
_COUNTS: Final = struct.Struct("<II")
_LIBRARY: Final = struct.Struct("<QI4xQI4xQQ")  # header, imports (count, names), exports (count, functions, attributes)
_ATTRIBUTES: Final = struct.Struct("<QHBB")  # flags, pages of local memory, constants, bindings
_LOCAL_PAGE: Final = 4096


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """A kernel's function in memory."""

    function: int
    """Its address: of `int (environment *, dispatch_state *, workgroup_state *)`."""
    local_bytes: int
    """Memory of its own that each thread needs beside its stack."""
    memory: mmap.mmap
    """What holds the code; it is there as long as this is."""


def new_memory(size: int) -> tuple[mmap.mmap, int]:
    """Memory of the system, all zeros, and its address."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def keep(*objects: object) -> None:
    """Keep objects until the process ends: Python takes the globals of modules away before all that may call code."""
    for one in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


def protect(address: int, size: int, rights: int) -> None:
    """Give whole pages of memory other rights."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), rights):
        raise OSError(ctypes.get_errno(), "mprotect")


def load_code(vmfb: bytes, name: str, constants: int, bindings: int) -> LoadedCode:
    """Load the only function of a module, which has to take so many constants and buffers.

    Args:
        name: what errors call the module.

    Raises:
        ArtifactError: for anything else than a vmfb with such a function for this processor, and where the system gives
            memory that can be executed.
    """
    try:
        return _load(vmfb, constants, bindings)
    except (ValueError, IndexError, OverflowError, struct.error) as error:
        raise ArtifactError(f"{name} is no vmfb with a kernel for {architecture()}: {error}.") from error
    except OSError as error:
        raise ArtifactError(f"{name} needs memory that can be executed; the system refuses: {error}.") from error


def _load(vmfb: bytes, constants: int, bindings: int) -> LoadedCode:
    start = vmfb.index(_MAGIC)
    elf = memoryview(vmfb)[start:]
    fields = _HEADER.unpack_from(elf)
    machine, place, size, count = fields[2], fields[5], fields[9], fields[10]
    expected, relative = _MACHINES[architecture()]
    if machine != expected:
        raise ValueError(f"its machine is number {machine}, expected {expected}")
    if size != _SEGMENT.size:
        raise ValueError(f"its segments have {size} bytes each in the table of them, expected {_SEGMENT.size}")
    segments = [_SEGMENT.unpack_from(elf, place + number * size) for number in range(count)]
    loaded = [segment for segment in segments if segment[0] == _LOAD]
    end = max(address + extent for *_, address, _, _, extent, _ in loaded)
    if not 0 < end <= len(vmfb) + (1 << 26):
        raise ValueError(f"it wants {end} bytes of memory")
    memory, base = new_memory(_whole_pages(end))
    for _, _, offset, address, _, length, extent, _ in loaded:
        if offset + length > len(elf) or length > extent:
            raise ValueError("it ends too early")
        memory[address : address + length] = elf[offset : offset + length]
    dynamic = dict(_dynamic(memory, segments))
    if not dynamic.keys() >= {_HASH, _STRINGS, _SYMBOLS}:
        raise ValueError("it lacks a table of symbols")
    for address, kind, addend in _relocations(memory, dynamic):
        if kind != relative:
            raise ValueError(f"it has a relocation of kind {kind}")
        if not 0 <= addend <= end:
            raise ValueError("it refers to what is outside of it")
        memory[address : address + 8] = (base + addend).to_bytes(8, "little")
    query = base + _symbol(memory, dynamic, _QUERY)
    code = [range(base + one[3], base + one[3] + one[6]) for one in loaded if one[1] & _EXECUTABLE]
    for one in code:
        # Where instructions are not read through the cache of data, Linux has them see what was written as it gives
        # pages the right to be executed: https://github.com/torvalds/linux/blob/master/arch/arm64/mm/flush.c
        first = one.start - one.start % mmap.PAGESIZE
        protect(first, _whole_pages(one.stop) - first, mmap.PROT_READ | mmap.PROT_EXEC)
    _check_place(query, code)
    function, pages = _exported(query, memory, base, constants, bindings)
    _check_place(function, code)
    return LoadedCode(function, pages * _LOCAL_PAGE, memory)


def _whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _dynamic(memory: mmap.mmap, segments: list[tuple[Any, ...]]) -> Iterator[tuple[int, int]]:
    """The table that says where the others are."""
    for kind, _, _, address, _, length, *_ in segments:
        if kind == _DYNAMIC:
            yield from _PAIR.iter_unpack(memory[address : address + length])


def _relocations(memory: mmap.mmap, dynamic: dict[int, int]) -> Iterator[tuple[int, int, int]]:
    place = dynamic.get(_RELOCATIONS, 0)
    return _RELOCATION.iter_unpack(memory[place : place + dynamic.get(_RELOCATION_BYTES, 0)])


def _symbol(memory: mmap.mmap, dynamic: dict[int, int], name: bytes) -> int:
    """Where a symbol is."""
    _, count = _unpack(_COUNTS, memory, dynamic[_HASH])
    for number in range(1, count):
        text, _, _, section, address, _ = _unpack(_SYMBOL, memory, dynamic[_SYMBOLS] + number * _SYMBOL.size)
        if not section:
            raise ValueError("it imports something")
        place = dynamic[_STRINGS] + text
        if memory[place : place + len(name)] == name:
            return address
    raise ValueError("it exports no kernel")


def _exported(query: int, memory: mmap.mmap, base: int, constants: int, bindings: int) -> tuple[int, int]:
    """The address of the function that a library exports, and how many pages of local memory it needs."""
    environment = ctypes.create_string_buffer(128)
    library = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p)(query)(_VERSION, environment)
    if not library:
        raise ValueError(f"it is of another version than {_VERSION}")
    _, imports, _, count, functions, attributes = _unpack(_LIBRARY, memory, library - base)
    _, pages, *takes = _unpack(_ATTRIBUTES, memory, attributes - base)
    if imports or count != 1 or takes != [constants, bindings]:
        found = f"{takes[0]} constants and {takes[1]} buffers"
        raise ValueError(f"its kernel takes {found}, not {constants} and {bindings}")
    (function,) = _unpack(_ADDRESS, memory, functions - base)
    return function, pages


def _unpack(layout: struct.Struct, memory: mmap.mmap, place: int) -> tuple[Any, ...]:
    if not 0 <= place <= len(memory) - layout.size:
        raise ValueError("it refers to what is outside of it")
    return layout.unpack_from(memory, place)


def _check_place(function: int, code: list[range]) -> None:
    if not any(function in one for one in code):
        raise ValueError("its function is not in its code")

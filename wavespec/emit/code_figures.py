"""PTX or a vmfb goes in; what a reader wants to know of the code in it, as numbers by name, comes out."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

_KINDS = {
    "products": r"wgmma\.mma_async|mma\.",
    "global": r"(?:ld|st|red|atom)\.(?:\w+\.)*global|cp\.async\.(?:ca|cg|bulk\.tensor)\.",
    "shared": r"(?:ld|st|red|atom)\.(?:\w+\.)*shared|ldmatrix|stmatrix",
    "barriers": r"bar\.|barrier\.|mbarrier\.",
}
"""Instructions of PTX that are counted apart, by how they begin."""
_INSTRUCTION = re.compile(r"^\s*(?:@!?%?\w+\s+)?([a-z][\w.:]*)[\s;]", re.MULTILINE)
_ARRAY = re.compile(r"^\s*\.(local|shared)\s+\.align\s+\d+\s+\.b8\s+\S+\[(\d+)\];", re.MULTILINE)

_AMD_NOTES = 32  # NT_AMDGPU_METADATA: https://llvm.org/docs/AMDGPUUsage.html#note-records
_NOTE_SECTION, _EXECUTABLE = 7, 4  # SHT_NOTE, SHF_EXECINSTR
_METADATA = {
    "registers": ".vgpr_count",
    "matrix_registers": ".agpr_count",
    "scalar_registers": ".sgpr_count",
    "spilled_registers": ".vgpr_spill_count",
    "spilled_scalar_registers": ".sgpr_spill_count",
    "shared_bytes": ".group_segment_fixed_size",
    "scratch_bytes": ".private_segment_fixed_size",
}


def ptx_figures(text: str) -> dict[str, int]:
    """Instructions, some kinds of them, and bytes of static memory; how many registers they take, ptxas decides."""
    names = _INSTRUCTION.findall(text)
    found = {"instructions": len(names)}
    found |= {kind: sum(bool(re.match(begin, name)) for name in names) for kind, begin in _KINDS.items()}
    for space, size in _ARRAY.findall(text):
        found[f"{space}_bytes"] = found.get(f"{space}_bytes", 0) + int(size)
    return found


def vmfb_figures(module: bytes) -> dict[str, int]:
    """Bytes of machine code of the object in a vmfb; of an HSACO also registers, spills and shared memory."""
    elf = object_in(module)
    sections = list(_sections(elf))
    found = {"code_bytes": sum(section.size for section in sections if section.flags & _EXECUTABLE)}
    for section in sections:
        if section.kind == _NOTE_SECTION and (notes := _amd_metadata(section.data(elf))) is not None:
            (kernel,) = notes["amdhsa.kernels"]
            found |= {name: kernel.get(key, 0) for name, key in _METADATA.items()}
    return found


def object_in(module: bytes) -> bytes:
    """The ELF object in a vmfb: for AMD the HSACO.  Its section headers are its end."""
    start = module.index(b"\x7fELF")
    headers, size, count = _header(module[start : start + 64])
    return module[start : start + headers + size * count]


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    flags: int
    offset: int
    size: int

    def data(self, elf: bytes) -> bytes:
        return elf[self.offset : self.offset + self.size]


def _header(elf: bytes) -> tuple[int, int, int]:
    """Offset of the section headers of a 64-bit object, the size of one, and how many there are."""
    (offset,) = struct.unpack_from("<Q", elf, 40)
    return (offset, *struct.unpack_from("<HH", elf, 58))


def _sections(elf: bytes) -> Iterator[_Section]:
    offset, size, count = _header(elf)
    for at in range(offset, offset + size * count, size):
        _, kind, flags, _, start, length = struct.unpack_from("<IIQQQQ", elf, at)
        yield _Section(kind, flags, start, length)


def _amd_metadata(note: bytes) -> dict[str, Any] | None:
    name_bytes, size, kind = struct.unpack_from("<III", note)
    start = 12 + -(-name_bytes // 4) * 4
    return _Reader(note[start : start + size]).value() if kind == _AMD_NOTES else None


class _Reader:
    """MessagePack, as far as notes of code objects use it: https://github.com/msgpack/msgpack/blob/master/spec.md."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def value(self) -> Any:
        tag = self._number(1)
        match tag:
            case _ if tag < 0x80:
                return tag
            case _ if tag < 0x90:
                return self._map(tag & 0xF)
            case _ if tag < 0xA0:
                return self._array(tag & 0xF)
            case _ if tag < 0xC0:
                return self._text(tag & 0x1F)
            case 0xC2 | 0xC3:
                return tag == 0xC3
            case 0xCC | 0xCD | 0xCE | 0xCF:
                return self._number(1 << tag - 0xCC)
            case 0xD9 | 0xDA | 0xDB:
                return self._text(self._number(1 << tag - 0xD9))
            case 0xDC | 0xDD:
                return self._array(self._number(2 << tag - 0xDC))
            case 0xDE | 0xDF:
                return self._map(self._number(2 << tag - 0xDE))
            case _:
                raise ValueError(f"tag {tag:#x} of MessagePack at byte {self._at - 1}")

    def _bytes(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def _number(self, count: int) -> int:
        return int.from_bytes(self._bytes(count), "big")

    def _text(self, count: int) -> str:
        return self._bytes(count).decode()

    def _array(self, count: int) -> list[Any]:
        return [self.value() for _ in range(count)]

    def _map(self, count: int) -> dict[str, Any]:
        return {cast(str, self.value()): self.value() for _ in range(count)}

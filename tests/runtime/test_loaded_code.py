"""Code of kernels for CPUs that is damaged, or hostile outside of the machine code itself: one clean error each."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from functools import cache

import pytest
import torch

from tests.runtime.standins import compile_vmfb, gemm_artifact, gemm_interface, gemm_kernel, hosted
from wavespec.runtime import ArtifactError, Kernel
from wavespec.runtime import loaded_code as module
from wavespec.runtime.code import Binary
from wavespec.runtime.loaded_code import load_code
from wavespec.runtime.workgroups import are_shared_out

pytestmark = pytest.mark.skipif(not are_shared_out(), reason="needs Linux, x86-64 or aarch64, and a torch with OpenMP")

_SEGMENT = struct.Struct("<IIQQQQQQ")  # kind, rights, place in the file, address, -, bytes there, bytes in memory, -


@cache
def vmfb() -> bytes:
    return gemm_artifact().binaries[0].data


@cache
def start() -> int:
    """Where the ELF library begins."""
    return vmfb().index(b"\x7fELF\x02\x01")


def segments() -> list[tuple[int, ...]]:
    table, size, count = 64, _SEGMENT.size, vmfb()[start() + 56]
    return [_SEGMENT.unpack_from(vmfb(), start() + table + number * size) for number in range(count)]


def load(code: bytes) -> None:
    load_code(code, "gemm", 3, 3)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 200, 1000, 1400])
def test_code_that_ends_early_is_one_clean_error(size: int) -> None:
    with pytest.raises(ArtifactError, match="gemm is no vmfb with a kernel for x86_64"):
        load(vmfb()[: start() + size])


def test_code_of_another_machine_or_another_kernel_is_refused() -> None:
    code = bytearray(vmfb())
    code[code.index(b"\x7fELF") + 18] = 183  # aarch64
    with pytest.raises(ArtifactError, match="its machine is number 183, expected 62"):
        load(bytes(code))
    with pytest.raises(ArtifactError, match="its kernel takes 3 constants and 3 buffers, not 4 and 3"):
        load_code(vmfb(), "gemm", 4, 3)
    broken = replace(gemm_artifact(), binaries=(Binary("sm_90", "ptx", b".version 8.0"),))
    with pytest.raises(ArtifactError, match="was built without a vmfb"):
        Kernel(broken)(torch.ones(4, 8), torch.ones(3, 8))


def with_numbers(places: list[int], number: int) -> bytes:
    """The code with other numbers of 8 bytes at places of the library."""
    code = bytearray(vmfb())
    for place in places:
        code[start() + place : start() + place + 8] = number.to_bytes(8, "little")
    return bytes(code)


@cache
def dynamic() -> dict[int, int]:
    """Addresses of tables, which are those in the file as well: all are in the first segment."""
    (table,) = (one for one in segments() if one[0] == 2)
    return dict(struct.iter_unpack("<QQ", vmfb()[start() + table[2] : start() + table[2] + table[5]]))


@pytest.mark.parametrize("number", [0, 1, 1 << 20, 1 << 47, 1 << 63, (1 << 64) - 1])
def test_places_outside_of_the_library_are_one_clean_error(number: int) -> None:
    """Of relocations, of what they put there, of the symbol that is asked, of segments."""
    relocations, symbols = dynamic()[7], dynamic()[6]
    far = [relocations, relocations + 16, symbols + 24 + 8, 64 + _SEGMENT.size + 16]
    for place in far if number >= 1 << 20 else far[2:3]:
        with pytest.raises(ArtifactError, match="gemm is no vmfb with a kernel for x86_64: "):
            load(with_numbers([place], number))


def test_segments_without_memory_are_one_clean_error() -> None:
    table = [64 + number * _SEGMENT.size for number in range(len(segments()))]
    with pytest.raises(ArtifactError, match="it wants 0 bytes of memory"):
        load(with_numbers([one + field for one in table for field in (16, 32, 40)], 0))


def test_damaged_tables_give_an_error_or_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the bytes are: all but calling the code, which may then be anything."""

    def exported(query: int, *_: object) -> tuple[int, int]:
        return query, 0

    monkeypatch.setattr(module, "_exported", exported)
    end = max(one[2] + one[5] for one in segments())
    outcomes = {True: 0, False: 0}
    for seed in range(3000):
        draw, damaged = random.Random(seed), bytearray(vmfb())
        for _ in range(draw.choice([1, 1, 2, 8])):
            place = start() + draw.randrange(end)
            numbers = [damaged[place] ^ 1 << draw.randrange(8), draw.randrange(1 << 64), draw.randrange(1 << 14)]
            number = draw.choice([*numbers, 0, 1 << 32, 1 << 63, (1 << 64) - 1])
            length = 1 if number < 256 else 8
            damaged[place : place + length] = number.to_bytes(length, "little")
        try:
            load(bytes(damaged))
            outcomes[True] += 1
        except ArtifactError:
            outcomes[False] += 1
    assert min(outcomes.values()) > 100


def test_a_system_without_executable_memory_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under MemoryDenyWriteExecute of systemd, or SELinux."""

    def protect(address: int, size: int, rights: int) -> None:
        raise PermissionError(13, "mprotect")

    monkeypatch.setattr(module, "protect", protect)
    with pytest.raises(ArtifactError, match=r"gemm needs memory that can be executed; the system refuses: .*mprotect"):
        load(vmfb())


def test_a_library_for_aarch64_is_put_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but calling it, which this machine need not be able to: relocations, the table of symbols, its function."""
    found: list[tuple[int, int]] = []

    def exported(query: int, memory: object, base: int, *_: object) -> tuple[int, int]:
        found.append((query, base))
        return query, 0

    monkeypatch.setattr(module, "_exported", exported)
    monkeypatch.setattr(module, "architecture", lambda: "aarch64")
    code = compile_vmfb(hosted(gemm_interface(), gemm_kernel(gemm_interface()), "aarch64_v8"))
    loaded = load_code(code, "gemm", 3, 3)
    ((query, base),) = found
    assert loaded.function == query > base
    relocated = struct.unpack_from("<Q", loaded.memory, _place_of_relocation(code))
    assert base < relocated[0] < base + len(loaded.memory)
    with pytest.raises(
        ArtifactError, match="gemm is no vmfb with a kernel for aarch64: its machine is number 62, expected"
    ):
        load(vmfb())


def _place_of_relocation(code: bytes) -> int:
    """The first address that a library asks to be written, by its table of relocations."""
    elf = code[code.index(b"\x7fELF\x02\x01") :]
    segments = [_SEGMENT.unpack_from(elf, 64 + number * _SEGMENT.size) for number in range(elf[56])]
    (table,) = (one for one in segments if one[0] == 2)
    (place,) = (
        address for kind, address in struct.iter_unpack("<QQ", elf[table[2] : table[2] + table[5]]) if kind == 7
    )
    (offset,) = (one[2] + place - one[3] for one in segments if one[0] == 1 and one[3] <= place < one[3] + one[5])
    address, kind, _ = struct.unpack_from("<QQq", elf, offset)
    assert kind == 1027  # R_AARCH64_RELATIVE
    return address

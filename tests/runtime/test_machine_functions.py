"""Functions of Python that are machine code do what they say, and are what their listing says."""

from __future__ import annotations

import gc
import mmap
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from tests.aarch64 import functions
from tests.runtime.listings import compiled, has_compiler, has_disassembler, instructions, listing_of
from wavespec.runtime import direct_code
from wavespec.runtime import machine_functions as module
from wavespec.runtime.direct_code import CODE, TABLE
from wavespec.runtime.machine_functions import can_run, machine_function

needs_code = pytest.mark.skipif(not can_run(), reason="needs CPython on Linux, x86-64 or aarch64")


@needs_code
def test_places_are_told_as_functions_of_torch_do() -> None:
    functions.check_place()


@needs_code
def test_launches_get_what_they_are_told() -> None:
    functions.check_run()


@needs_code
def test_a_function_holds_what_it_was_made_with() -> None:
    class Holder:
        pass

    make = machine_function("run")
    holder = Holder()
    held, function = weakref.ref(holder), make(b"", holder)
    del holder
    gc.collect()
    assert held() is not None
    del function
    assert held() is None


_LATE = """
import os, torch
from wavespec.runtime.places import place_of

class Last:
    def __del__(self, place=place_of, tensor=torch.zeros(3), write=os.write):
        write(1, str(len(place(tensor))).encode())

torch.last = Last()  # goes when later modules have no globals any more
"""


@needs_code
def test_functions_are_there_until_python_ends() -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    run = subprocess.run([sys.executable, "-c", _LATE], env=environment, capture_output=True, timeout=60, check=False)
    assert (run.returncode, run.stdout) == (0, b"24"), run.stderr


@pytest.mark.parametrize("architecture", CODE)
def test_code_has_room_and_calls_by_its_table_alone(architecture: str) -> None:
    code = CODE[architecture]
    assert len(code.code) <= mmap.PAGESIZE and 8 * len(TABLE) <= mmap.PAGESIZE
    assert code.code[:8] == bytes(8) and 8 == code.place < code.run < len(code.code)


@pytest.mark.parametrize("unknown", [("platform", "darwin"), ("implementation", os)])
def test_another_python_has_none(unknown: tuple[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    if unknown[0] == "implementation":
        monkeypatch.setattr(module.sysconfig, "get_config_var", {"Py_GIL_DISABLED": 1}.get)
    else:
        monkeypatch.setattr(module.sys, *unknown)
    assert not can_run()


@pytest.mark.skipif(not has_disassembler(), reason="needs LLVM's disassembler")
@pytest.mark.parametrize("architecture", CODE)
def test_the_machine_code_is_what_its_comments_say(architecture: str) -> None:
    listing, code = listing_of(direct_code, architecture), CODE[architecture].code
    assert bytes.fromhex("".join(one for one, _, _ in listing)) == code[8:]
    assert [(place, text) for _, place, text in listing] == instructions(architecture, code[8:], 8)


_ASKED = "int (*{})(const void *, word *)"
_MEMBERS = {
    **dict.fromkeys(("tensor", "parameter", "plain"), "const void *{}"),
    **dict.fromkeys(("address", "offset", "bytes"), _ASKED),
    "at": "word {}",
    "as_bytes": "struct object *(*{})(const word *, long)",
    "as_number": "struct object *(*{})(long)",
    "text": "const word *(*{})(const struct object *)",
    "number": "word (*{})(const struct object *)",
    "body": "void (*{})(word *)",
    "space": "word *{}",
}
_TYPES = """
typedef unsigned long word;
struct object { word references; const void *type; };
struct table { %s };
__asm__(".text\\ntable: .quad 0\\n");
extern struct table *const table __attribute__((visibility("hidden")));
"""


@pytest.mark.skipif(not has_compiler(), reason="needs clang 22.1.8, by which it was made")
@pytest.mark.parametrize("architecture", CODE)
def test_the_machine_code_is_what_a_compiler_makes_of_its_c(architecture: str) -> None:
    members = " ".join(f"{_MEMBERS[one].format(one)};" for one in TABLE)
    said = str(direct_code.__doc__).split("::\n")[1].split("``table``")[0]
    assert compiled(architecture, _TYPES % members + said) == CODE[architecture].code

"""Machine code goes in; the instructions that LLVM's disassembler finds in it come out, to be compared with comments;
and C goes in, machine code comes out."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

_TOOLS = ("llvm-mc-22", "llvm-objdump-22")
_COMPILER = ("clang-22", "llvm-objcopy-22")
_VERSION = "22.1.8"
_FLAGS = {"x86_64": ["-fcf-protection=branch"], "aarch64": ["-mbranch-protection=bti", "-mcmodel=tiny"]}
_OF_ALL = ["-Os", "-fpic", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-stack-protector", "-c"]


def has_disassembler() -> bool:
    return all(map(shutil.which, _TOOLS))


def has_compiler() -> bool:
    """Whether the compiler that made the code is here: another one may write other bytes that are as right."""
    if not all(map(shutil.which, _COMPILER)):
        return False
    said = subprocess.run([_COMPILER[0], "--version"], capture_output=True, text=True, check=True).stdout
    return f"version {_VERSION} " in said


def compiled(architecture: str, text: str) -> bytes:
    """What clang makes of C that refers to nothing outside of it."""
    clang, objcopy = _COMPILER
    with TemporaryDirectory() as folder:
        source, made, code = (Path(folder) / name for name in ("functions.c", "functions.o", "functions.bin"))
        source.write_text(text)
        flags = [f"--target={architecture}-linux-gnu", *_OF_ALL, *_FLAGS[architecture]]
        subprocess.run([clang, *flags, source, "-o", made], check=True)
        subprocess.run([objcopy, "-O", "binary", "--only-section=.text", made, code], check=True)
        return code.read_bytes()


def listing_of(module: ModuleType, architecture: str) -> list[tuple[str, str, str]]:
    """Bytes, place and text of each instruction, as a file lists those of an architecture."""
    source = Path(str(module.__file__)).read_text()
    part = source.split(f"_{architecture.upper()}: Final = bytes.fromhex(\n")[1].split("\n)\n")[0]
    listed = re.findall(r'^    "([0-9a-f]+)" +# +([0-9a-f]+): (.*)$', part, re.MULTILINE)
    return [(code, place, _plain(text)) for code, place, text in listed]


def instructions(architecture: str, code: bytes, start: int = 0) -> list[tuple[str, str]]:
    """Place and text of each instruction of code that begins at ``start``."""
    mc, objdump = _TOOLS
    whole = bytes(start) + code
    words = struct.iter_unpack("<I", whole) if architecture == "aarch64" else ()
    text = "".join(f".inst {word}\n" for (word,) in words) or "".join(f".byte {byte}\n" for byte in whole)
    with TemporaryDirectory() as folder:
        source, made = Path(folder) / "body.s", Path(folder) / "body.o"
        source.write_text(text)
        subprocess.run([mc, f"--triple={architecture}", "--filetype=obj", "-o", made, source], check=True)
        command = [objdump, "-d", f"--start-address={start}", "--x86-asm-syntax=intel", "--no-show-raw-insn", made]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.sub(r"lock\n\s+[0-9a-f]+:\s+", "lock ", found)  # a prefix has a line of its own
    lines = re.findall(r"^\s+([0-9a-f]+):\s+(.*)$", found, re.MULTILINE)
    return [(place, _plain(one)) for place, one in lines]


def _plain(instruction: str) -> str:
    """Without widths of memory, spaces, names of places and notes."""
    text = re.sub(r"\b[qd]?word ptr |<.*>|;.*|//.*|# .*", "", instruction)
    return re.sub(r"\s+", "", text)

"""MLIR text in, machine code out: IREE in process, its messages brought back to the lines of the spec."""

from __future__ import annotations

import ctypes
import json
import re
import tempfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from wavespec.cache import CompileCache, cache_key
from wavespec.diagnostics import Span, WavespecError

_PACKAGE = "iree-base-compiler"
_ERROR = 2  # severities: note, warning, error


class CompilerFailure(WavespecError, code="compiler-failure"):
    """IREE refused the generated code: a bug of wavespec, or a limit of the machine that no pass knows."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What IREE made: the module or executable, and the files it dumped (name: bytes)."""

    module: bytes
    dumped: dict[str, bytes]

    def pack(self) -> bytes:
        """As one string of bytes: the length of a JSON list of names and sizes, that list, the contents."""
        files = {"": self.module, **self.dumped}
        table = json.dumps([(name, len(data)) for name, data in files.items()]).encode()
        return b"".join((len(table).to_bytes(4, "little"), table, *files.values()))

    @staticmethod
    def unpack(data: bytes) -> Compiled:
        """What `pack` made a string of bytes of."""
        offset = 4 + int.from_bytes(data[:4], "little")
        files: dict[str, bytes] = {}
        for name, size in json.loads(data[4:offset]):
            files[name] = data[offset : offset + size]
            offset += size
        return Compiled(files.pop(""), files)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a compilation depends on.  ``phase``: see `compile_module`."""

    text: str
    whole_program: bool
    intermediates: bool
    phase: str = ""


def compile_executable(text: str, *, intermediates: bool = False, cache: CompileCache | None = None) -> Compiled:
    """Compile one `hal.executable`; the binaries (PTX, HSACO) and, if asked, the ISA text are in ``dumped``."""
    return _cached(_Asked(text, False, intermediates), cache)


def compile_module(
    text: str, phase: str, *, intermediates: bool = False, cache: CompileCache | None = None
) -> Compiled:
    """Compile a whole program to a vmfb.

    Args:
        phase: of IREE's compiler; the program is as that leaves it.
    """
    return _cached(_Asked(text, True, intermediates, phase), cache)


@cache
def compiler_version() -> str:
    """Version of the compiler package, for cache keys; its metadata is read once."""
    from importlib.metadata import version

    return version(_PACKAGE)


def compiler_name() -> str:
    """The compiler and its version, as manifests have it."""
    return f"{_PACKAGE} {compiler_version()}"


def _cached(asked: _Asked, cache: CompileCache | None) -> Compiled:
    """What ``cache`` has of the same text: most changes of wavespec leave the code of most kernels as it was."""
    if cache is None:
        return _compile(asked)
    key = cache_key({**asdict(asked), "iree": compiler_version()})
    return Compiled.unpack(cache.get_or_build(key, lambda: _compile(asked).pack()))


def _compile(asked: _Asked) -> Compiled:
    from iree.compiler.api import Output, Session, Source
    from iree.compiler.api.ctypes_dl import PipelineType

    # What a compilation has refers to the session that it is in, and that to it: all of it is closed where it fails, too.
    with tempfile.TemporaryDirectory() as directory, Session() as session:
        # A program has its binaries inside: they are kept twice only for those who ask.
        binaries = asked.intermediates or not asked.whole_program
        dumps = [f"--iree-hal-dump-executable-binaries-to={directory}"] if binaries else []
        if asked.intermediates:
            dumps.append(f"--iree-hal-dump-executable-intermediates-to={directory}")
        session.set_flags(*dumps)
        pipeline = (
            PipelineType.IREE_COMPILER_PIPELINE_STD
            if asked.whole_program
            else PipelineType.IREE_COMPILER_PIPELINE_HAL_EXECUTABLE
        )
        source = Source.wrap_buffer(session, asked.text.encode() + b"\0")  # pyright: ignore[reportUnknownMemberType]
        with session.invocation() as invocation:
            messages = _collect_messages(invocation)
            _trust_passes(invocation)
            if asked.phase:
                begin_behind(invocation, asked.phase)
            if not invocation.parse_source(source) or not invocation.execute(pipeline):
                raise _failure(messages)
            module = b""
            if asked.whole_program:
                output = Output.open_membuffer()
                invocation.output_vm_bytecode(output)
                module = bytes(output.map_memory())
                output.close()
            dumped = {path.name: path.read_bytes() for path in sorted(Path(directory).iterdir())}
        return Compiled(module, dumped)


def _collect_messages(invocation: Any) -> list[str]:
    """Have the compiler report into a list; the Python bindings only know how to print."""
    from iree.compiler.api import ctypes_dl

    messages: list[str] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t, ctypes.c_void_p)

    def receive(severity: int, text: Any, length: int, _: Any) -> None:
        if severity >= _ERROR:
            messages.append(ctypes.string_at(text, length).decode(errors="replace"))

    callback = kind(receive)
    library: Any = ctypes_dl._dylib  # pyright: ignore[reportPrivateUsage]
    enable = library.ireeCompilerInvocationEnableCallbackDiagnostics
    enable.argtypes, enable.restype = [ctypes.c_void_p, ctypes.c_int, kind, ctypes.c_void_p], None
    enable(invocation._inv_p, 0, callback, None)
    invocation.keep_callback = callback  # it must outlive the compilation
    return messages


def _trust_passes(invocation: Any) -> None:
    """Not verify the IR again after each pass of the compiler: a quarter of its time. What we wrote is verified when
    it is read."""
    from iree.compiler.api import ctypes_dl

    library: Any = ctypes_dl._dylib  # pyright: ignore[reportPrivateUsage]
    verify = library.ireeCompilerInvocationSetVerifyIR
    verify.argtypes, verify.restype = [ctypes.c_void_p, ctypes.c_bool], None
    verify(invocation._inv_p, False)


def begin_behind(invocation: Any, phase: str) -> None:
    """Have a compilation leave out the phases of IREE's compiler up to this one."""
    from iree.compiler.api import ctypes_dl

    library: Any = ctypes_dl._dylib  # pyright: ignore[reportPrivateUsage]
    begin = library.ireeCompilerInvocationSetCompileFromPhase
    begin.argtypes, begin.restype = [ctypes.c_void_p, ctypes.c_char_p], None
    begin(invocation._inv_p, phase.encode())


def _failure(messages: list[str]) -> CompilerFailure:
    where: Span | None = None
    lines: list[str] = []
    for message in messages:
        found = re.search(r'loc\("([^"]+)":(\d+):(\d+)\)|([^\s:"]+\.wave\.yaml):(\d+):(\d+)', message)
        if found and where is None:
            file, line, column = (found.group(i) or found.group(i + 3) for i in (1, 2, 3))
            where = Span(file, int(line), int(column), int(line), int(column) + 1)
        lines.append(message.strip().splitlines()[0] if message.strip() else "")
    return CompilerFailure(where, "The compiler refused the generated code.", notes=lines[:5] or ["It gave no reason."])

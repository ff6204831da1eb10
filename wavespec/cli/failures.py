"""An exception goes in; a message on stderr (or JSON on stdout) and the exit code of the process come out."""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wavespec.cli.terminal import print_diagnostics
from wavespec.diagnostics import Diagnostic, WavespecError, to_json

FAILED = 1
"""A wrong result, or a build that failed."""
BAD_INPUT = 2
"""A mistake in a spec, an option or an argument."""

# Failures that no change of the spec or of the options mends.
_FAILED_CODES = frozenset(
    {"compiler-failure", "measuring-failed", "no-device", "not-enough-memory", "nothing-compiles"}
)


@dataclass(slots=True)
class Mode:
    """How this process reports: set by the options that were given."""

    debug: bool = False
    json: bool = False


MODE = Mode()


def write_json(data: dict[str, Any]) -> None:
    """One JSON document on stdout."""
    print(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


def report_failure(error: Exception) -> int:
    """Say what went wrong; returns the exit code."""
    if isinstance(error, WavespecError):
        if MODE.json:
            write_json({"ok": False, "diagnostics": [to_json(diagnostic) for diagnostic in error.diagnostics]})
        print_diagnostics(error.diagnostics)
        return FAILED if any(d.code in _FAILED_CODES for d in error.diagnostics) else BAD_INPUT
    if isinstance(error, OSError):
        _report("file-error", f"{error.filename or 'the system'}: {(error.strerror or str(error)).lower()}.")
        return BAD_INPUT
    # Their modules import torch: whoever raised one has it loaded.
    name = type(error).__name__
    if type(error).__module__.startswith("wavespec.runtime.") and name.startswith(("Argument", "Artifact")):
        code = "argument-error" if name.startswith("Argument") else "artifact-error"
        _report(code, str(error))
        return BAD_INPUT if name.startswith("Argument") else FAILED
    _report_bug(error)
    return FAILED


def _report(code: str, message: str) -> None:
    if MODE.json:
        write_json({"ok": False, "diagnostics": [{"code": code, "severity": "error", "message": message}]})
    print_diagnostics([Diagnostic(code, message)])


def _report_bug(error: Exception) -> None:
    if MODE.debug:
        traceback.print_exception(error)
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "wavespec" in Path(frame.filename).parts]
    frame = (ours or frames)[-1]
    parts = Path(frame.filename).parts
    file = "/".join(parts[len(parts) - 1 - parts[::-1].index("wavespec") :]) if ours else Path(frame.filename).name
    first_line = next(iter(str(error).splitlines()), "")
    what = f"{type(error).__name__}: {first_line:.300}" if first_line else type(error).__name__
    _report("internal-error", f"{what} ({file}:{frame.lineno})")
    print(
        "This is a bug in wavespec, not in your spec. Please report it with spec, command and this message"
        + ("." if MODE.debug else "; 'wavespec --debug ...' prints the traceback."),
        file=sys.stderr,
    )

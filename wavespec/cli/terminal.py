"""Diagnostics go in; text for the stream that somebody reads comes out, in colour where it is a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TextIO

from wavespec.diagnostics import Diagnostic, Style, render_all

_CODES: dict[Style, str] = {"error": "1;31", "warning": "1;33", "place": "1", "note": "1;36", "hint": "1;32"}


def print_diagnostics(diagnostics: Iterable[Diagnostic]) -> None:
    """On stderr; nothing for none."""
    every = list(diagnostics)
    if not every:
        return
    if has_colours(sys.stderr):
        print(render_all(every, _painted), file=sys.stderr)
    else:
        print(render_all(every), file=sys.stderr)


def has_colours(stream: TextIO) -> bool:
    """Whether it is a terminal that has colours, of somebody who wants them: https://no-color.org."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _painted(style: Style, text: str) -> str:
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"

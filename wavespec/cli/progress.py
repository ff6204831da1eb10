"""Words about a slow step go in; a spinner on stderr comes out where somebody watches, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

from wavespec.diagnostics import printable


@contextmanager
def progress(words: str) -> Generator[None]:
    """Show `words` while the body runs."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(printable(words))):
        yield

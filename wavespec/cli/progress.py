"""Words about a slow step go in; a spinner on stderr comes out where somebody watches, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from wavespec.diagnostics import printable


@contextmanager
def counted(done: str) -> Generator[Callable[[str], None]]:
    """Something to call with words about each part of the body that is done; they are shown with their number."""
    if not sys.stderr.isatty():
        yield lambda words: None
        return
    from itertools import count

    from rich.console import Console
    from rich.markup import escape

    numbers = count(1)
    with Console(stderr=True).status("looking at the specs") as status:
        yield lambda words: status.update(escape(printable(f"{done} {next(numbers)}: {words}")))


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

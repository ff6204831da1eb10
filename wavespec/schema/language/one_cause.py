"""Errors of one spec go in; those that have a cause of their own come out, each once, with the lines of its others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wavespec.diagnostics import Span, WavespecError, enumeration

_SAID_ONCE = (
    "undefined-name",
    "unknown-function",
    "dim-not-tiled",
    "incomplete-workload",
    "unknown-part",
    "unknown-output",
    "wrong-type",
)
"""Codes of errors that say the same at every use of what is not there."""

_Cause = tuple[str, tuple[str, ...]]
"""A code, and the names that it is about."""


def said_once(errors: Sequence[WavespecError]) -> list[WavespecError]:
    """The errors, a name that is not there said once, with the lines of its other uses."""
    first: dict[_Cause, WavespecError] = {}
    others: dict[_Cause, list[Span]] = {}
    kept: list[WavespecError] = []
    for error in errors:
        cause, span = _cause(error), error.diagnostics[0].span
        if cause is None or span is None:
            kept.append(error)
        elif cause in first:
            others.setdefault(cause, []).append(span)
        else:
            first[cause] = error
            kept.append(error)
    for cause, spans in others.items():
        (found,) = first[cause].diagnostics
        lines = sorted({span.line for span in spans} - {found.span.line if found.span else 0})
        if lines:
            also = f"It is in line{'s' if lines[1:] else ''} {enumeration(map(str, lines))} as well."
            first[cause].diagnostics = (replace(found, notes=(*found.notes, also)),)
    return kept


def _cause(error: WavespecError) -> _Cause | None:
    """What is wrong, where that may be said at several places: a name that is no dim here and no parameter there lacks
    one definition."""
    about = error.diagnostics[0].about
    return (error.code, about) if about and error.code in _SAID_ONCE else None

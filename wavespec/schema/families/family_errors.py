"""Mistakes in members of a family go in; each comes out once, with the names of the members that have it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace

from wavespec.diagnostics import Diagnostic, WavespecError, in_order

_MOST_NAMED = 3


@contextmanager
def naming_member(label: str) -> Generator[None]:
    """Mistakes that are found inside say which member they are of; an empty label is no member."""
    try:
        yield
    except WavespecError as error:
        if not label:
            raise
        raise WavespecError.of(in_member(found, label) for found in error.diagnostics) from None


def in_member(found: Diagnostic, label: str) -> Diagnostic:
    return replace(found, notes=(*found.notes, f"In the member {label}."))


def in_members(found: Iterable[tuple[str, Diagnostic]], labels: Sequence[str]) -> tuple[Diagnostic, ...]:
    """Diagnostics with the labels of their members, each once, sorted by position.

    Args:
        labels: of all members.
    """
    members: dict[Diagnostic, list[str]] = {}
    for label, diagnostic in found:
        names = members.setdefault(diagnostic, [])
        if label not in names:
            names.append(label)
    return in_order(replace(one, notes=(*one.notes, _note(names, labels))) for one, names in members.items())


def _note(names: Sequence[str], labels: Sequence[str]) -> str:
    if len(names) == 1:
        return f"In the member {names[0]}."
    if len(names) == len(labels):
        return f"In all {len(names)} members."
    shown = names if len(names) <= _MOST_NAMED else [*names[: _MOST_NAMED - 1], f"{len(names) - _MOST_NAMED + 1} more"]
    return f"In the members {', '.join(shown[:-1])} and {shown[-1]}."

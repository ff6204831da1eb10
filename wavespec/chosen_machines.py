"""What somebody called a target goes in; its machines come out, or the mistake in the name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wavespec.diagnostics import WavespecError, Where, name_hints, quote, raise_all
from wavespec.schema.language.errors import UnknownTarget
from wavespec.targets.machine import Machine, machines, variants
from wavespec.targets.names import TARGETS


class UnknownVariant(WavespecError, code="unknown-variant"):
    """A target has no such variant."""

    def __init__(self, where: Where, name: str, target: str, known: Iterable[str]) -> None:
        hints = name_hints(name, known, "Its variants are")
        super().__init__(where, f"{quote(name)} is not a variant of {target}.", hints=hints)


def chosen_machines(target: str) -> tuple[Machine, ...]:
    """`machines` of ``TARGET`` or ``TARGET:VARIANT+VARIANT``.

    Raises:
        WavespecError: no such target, or variant of it.
    """
    raise_all(wrong_names(target, None, TARGETS))
    return machines(target)


def wrong_names(name: str, where: Where, allowed: Sequence[str]) -> list[WavespecError]:
    """What is wrong with ``TARGET`` or ``TARGET:VARIANT+VARIANT``, given at ``where``; ``allowed``: the targets, and
    what may stand in the place of one, without variants."""
    target, colon, names = name.partition(":")
    if target not in allowed or (colon and target not in TARGETS):
        return [UnknownTarget(where, name, allowed)]
    known = [machine.variant for machine in variants(target)] if colon else []
    wrong = [one for one in names.split("+") if one not in known] if colon else []
    return [UnknownVariant(where, one, target, known) for one in wrong]

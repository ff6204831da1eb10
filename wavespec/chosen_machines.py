"""What somebody called a target goes in; its machines come out, or the mistake in the name."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.diagnostics import WavespecError, Where, raise_all
from wavespec.schema.language.errors import UnknownTarget, UnknownVariant
from wavespec.targets.machine import Machine, machines
from wavespec.targets.names import TARGETS, VARIANTS


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
    wrong = [one for one in names.split("+") if one not in VARIANTS[target]] if colon else []
    return [UnknownVariant(where, one, target) for one in wrong]

"""What somebody called a target goes in; its machines come out, or the mistake in the name."""

from __future__ import annotations

from collections.abc import Iterable

from wavespec.diagnostics import WavespecError, Where, name_hints, quote
from wavespec.schema.language.errors import UnknownTarget
from wavespec.targets.machine import Machine, machines, variants
from wavespec.targets.names import TARGETS, target_of, variants_in


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
    name = target_of(target)
    if name not in TARGETS:
        raise UnknownTarget(None, name, TARGETS)
    known = [machine.variant for machine in variants(name)]
    for variant in sorted(variants_in(target) - {*known}):
        raise UnknownVariant(None, variant, name, known)
    return machines(target)

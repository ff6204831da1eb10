"""Properties that kernels have from one pass on: what passes declare, when it is checked, what a broken one says."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.verifier import VerificationError
from wavespec.targets.machine import Machine

CHECK_PASSES = "WAVESPEC_CHECK_PASSES"
"""The environment variable that has contracts checked: any text but ``0``."""

Breach = tuple[Op | None, str]
"""The operation that breaks a property, where it is one, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Property:
    """What a pass may promise and later ones may build on.

    A pass that ``ensures`` it makes it hold; from there on it holds after every pass, up to one that ``drops`` it.
    ``breaches`` gives what breaks it in a kernel; nothing where it holds.
    """

    name: str
    level: Literal["tile", "thread"] | None
    doc: str
    breaches: Callable[[Kernel, Machine], Iterable[Breach]] = field(compare=False)

    def __str__(self) -> str:
        return self.name


def property_of(
    level: Literal["tile", "thread"] | None,
) -> Callable[[Callable[[Kernel, Machine], Iterable[Breach]]], Property]:
    """A decorator that makes a property of kernels of a level (None: of both) of a function that finds breaches."""

    def named(breaches: Callable[[Kernel, Machine], Iterable[Breach]]) -> Property:
        doc = " ".join((breaches.__doc__ or "").split())
        return Property(breaches.__name__.replace("_", "-"), level, doc, breaches)

    return named


class ContractError(VerificationError):
    """A kernel lacks what a pass requires, or has to leave behind: a bug of the compiler, never of the user."""


def are_checked() -> bool:
    """Whether passes check contracts: in tests, and where `CHECK_PASSES` asks for it."""
    return os.environ.get(CHECK_PASSES, "0") not in ("", "0")


def check(kernel: Kernel, machine: Machine, properties: Sequence[Property], when: str) -> None:
    """Raise `ContractError` for the first of the properties that the kernel does not have; ``when``: at what moment."""
    for one in properties:
        if one.level not in (None, kernel.level):
            raise _broken(kernel, one, None, f"it is at {kernel.level} level", when)
        for op, what in one.breaches(kernel, machine):
            raise _broken(kernel, one, op, what, when)


def _broken(kernel: Kernel, broken: Property, op: Op | None, what: str, when: str) -> ContractError:
    place = f" ({op.span.file}:{op.span.line}:{op.span.column})" if op and op.span else ""
    named = f", operation '{op.name}'{place}" if op else ""
    return ContractError(f"{when}: kernel '{kernel.name}'{named}: {what} ({broken.name}: {broken.doc})")

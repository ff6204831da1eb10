"""A spec, a path or a family goes in; the one kernel that is meant comes out, or an error that says how to name it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

from wavespec.diagnostics import WavespecError, quote
from wavespec.schema.families.expand import Family, expand
from wavespec.schema.families.load_family import is_family_file, load_family
from wavespec.schema.language.family import FamilySpec
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.load import load


class WhichMember(WavespecError, code="member-needed"):
    """One kernel has to be chosen from a family."""

    def __init__(self, family: Family) -> None:
        labels = "; ".join(quote(member.label) for member in family.members)
        super().__init__(
            family.spec.name,
            "This is a family; which of its kernels is meant?",
            hints=[f"'member=' names one of them: {labels}."],
        )


class NoMembers(WavespecError, code="not-a-family"):
    """A member was asked for of what is one kernel."""

    def __init__(self, kernel: str) -> None:
        super().__init__(kernel, "This is one kernel, not a family.", hints=["Leave 'member' out."])


def kernel_meant(spec: KernelSpec | Family | FamilySpec | str | os.PathLike[str], member: str = "") -> KernelSpec:
    """The kernel itself, that of a file, or a member of a family: without ``member`` that of the first types.

    Raises:
        WhichMember: a family has no first one.
        NoMembers: a member of what is one kernel.
        TypeError: what is neither a kernel nor a family, nor the path of one.
    """
    given = cast("object", spec)  # whatever somebody passed
    if isinstance(given, str) and "\n" in given:
        raise TypeError("Expected a KernelSpec, the path of a spec, or a Family, found a text; read it by 'ws.loads'.")
    if isinstance(given, str | os.PathLike):
        path = Path(os.fspath(given))
        given = load_family(path) if is_family_file(path) else load(path)
    if isinstance(given, FamilySpec):
        given = expand(given)
    if isinstance(given, Family):
        if member:
            return given.member(member).spec
        if given.plain is None:
            raise WhichMember(given)
        return given.plain.spec
    if not isinstance(given, KernelSpec):
        what = type(given).__name__
        builder = "; call its 'build()'" if hasattr(given, "build") else ""
        raise TypeError(f"Expected a KernelSpec, the path of a spec, or a Family, found {what}{builder}.")
    if member:
        raise NoMembers(given.name)
    return given

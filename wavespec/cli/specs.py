"""Paths and options go in; the specs that they mean come out: files of a folder, members of a family."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wavespec.diagnostics import WavespecError, quote_path

if TYPE_CHECKING:
    from wavespec.schema import KernelSpec
    from wavespec.schema.families.expand import Family

MemberOption = Annotated[
    str,
    typer.Option("--member", metavar="NAME=VALUE,...", help="One kernel of a family.", show_default="all of them"),
]


class NoSpecs(WavespecError, code="no-specs"):
    """A folder was named in which no specs are."""

    def __init__(self, folder: Path, hint: str) -> None:
        super().__init__(None, f"There is no .wave.yaml file in {folder}.", hints=[hint])


class NotAFamily(WavespecError, code="not-a-family"):
    """A member was asked for of a file that has one kernel."""

    def __init__(self, file: Path) -> None:
        super().__init__(
            "--member", f"{quote_path(file)} is one kernel, not a family.", hints=["Leave '--member' out."]
        )


class MemberNeeded(WavespecError, code="member-needed"):
    """One kernel has to be chosen from a family."""

    def __init__(self, family: Family) -> None:
        labels = "; ".join(member.label for member in family.members)
        super().__init__(
            "--member", f"{family.spec.name} is a family; which of its kernels is meant?", hints=[f"One of: {labels}."]
        )


def spec_files(paths: Iterable[Path], *, tuned: bool = False) -> list[Path]:
    """The files that are meant, folders replaced by the specs in and below them; `tuned` with settings beside specs.

    Raises:
        NoSpecs: a folder has none.
    """
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        suffixes = (".wave.yaml", ".tuned.yaml") if tuned else (".wave.yaml",)
        below = (found.relative_to(path) for found in path.rglob("*.yaml") if found.name.endswith(suffixes))
        found = sorted(path / one for one in below if not any(part.startswith(".") for part in one.parts))
        if not found:
            raise NoSpecs(path, "Name a folder with specs, or the files themselves.")
        files += found
    return files


def kernels_of(path: Path, member: str = "") -> list[tuple[str, KernelSpec]]:
    """The kernels in a file, each with what `--member` calls it: one with an empty name, or those of a family.

    Raises:
        WavespecError: with a diagnostic for every mistake of the file.
    """
    from wavespec.schema import load

    if (family := family_of(path)) is not None:
        members = [family.member(member, "--member")] if member else family.members
        return [(one.label, one.spec) for one in members]
    if member:
        raise NotAFamily(path)
    return [("", load(path))]


def kernel_of(path: Path, member: str = "") -> tuple[str, KernelSpec]:
    """Like `kernels_of` for commands that work on one kernel: without `member` that of the first types, where the file
    is a kernel with `dtypes`.

    Raises:
        MemberNeeded: the file has several.
    """
    if not member and (family := family_of(path)) is not None and len(family.members) > 1:
        if (plain := family.plain) is None:
            raise MemberNeeded(family)
        return plain.label, plain.spec
    return kernels_of(path, member)[0]


def family_of(path: Path) -> Family | None:
    """The family in a file; `None` where it says that it is something else, or cannot be read."""
    from wavespec.schema.families.load_family import is_family_file, load_family

    return load_family(path) if is_family_file(path) else None

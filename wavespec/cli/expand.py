"""`wavespec expand`: a family in, the YAML of its members out; or a spec, and the kernel that it makes of others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wavespec.cli.specs import MemberOption, NotAFamily
from wavespec.diagnostics import WavespecError, printable, quote_path

if TYPE_CHECKING:
    from wavespec.schema.families.expand import Family

_MARK = "# Expanded by wavespec from"


class NotExpanded(WavespecError, code="not-expanded"):
    """A file that `wavespec expand` did not write is where a member belongs."""

    def __init__(self, path: Path) -> None:
        hints = ["Choose another folder, or move the file away."]
        super().__init__(
            None, f"{quote_path(path)} was not written by 'wavespec expand' and is not overwritten.", hints=hints
        )


def expand(
    family: Annotated[Path, typer.Argument(metavar="FILE", help="The family, or a spec that extends others.")],
    member: MemberOption = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Write a spec per member, not to stdout.")
    ] = None,
) -> None:
    """Print the kernels of a family as its template gives them, or the kernel that a spec makes of what it extends,
    of parts and aliases; or write them as specs of their own."""
    from wavespec.schema.families.load_family import is_family_file, load_family

    if not is_family_file(family):
        _expand_kernel(family, member, output)
        return
    if output is not None:
        _write(load_family(family), family, member, output)
        return
    try:
        loaded = load_family(family)
    except WavespecError as error:
        texts = {} if member else _texts_as_written(family)
        if not texts:
            raise error from None
        name = family.name
    else:
        chosen = [loaded.member(member, "--member")] if member else loaded.members
        name, texts = loaded.spec.name, {one.label: one.text for one in chosen}
    print("---\n".join(f"# {name}: {label}\n{text.rstrip()}\n" for label, text in texts.items()), end="")


def _texts_as_written(file: Path) -> dict[str, str]:
    """The members of a template that is wrong: this is where one looks for what went wrong with it."""
    from wavespec.schema.families.load_family import family_spec, is_template_file
    from wavespec.schema.families.members import Members, members_of_grid
    from wavespec.schema.language.family import member_label
    from wavespec.schema.reading.source_files import read_text
    from wavespec.schema.reading.spec_file import SpecFile

    if not is_template_file(file):
        return {}
    spec = family_spec(read_text(file, None, follow_links=True), str(file), file)
    members = Members(spec, SpecFile.of(str(file), file))
    return {member_label(values): members.text(values) for values in members_of_grid(spec)}


def _expand_kernel(file: Path, member: str, folder: Path | None) -> None:
    from wavespec.schema.load import load_untuned
    from wavespec.schema.reading.source_files import SPEC_SUFFIX
    from wavespec.schema.reading.spec_to_yaml import dump_yaml

    if member:
        raise NotAFamily(file)
    spec, _ = load_untuned(file)
    text = dump_yaml(spec)
    if folder is None:
        print(text, end="")
    else:
        _write_files({folder / f"{spec.name}{SPEC_SUFFIX}": f"{_MARK} {file.name}.\n{text}"})


def _write(family: Family, source: Path, member: str, folder: Path) -> None:
    from wavespec.schema.reading.source_files import SPEC_SUFFIX

    chosen = [family.member(member, "--member")] if member else family.members
    files: dict[Path, str] = {}
    for one in chosen:
        files[folder / f"{one.name}{SPEC_SUFFIX}"] = f"{_MARK} {source.name} ({one.label}).\n{one.text.rstrip()}\n"
    _write_files(files)


def _write_files(files: dict[Path, str]) -> None:
    from wavespec.runtime.files import replace_file

    for path in files:
        if path.is_file() and not path.read_text(encoding="utf-8", errors="replace").startswith(_MARK):
            raise NotExpanded(path)
    for path, text in files.items():
        replace_file(path, text.encode())
        print(printable(str(path)))

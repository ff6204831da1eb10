"""`wavespec expand`: a family in, the YAML of its members out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wavespec.cli.specs import MemberOption
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
    family: Annotated[Path, typer.Argument(metavar="FAMILY", help="The family.")],
    member: MemberOption = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Write a spec per member, not to stdout.")
    ] = None,
) -> None:
    """Print the kernels of a family as its template gives them, or write them as specs of their own."""
    from wavespec.schema.families.expand import member_text, members_of_grid
    from wavespec.schema.families.load_family import family_spec, is_template_file, load_family
    from wavespec.schema.language.family import member_label
    from wavespec.schema.reading.source_files import read_text

    if output is not None:
        _write(load_family(family), family, member, output)
        return
    if not is_template_file(family):
        loaded = load_family(family)
        chosen = [loaded.member(member, "--member")] if member else loaded.members
        print("---\n".join(f"# {loaded.spec.name}: {one.label}\n{one.text}" for one in chosen), end="")
        return
    # Members are printed right or wrong: this is where one looks for what a template went wrong with.
    spec = family_spec(read_text(family, None, follow_links=True), str(family))
    grid = members_of_grid(spec)
    if member:
        wanted = load_family(family).member(member, "--member").values
        grid = (wanted,)
    texts = [f"# {spec.name}: {member_label(values)}\n{member_text(spec, values).rstrip()}\n" for values in grid]
    print("---\n".join(texts), end="")


def _write(family: Family, source: Path, member: str, folder: Path) -> None:
    from wavespec.runtime.files import replace_file
    from wavespec.schema.reading.source_files import SPEC_SUFFIX
    from wavespec.schema.reading.spec_to_yaml import dump_yaml

    chosen = [family.member(member, "--member")] if member else family.members
    files = {folder / f"{one.name}{SPEC_SUFFIX}": one for one in chosen}
    for path in files:
        if path.is_file() and not path.read_text(encoding="utf-8", errors="replace").startswith(_MARK):
            raise NotExpanded(path)
    for path, one in files.items():
        # A base is a path from where the family is: in another folder the whole kernel has to be written out.
        has_base = any(line.startswith("extends:") for line in one.text.splitlines())
        text = dump_yaml(one.spec) if has_base else one.text
        replace_file(path, f"{_MARK} {source.name} ({one.label}).\n{text.rstrip()}\n".encode())
        print(printable(str(path)))

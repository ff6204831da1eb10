"""`wavespec schema` and `wavespec generate`: what follows from the models and from the specs of a project."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from wavespec.cli import failures
from wavespec.cli.progress import progress
from wavespec.diagnostics import WavespecError


class NoSpecs(WavespecError, code="no-specs"):
    """`wavespec generate` was run where no specs are."""

    def __init__(self, root: Path) -> None:
        hints = ["Run it in the folder that has 'specs/', or name that with --root."]
        super().__init__(None, f"There is no .wave.yaml file in {root / 'specs'}.", hints=hints)


def schema(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there, not to stdout.")
    ] = None,
) -> None:
    """Print the JSON Schema of specs, for editors."""
    from wavespec.schema.json_schema import json_schema

    if output is None:
        failures.write_json(json_schema())
        return
    from pathlib import PurePosixPath

    from wavespec.generate import schema_text, write_files

    write_files({PurePosixPath(output.name): schema_text().encode()}, output.parent)


def generate(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail where a file is not up to date.")] = False,
    root: Annotated[Path, typer.Option(help="Folder of the project: it has 'specs/'.")] = Path(),
) -> None:
    """Regenerate generated/ from every spec in specs/."""
    if not any((root / "specs").glob("*.wave.yaml")):
        raise NoSpecs(root)
    from wavespec.generate import orphans, project_files, stale_files, write_files

    with progress("building every spec for every target"):
        files = project_files(root)
    if not check:
        gone = orphans(files, root)
        changed = write_files(files, root)
        for path in gone:
            path.unlink()
        print(f"{len(files)} files, {len(changed)} written, {len(gone)} removed")
        return
    if stale := stale_files(files, root):
        print("\n".join(stale), file=sys.stderr)
        print("Not up to date; run 'wavespec generate'.", file=sys.stderr)
        raise typer.Exit(failures.FAILED)
    print(f"{len(files)} files are up to date")

"""`wavespec schema` and `wavespec generate`: what follows from the models and from the specs of a project."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from wavespec.cli import failures
from wavespec.cli.progress import counted
from wavespec.cli.specs import NoSpecs
from wavespec.diagnostics import printable


def schema(
    kind: Annotated[Literal["kernel", "family"], typer.Option(help="What the files describe.")] = "kernel",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there, not to stdout.")
    ] = None,
) -> None:
    """Print the JSON Schema of specs, for editors."""
    from wavespec.schema.reading.json_schema import family_json_schema, json_schema

    made = json_schema() if kind == "kernel" else family_json_schema()
    if output is None:
        failures.write_json(made)
        return
    from pathlib import PurePosixPath

    from wavespec.generate import schema_text, write_files

    write_files({PurePosixPath(output.name): schema_text(made).encode()}, output.parent)


def generate(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail where a file is not up to date.")] = False,
    code: Annotated[
        bool, typer.Option("--code", help="With --check: compile, and compare the machine code, too.")
    ] = False,
    root: Annotated[Path, typer.Option(help="Folder of the project: it has 'specs/'.")] = Path(),
) -> None:
    """Regenerate generated/ from every spec in specs/, for every target; what an interrupted run built is in the cache.

    With --check the MLIR of every kernel is made, and compared by its hash: nothing is compiled.
    """
    if not any((root / "specs").glob("*.wave.yaml")):
        raise NoSpecs(root / "specs", "Run it in the folder that has 'specs/', or name that with --root.")
    from wavespec.generate import orphans, project_files, stale_files, write_files

    compiled = code or not check
    with counted("built" if compiled else "emitted") as report:
        files = project_files(root, code=compiled, report=report)
    if not check:
        gone = orphans(files, root)
        changed = write_files(files, root)
        for path in gone:
            path.unlink()
        print(f"{len(files)} files, {len(changed)} written, {len(gone)} removed")
        return
    if stale := stale_files(files, root):
        print(printable("\n".join(stale)), file=sys.stderr)
        print("Not up to date; run 'wavespec generate'.", file=sys.stderr)
        raise typer.Exit(failures.FAILED)
    print(f"{len(files)} files are up to date")

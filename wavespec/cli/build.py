"""`wavespec build`: a spec in, its wrapper and compiled kernels out, all or nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from wavespec.cli import failures
from wavespec.cli.inputs import ALL, chosen_targets
from wavespec.cli.progress import progress
from wavespec.cli.specs import MemberOption, family_of, kernels_of
from wavespec.diagnostics import printable


def build(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The spec.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for wrapper and kernels.")],
    target: Annotated[
        list[str] | None, typer.Option(help="Machine to build for (repeatable, or 'all').  [default: all]")
    ] = None,
    member: MemberOption = "",
    isa: Annotated[bool, typer.Option("--isa", help="Also write the assembly of every kernel.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Write the result as JSON to stdout.")] = False,
) -> None:
    """Compile a spec, or all kernels of a family; write DIR/NAME.py, which calls it, and DIR/NAME.artifacts/."""
    failures.MODE.json = json
    from wavespec.generate import family_files, kernel_files, write_files
    from wavespec.schema.families.family_errors import naming_member

    targets = chosen_targets(target or [ALL])
    start = time.perf_counter()
    if not member and (family := family_of(spec)) is not None:
        name = family.spec.name
        with progress(f"building {len(family.members)} kernels of {name} for {', '.join(targets)}"):
            files = family_files(family, targets, _source(spec), command="wavespec build", isa=isa)
    else:
        ((label, kernel),) = kernels_of(spec, member)
        name = kernel.name
        with progress(f"building {name} for {', '.join(targets)}"), naming_member(label):
            files = kernel_files(kernel, targets, _source(spec), command="wavespec build", isa=isa)
    changed = {path.relative_to(output).as_posix() for path in write_files(files, output)}
    seconds = time.perf_counter() - start
    if json:
        rows = [
            {"path": str(output / name), "bytes": len(d), "changed": str(name) in changed} for name, d in files.items()
        ]
        failures.write_json({"ok": True, "kernel": name, "targets": targets, "seconds": seconds, "files": rows})
        return
    for name, data in files.items():
        print(printable(f"{output / name}  {len(data)} bytes{'' if str(name) in changed else ', unchanged'}"))


def _source(spec: Path) -> str:
    """The path of the spec as its wrapper names it: relative where that is possible, never absolute."""
    if not spec.is_absolute():
        return spec.as_posix()
    here = Path.cwd()
    return spec.relative_to(here).as_posix() if spec.is_relative_to(here) else spec.name

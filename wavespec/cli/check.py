"""`wavespec check`: specs and tuned files in, all their mistakes out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wavespec.cli import failures
from wavespec.cli.inputs import chosen_targets
from wavespec.cli.progress import progress
from wavespec.cli.specs import family_of, spec_files
from wavespec.cli.terminal import print_diagnostics

if TYPE_CHECKING:
    from wavespec.diagnostics import Diagnostic
    from wavespec.schema import KernelSpec


def check(
    specs: Annotated[list[Path], typer.Argument(metavar="SPEC...", help="Files to check, or folders of them.")],
    target: Annotated[
        list[str] | None,
        typer.Option(help="The machine that it has to fit (repeatable).  [default: all that it is for]"),
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Check the language alone, and no machine.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Write the result as JSON to stdout.")] = False,
) -> None:
    """Validate specs, families and tuned files; report every mistake with its line. What passes builds."""
    from wavespec.collector import without_collecting
    from wavespec.diagnostics import printable, to_json

    failures.MODE.json = json
    targets = chosen_targets(target or [])
    reports: list[dict[str, Any]] = []
    files = spec_files(specs, tuned=True)
    with progress(f"checking {files[0] if len(files) == 1 else f'{len(files)} files'}"), without_collecting():
        read = [_read(path) for path in files]
        found = [one.found for one in read] if fast else _with_misfits(read, targets)
    for path, diagnostics in zip(files, found, strict=True):
        ok = not any(diagnostic.is_error for diagnostic in diagnostics)
        reports.append({"file": str(path), "ok": ok, "diagnostics": [to_json(d) for d in diagnostics]})
        print_diagnostics(diagnostics)
        if not json and ok:
            print(printable(f"{path}: ok"))
    wrong = sum(not report["ok"] for report in reports)
    if json:
        failures.write_json({"ok": not wrong, "files": reports})
    elif wrong:
        count = sum(d["severity"] == "error" for report in reports for d in report["diagnostics"])
        words = f"{count} mistake{'s' * (count != 1)} in {wrong} of {len(files)} file{'s' * (len(files) != 1)}."
        print(words, file=sys.stderr)
    if wrong:
        raise typer.Exit(failures.BAD_INPUT)


@dataclass(frozen=True, slots=True)
class _Read:
    """A file: its kernels, those of a family with their labels, and what was found while it was read."""

    kernels: tuple[tuple[str, KernelSpec], ...] = ()
    found: tuple[Diagnostic, ...] = ()


def _read(path: Path) -> _Read:
    from wavespec.diagnostics import WavespecError
    from wavespec.schema import load_with_warnings
    from wavespec.schema.load import is_tuned_file, load_tuned

    try:
        if (family := family_of(path)) is not None:
            return _Read(tuple((member.label, member.spec) for member in family.members), family.warnings)
        if is_tuned_file(path):
            return _Read((("", load_tuned(path)[0]),))
        spec, found = load_with_warnings(path)
        return _Read((("", spec),), found)
    except WavespecError as error:
        return _Read(found=error.diagnostics)


def _with_misfits(files: Sequence[_Read], targets: tuple[str, ...]) -> list[tuple[Diagnostic, ...]]:
    """What was found in each file, and what the passes find wrong for each machine: instructions, tiles, memory."""
    from wavespec.check_builds import check_builds
    from wavespec.diagnostics import in_order
    from wavespec.schema.families.family_errors import in_members

    misfits = iter(check_builds([spec for one in files for _, spec in one.kernels], targets))
    found: list[tuple[Diagnostic, ...]] = []
    for one in files:
        labelled = [(label, problem) for label, _ in one.kernels for problem in next(misfits)]
        labels = [label for label, _ in one.kernels if label]
        of_kernels = in_members(labelled, labels) if labels else tuple(problem for _, problem in labelled)
        found.append(in_order([*one.found, *of_kernels]))
    return found

"""`wavespec check`: specs and tuned files in, all their mistakes out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wavespec.cli import failures
from wavespec.cli.inputs import chosen_targets
from wavespec.cli.progress import progress
from wavespec.cli.specs import family_of, spec_files

if TYPE_CHECKING:
    from wavespec.diagnostics import Diagnostic
    from wavespec.schema import KernelSpec
    from wavespec.schema.expand import Family
    from wavespec.targets.machine import Machine


def check(
    specs: Annotated[list[Path], typer.Argument(metavar="SPEC...", help="Files to check, or folders of them.")],
    target: Annotated[
        list[str] | None,
        typer.Option(help="Also check that it fits this machine (repeatable, or 'all').  [default: those it names]"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write the result as JSON to stdout.")] = False,
) -> None:
    """Validate specs, families and tuned files; report every mistake with its line."""
    from wavespec.diagnostics import render, to_json

    failures.MODE.json = json
    targets = chosen_targets(target or [])
    reports: list[dict[str, Any]] = []
    files = spec_files(specs, tuned=True)
    for path in files:
        with progress(f"checking {path}"):
            diagnostics = _diagnostics(path, targets)
        ok = not any(diagnostic.is_error for diagnostic in diagnostics)
        reports.append({"file": str(path), "ok": ok, "diagnostics": [to_json(d) for d in diagnostics]})
        for diagnostic in diagnostics:
            print(render(diagnostic), file=sys.stderr)
        if not json and ok:
            print(f"{path}: ok")
    wrong = sum(not report["ok"] for report in reports)
    if json:
        failures.write_json({"ok": not wrong, "files": reports})
    elif wrong:
        count = sum(d["severity"] == "error" for report in reports for d in report["diagnostics"])
        words = f"{count} mistake{'s' * (count != 1)} in {wrong} of {len(files)} file{'s' * (len(files) != 1)}."
        print(words, file=sys.stderr)
    if wrong:
        raise typer.Exit(failures.BAD_INPUT)


def _diagnostics(path: Path, targets: tuple[str, ...]) -> tuple[Diagnostic, ...]:
    from wavespec.diagnostics import WavespecError, in_order
    from wavespec.schema import load_with_warnings
    from wavespec.schema.load import is_tuned_file, load_tuned

    found: tuple[Diagnostic, ...] = ()
    try:
        if (family := family_of(path)) is not None:
            return in_order([*family.warnings, *_misfits_of_members(family, targets)])
        if is_tuned_file(path):
            spec, tuned = load_tuned(path)
            named = tuple(tuned.targets)
        else:
            spec, found = load_with_warnings(path)
            named = tuple(spec.targets)
    except WavespecError as error:
        return error.diagnostics
    return in_order([*found, *_misfits(spec, _asked(spec, targets, named))])


def _misfits_of_members(family: Family, targets: tuple[str, ...]) -> tuple[Diagnostic, ...]:
    from wavespec.schema.family_errors import in_members

    found = [
        (member.label, one)
        for member in family.members
        for one in _misfits(member.spec, _asked(member.spec, targets, tuple(member.spec.targets)))
    ]
    return in_members(found, [member.label for member in family.members])


def _asked(spec: KernelSpec, targets: tuple[str, ...], named: tuple[str, ...]) -> tuple[str, ...]:
    """The targets to check a kernel for: those of the options, else those that its file names."""
    from wavespec.schema.models import TARGETS
    from wavespec.schema.resolve import targets_of

    wanted = targets_of(spec)
    if targets == TARGETS:
        return wanted
    return targets or tuple(name for name in named if name in wanted)


def _misfits(spec: KernelSpec, targets: tuple[str, ...]) -> list[Diagnostic]:
    """What the passes find wrong for each machine: instructions, tiles, memory."""
    from wavespec.schema.case_errors import in_case
    from wavespec.schema.resolve import cases_for_target
    from wavespec.targets.machine import machines

    found: list[Diagnostic] = []
    for target in targets:
        *some, whole = cases_for_target(spec, target)
        for machine in machines(target):
            general = _problems(whole.spec, machine)
            found += general
            for case in some:
                # What is wrong for all sizes is no mistake of the case.
                found += [in_case(one, case) for one in _problems(case.spec, machine) if one not in general]
    return found


def _problems(spec: KernelSpec, machine: Machine) -> tuple[Diagnostic, ...]:
    from wavespec.diagnostics import WavespecError
    from wavespec.pipeline import lower

    try:
        lower(spec, machine)
    except WavespecError as error:
        return error.diagnostics
    return ()

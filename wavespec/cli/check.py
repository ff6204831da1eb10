"""`wavespec check`: specs and tuned files in, all their mistakes out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wavespec.cli import failures
from wavespec.cli.inputs import chosen_targets
from wavespec.cli.progress import progress

if TYPE_CHECKING:
    from wavespec.diagnostics import Diagnostic
    from wavespec.schema import KernelSpec
    from wavespec.targets.machine import Machine


def check(
    specs: Annotated[list[Path], typer.Argument(metavar="SPEC...", help="Files to check.")],
    target: Annotated[
        list[str] | None,
        typer.Option(help="Also check that it fits this machine (repeatable, or 'all').  [default: those it names]"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write the result as JSON to stdout.")] = False,
) -> None:
    """Validate specs and tuned files; report every mistake with its line."""
    from wavespec.diagnostics import render, to_json

    failures.MODE.json = json
    targets = chosen_targets(target or [])
    reports: list[dict[str, Any]] = []
    for path in specs:
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
        words = f"{count} mistake{'s' * (count != 1)} in {wrong} of {len(specs)} file{'s' * (len(specs) != 1)}."
        print(words, file=sys.stderr)
    if wrong:
        raise typer.Exit(failures.BAD_INPUT)


def _diagnostics(path: Path, targets: tuple[str, ...]) -> tuple[Diagnostic, ...]:
    from wavespec.diagnostics import WavespecError, in_order
    from wavespec.schema import load_with_warnings
    from wavespec.schema.load import is_tuned_file, load_tuned
    from wavespec.schema.models import TARGETS
    from wavespec.schema.resolve import targets_of

    found: tuple[Diagnostic, ...] = ()
    try:
        if is_tuned_file(path):
            spec, tuned = load_tuned(path)
            named = tuple(tuned.targets)
        else:
            spec, found = load_with_warnings(path)
            named = tuple(spec.targets)
    except WavespecError as error:
        return error.diagnostics
    wanted = targets_of(spec)
    asked = wanted if targets == TARGETS else targets
    return in_order([*found, *_misfits(spec, asked or tuple(name for name in named if name in wanted))])


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

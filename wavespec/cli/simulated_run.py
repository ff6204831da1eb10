"""What is run of a kernel goes in; what the simulator finds in it, or where it stops, comes out as rows and text."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from wavespec.cli.inputs import sizes_in_words
from wavespec.cli.progress import progress
from wavespec.cli.run_rows import Run, errors_of, print_run, scalars_of, verdict_of
from wavespec.cli.terminal import print_diagnostics
from wavespec.diagnostics import Diagnostic, to_json

if TYPE_CHECKING:
    from wavespec.cli.asserted import Watching
    from wavespec.cli.simulate import Simulator
    from wavespec.cli.stops import BreakAt
    from wavespec.schema.old_values import Observed


def simulated(
    asked: Run, target: str, seed: int, at: BreakAt | None, *, is_asked: bool, is_printed: bool, are_checked: bool
) -> list[dict[str, Any]]:
    """What the simulator finds in every run, or what lanes have where it stops; diagnostics are printed.

    Args:
        are_checked: whether places of accesses are looked at.
    """
    from wavespec.cli.asserted import watching
    from wavespec.cli.simulate import Simulator
    from wavespec.schema.families.family_errors import naming_member
    from wavespec.schema.old_values import with_old_values

    observed = with_old_values(asked.spec)
    # With what explains results that depend on the order of elements, and what tells what does not hold.
    looking = watching(observed.spec, are_checked=are_checked)
    spec = looking.spec
    asked = asked._replace(spec=spec)
    rows: list[dict[str, Any]] = []
    with naming_member(asked.label):
        simulator = Simulator(spec, target, asked.scalars)
        ends_in = partial(at.ends_in, simulator) if at is not None else None
        fitting = simulator.sizes(asked.sizes, is_asked=is_asked, ends_in=ends_in)
    for wanted, sizes in fitting:
        if wanted != sizes:
            print(f"{spec.name}: {sizes_in_words(sizes)} in place of {sizes_in_words(wanted)}", file=sys.stderr)
        with progress(f"simulating {spec.name} with {sizes_in_words(sizes)}"):
            row, diagnostics, text = _simulated_run(asked, simulator, sizes, seed, at, observed, looking, are_checked)
        if is_printed:
            print_diagnostics(diagnostics)
            print_run(spec.name, f"{target}, simulated", row)
            print(text)
        rows.append(row | {"findings": [to_json(diagnostic) for diagnostic in diagnostics]})
    return rows


def _simulated_run(
    asked: Run,
    simulator: Simulator,
    sizes: dict[str, int],
    seed: int,
    at: BreakAt | None,
    observed: Observed,
    looking: Watching,
    are_checked: bool,
) -> tuple[dict[str, Any], list[Diagnostic], str]:
    """A row, what was found, and what is to be printed below the row."""
    from wavespec.cli.asserted import failures
    from wavespec.cli.doubts import doubts_about_inputs
    from wavespec.cli.measure import accuracy, random_inputs
    from wavespec.tune.declared_inputs import held_by_inputs

    spec, scalars = asked.spec, asked.scalars
    inputs = random_inputs(spec, sizes, seed, "cpu", scalars, asked.given)
    stop_at = at.stop_at(simulator, sizes) if at is not None else None
    results, diagnostics = simulator.call(sizes, inputs, stop_at)
    errors = sum(diagnostic.is_error for diagnostic in diagnostics)
    row: dict[str, Any] = {"ok": not errors, "verdict": "stopped", "sizes": sizes, **scalars_of(scalars)}
    if at is not None and stop_at is not None:
        if errors and not stop_at.stops:
            return row | {"verdict": "UNSAFE"}, diagnostics, "  ended before '--break'"
        stops = at.seen(stop_at)
        return row | {"stops": at.json(stops, stop_at.kernel)}, diagnostics, at.text(stops, stop_at.kernel)
    failed = failures(looking, results, sizes)
    diagnostics, errors = [*diagnostics, *failed], errors + sum(one.is_error for one in failed)
    names = [name for name, tensor in spec.tensors.items() if tensor.role != "output"]
    judged = results[: len(results) - looking.further]  # nothing has to fail
    found, of_results = accuracy(observed.spec, inputs, judged, scalars, observed.outputs)
    of_inputs = doubts_about_inputs(spec, held_by_inputs(spec, sizes, scalars), dict(zip(names, inputs, strict=True)))
    doubts = [*of_inputs, *of_results]
    verdict = verdict_of(found, doubts)
    is_right = verdict in ("ok", "shows little")
    row |= {"ok": is_right and not errors, "verdict": "UNSAFE" if is_right and errors else verdict}
    row |= {"bounds": looking.summary(failed)} if are_checked else {}
    row |= {"inputs": "given" if asked.given else "random", "case": [], **errors_of(found, doubts)}
    warnings = len(diagnostics) - errors
    words = [f"{n} {what}{'s' * (n != 1)}" for n, what in ((errors, "error"), (warnings, "warning")) if n]
    return row, diagnostics, f"  found          {' and '.join(words) or 'nothing'}"

"""`wavespec tune`: a spec and sizes in; the settings that were measured to be fastest, kept beside the spec, out."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wavespec.cli import failures
from wavespec.cli.inputs import chosen_sizes, chosen_target, sizes_in_words
from wavespec.cli.numbers import ScalarOption, chosen_scalars, whole_scalars
from wavespec.cli.specs import MemberOption, NotAFamily, family_of
from wavespec.diagnostics import WavespecError, Where, printable, quote, quote_path, raise_all

if TYPE_CHECKING:
    from wavespec.schema import KernelSpec
    from wavespec.schema.families.expand import Family
    from wavespec.schema.language.scalars import Number
    from wavespec.schema.ops import Atomic
    from wavespec.schema.reading.tuned import TunedSpec
    from wavespec.tune.bundle import Subject
    from wavespec.tune.results import Results

_COMPILING = 0.5
"""The part of the budget after which no further candidate is compiled."""
_PROCESSORS = 256
"""Of a GPU that does not say how many it has: large ones have about as many."""
_NOISE = 0.3
"""Between rounds of the same settings, as a part of their median: more is a busy machine."""


class ConflictingOptions(WavespecError, code="conflicting-options"):
    """Two options that do not go together."""


class BadResults(WavespecError, code="bad-results"):
    """The file of `--results` is no file of results."""


class NoTunedFile(WavespecError, code="no-tuned-file"):
    """Nothing can be kept beside a file that is not called like a spec."""

    def __init__(self, spec: Path) -> None:
        super().__init__(
            None, f"{quote_path(spec)} has no place for tuned settings.", hints=["Call it NAME.wave.yaml."]
        )


class NotTunable(WavespecError, code="not-tunable"):
    """A member of a family that is a template has no place for settings of its own."""

    def __init__(self, family: Family) -> None:
        hints = ["'wavespec expand -o DIR' writes its kernels as specs, which can be tuned."]
        message = f"{quote(family.spec.name)} is a template, whose kernels have no settings of their own."
        super().__init__("--member", message, hints=hints)


class DependsOnOrder(WavespecError, code="depends-on-order"):
    """What candidates compute cannot be compared, where each call may be right with results of its own."""

    def __init__(self, op: Atomic) -> None:
        super().__init__(
            op.where("op"),
            f"Old values of {quote(op.name)} differ from call to call, so that results of candidates do not compare.",
            hints=["'wavespec run' and 'wavespec bench' judge and time one kernel."],
        )


class EmptyWorkload(WavespecError, code="empty-workload"):
    """A workload has a size of 0, so no work."""

    def __init__(self, where: Where, dim: str) -> None:
        super().__init__(
            where,
            f"With {quote(dim)} of 0 nothing is computed, so there is nothing to measure.",
            hints=["Tune for sizes of at least 1."],
        )


class MeasuringFailed(WavespecError, code="measuring-failed"):
    """The process that measures does not start."""


def tune(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The spec.")],
    target: Annotated[str, typer.Option(help="The machine.")] = "cpu",
    workload: Annotated[
        list[str] | None,
        typer.Option(metavar="M=1,N=512,...", help="Sizes to tune for (repeatable).  [default: those of the spec]"),
    ] = None,
    scalar: ScalarOption = None,
    member: MemberOption = "",
    budget: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Time to take.")] = 300,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")] = False,
    bundle: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Measure nothing; write a folder that another machine measures.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Take the results that a bundle's run.py left.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write the result as JSON to stdout.")] = False,
) -> None:
    """Measure candidates for tiles, waves and schedules; keep the fastest in SPEC's .tuned.yaml."""
    failures.MODE.json = json
    from wavespec.schema.load import load_untuned
    from wavespec.schema.ops import Atomic, every
    from wavespec.schema.reading.tuned import path_of_member, tuned_path

    chosen_target(target)
    given = [name for name, value in (("--bundle", bundle), ("--results", results), ("--resume", resume)) if value]
    if len(given) > 1 and given != ["--bundle", "--resume"]:
        raise ConflictingOptions(given[-1], f"{' and '.join(given)} do not go together.")
    path, name = spec, ""
    if member:
        family = family_of(spec)
        if family is None or family.plain is None:
            raise NotAFamily(spec) if family is None else NotTunable(family)
        name = family.member(member, "--member").name
        path = path_of_member(spec, family.spec.name, name)
    kernel, earlier = load_untuned(spec, name, path)
    for op in every(Atomic, kernel.graph):
        raise DependsOnOrder(op)
    place = tuned_path(path)
    if place is None:
        raise NoTunedFile(spec)
    if results is not None:
        measured = _read(results, kernel, target)
    else:
        subject = _subject(kernel, target, workload or [], scalar or [], is_here=bundle is None)
        end = time.monotonic() + budget
        if bundle is not None:
            _pack(subject, bundle, end, is_new=not resume, json=json)
            return
        measured = _measure(subject, end, is_new=not resume)
    _keep(measured, kernel, target, place, earlier, json)


def _read(path: Path, spec: KernelSpec, target: str) -> Results:
    from wavespec.tune.bundle import digest_of
    from wavespec.tune.results import ResultsError, load_results
    from wavespec.tune.winners import check_results

    try:
        results = load_results(path)
    except ResultsError as error:
        raise BadResults("--results", f"{error}.") from None
    check_results(results, spec.name, target, digest_of(spec, target))
    return results


def _subject(spec: KernelSpec, target: str, texts: list[str], scalars: list[str], *, is_here: bool) -> Subject:
    import torch

    from wavespec.cli.run import NoDevice
    from wavespec.pipeline import best_variant
    from wavespec.schema.resolve import spec_as_on
    from wavespec.targets.machine import machines
    from wavespec.tune.bundle import Subject

    spec = spec_as_on(spec, target)
    numbers = chosen_scalars(spec, scalars)
    workloads = _asked(spec, texts, numbers) if texts else _of_spec(spec, numbers)
    distinct = tuple({tuple(sizes.values()): sizes for sizes in workloads}.values())
    variants = machines(target)
    if target == "cpu":
        variants = (best_variant(target),)
        processors = torch.get_num_threads()
    else:
        has_vendor = bool(torch.version.hip) == (variants[0].backend == "rocm")
        if is_here and not (torch.cuda.is_available() and has_vendor):
            raise NoDevice(target, "'--bundle DIR' writes a folder that a machine with it can measure.")
        processors = variants[0].processors or _PROCESSORS
    return Subject(spec, target, variants, distinct, processors, numbers)


def _asked(spec: KernelSpec, texts: list[str], numbers: Mapping[str, Number]) -> list[dict[str, int]]:
    scalars = whole_scalars(spec, numbers)
    workloads = [chosen_sizes(spec, text.split(","), "--workload", scalars)[0] for text in texts]
    empty = [(text, _empty_dim(sizes)) for text, sizes in zip(texts, workloads, strict=True)]
    raise_all(EmptyWorkload(f"--workload {text}", dim) for text, dim in empty if dim is not None)
    return workloads


def _of_spec(spec: KernelSpec, numbers: Mapping[str, Number]) -> list[dict[str, int]]:
    """The workloads of the spec, which are there for `check` and `bench` too and may be empty."""
    every = chosen_sizes(spec, [], scalars=whole_scalars(spec, numbers))
    workloads = [sizes for sizes in every if _empty_dim(sizes) is None]
    if not workloads:
        raise EmptyWorkload(spec.where("workloads"), _empty_dim(every[0]) or "")
    if len(workloads) < len(every):
        empty = len(every) - len(workloads)
        _report(f"note: {empty} workload{'s' * (empty > 1)} with a size of 0 left out; nothing is computed there")
    return workloads


def _empty_dim(sizes: Mapping[str, int]) -> str | None:
    return next((name for name, size in sizes.items() if size == 0), None)


def _pack(subject: Subject, folder: Path, end: float, *, is_new: bool, json: bool) -> None:
    from wavespec.tune.bundle import add_measuring, is_bundle, write_bundle

    if folder.exists() and any(folder.iterdir()):
        if not is_bundle(folder):
            raise ConflictingOptions("--bundle", f"{quote_path(folder)} has other files in it.")
        if is_new:
            shutil.rmtree(folder)
    write_bundle(subject, folder, end, _report)
    add_measuring(folder)
    if json:
        failures.write_json({"ok": True, "kernel": subject.spec.name, "target": subject.target, "bundle": str(folder)})
        return
    print(f"{printable(str(folder))}: copy it to the machine and run 'python run.py' in it;")
    print(f"then 'wavespec tune SPEC --target {subject.target} --results results.json' here.")


def _measure(subject: Subject, end: float, *, is_new: bool) -> Results:
    """Everything on this machine, in a folder of the cache."""
    from wavespec.cache import default_directory
    from wavespec.tune.bundle import write_bundle
    from wavespec.tune.results import ResultsError
    from wavespec.tune.supervise import BenchFailed, supervise

    folder = default_directory() / "tune" / subject.key
    if is_new and folder.exists():
        shutil.rmtree(folder)
    elif not is_new and not folder.exists():
        _report("there is nothing to go on with; starting anew")
    try:
        write_bundle(subject, folder, time.monotonic() + _COMPILING * (end - time.monotonic()), _report)
        return supervise(folder, max(0.0, end - time.monotonic()), _report)
    except (BenchFailed, ResultsError) as error:
        raise MeasuringFailed(None, f"{subject.spec.name}: {error}.") from None
    except KeyboardInterrupt:
        _report("interrupted; the same command with --resume goes on")
        raise


def _keep(results: Results, spec: KernelSpec, target: str, place: Path, earlier: TunedSpec | None, json: bool) -> None:
    from wavespec.runtime.files import replace_file
    from wavespec.tune.winners import tuned_text, winners

    found = winners(results)
    text = tuned_text(spec, target, found, earlier)
    before = place.read_text() if place.exists() else None
    if text is not None and text != before:
        replace_file(place, text.encode())
    elif text is None:
        place.unlink(missing_ok=True)
    if json:
        rows: list[dict[str, Any]] = [
            {"sizes": w.sizes, "settings": w.words, "microseconds": w.microseconds, "untuned_microseconds": w.untuned}
            for w in found
        ]
        failures.write_json({"ok": bool(found), "kernel": spec.name, "target": target, "results": rows})
    else:
        for winner in found:
            gain = (
                "" if winner.untuned is None else f", {winner.untuned / winner.microseconds:.2f} x as fast as untuned"
            )
            print(f"{sizes_in_words(winner.sizes)}: {winner.microseconds:.1f} us, {winner.words}{gain}")
            if winner.spread > _NOISE:
                print(
                    f"warning: rounds of the same settings differ by {winner.spread:.0%}; the machine was busy, so "
                    "measure again before you trust this.",
                    file=sys.stderr,
                )
        print(printable(str(place)) if text is not None else "nothing is faster than the spec as it is")
    if not found:
        print("Nothing was measured: give it more time with --budget.", file=sys.stderr)
        raise typer.Exit(failures.FAILED)


def _report(words: str) -> None:
    print(words, file=sys.stderr, flush=True)

"""A kernel, a target and workloads go in; a folder with compiled candidates that can be measured comes out.

    plan.json        the kernel, its workloads, and the candidates of each with their settings
    kernels/         a packed artifact per workload and candidate, or why there is none
    reference.py     what the kernel computes, with torch alone
    results.json     what was measured so far

and, where it goes to another machine, `run.py` with the files of wavespec that measuring needs.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from wavespec.cache import cache_key
from wavespec.cases_on_machines import cases_on
from wavespec.diagnostics import WavespecError, quote
from wavespec.emit.compiler import compiler_version
from wavespec.runtime.files import replace_file
from wavespec.schema import KernelSpec
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.models import Case, Override, TargetOverride
from wavespec.schema.reading.spec_to_yaml import dump_yaml, spec_to_data
from wavespec.schema.resolve import complete_sizes, spec_as_on, spec_for_target
from wavespec.targets.machine import Machine
from wavespec.tune.bench import kernel_file
from wavespec.tune.candidates import candidates
from wavespec.tune.compile_pool import CompileJob, CompilePool
from wavespec.tune.declared_inputs import held_by_inputs
from wavespec.tune.ranges import ranges
from wavespec.tune.reference_code import reference_code
from wavespec.tune.results import FORMAT, PLAN, UNTUNED
from wavespec.version import fingerprint

_MOST_CANDIDATES = 64
"""Per workload."""
MEASURING = (
    "__init__.py",
    "architecture.py",
    "version.py",
    "ir/__init__.py",
    "ir/dtype.py",
    "ir/strided.py",
    "runtime",
    "tune/__init__.py",
    "tune/bench.py",
    "tune/held_numbers.py",
    "tune/judge.py",
    "tune/results.py",
    "tune/supervise.py",
)
"""The part of wavespec that a bundle carries."""
_RUN = '''\
"""Measure the kernels of this bundle: `python run.py [--budget SECONDS]`; leaves results.json. Run it again to go on.

Needs torch with CUDA for NVIDIA GPUs; torch and iree-base-runtime for others and CPUs.
"""

import sys

from wavespec.tune.supervise import main

if __name__ == "__main__":
    sys.exit(main())
'''


class SeveralKernels(WavespecError, code="several-kernels"):
    """A call runs several kernels one after another, and what is measured is one."""

    def __init__(self, when: Sequence[Expression], kernel: str, count: int) -> None:
        conditions = ", ".join(map(str, when))
        super().__init__(
            None,
            f"{kernel} runs {count} kernels for {quote(conditions)}, which tuning does not measure together.",
            hints=["Tune sizes that are for other cases."],
        )


class NothingCompiles(WavespecError, code="nothing-compiles"):
    """No candidate, and not even the kernel as it is, became machine code."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is tuned: a spec without its tuned cases, for one target, at some sizes."""

    spec: KernelSpec
    target: str
    variants: tuple[Machine, ...]
    """What is compiled for; the candidates are made for the first."""
    workloads: tuple[Mapping[str, int], ...]
    processors: int
    """Workgroups that the machine runs at the same time."""
    scalars: Mapping[str, bool | int | float] = field(default_factory=dict[str, "bool | int | float"])
    """The numbers that every call passes."""

    @property
    def key(self) -> str:
        """Changes with anything that decides what a bundle contains."""
        return cache_key(
            {
                "kernel": digest_of(self.spec, self.target),
                "workloads": [dict(workload) for workload in self.workloads],
                "variants": [machine.variant for machine in self.variants],
                "processors": self.processors,
                **({"scalars": dict(self.scalars)} if self.scalars else {}),
                "sources": fingerprint(),
                "iree": compiler_version(),
            }
        )


@dataclass(slots=True)
class _Workload:
    """One set of sizes, and what may be compiled for it: name, words, settings and job of each candidate."""

    sizes: dict[str, int]
    when: list[str]
    entries: list[tuple[str, str, Override | None, CompileJob]] = field(
        default_factory=list[tuple[str, str, Override | None, CompileJob]]
    )


def digest_of(spec: KernelSpec, target: str) -> str:
    """Changes with everything that the spec says of a target: what results have to be about."""
    cases = cases_for_target(spec_as_on(spec, target), target)
    parts = [[[str(condition) for condition in case.conditions], *map(dump_yaml, case.kernels)] for case in cases]
    return cache_key({"cases": parts, "target": target})


def is_bundle(folder: Path) -> bool:
    """Whether `folder` holds a bundle, perhaps an unfinished one, and may be replaced."""
    return (folder / PLAN).exists() or {path.name for path in folder.iterdir()} == {"kernels"}


def write_bundle(subject: Subject, folder: Path, end: float, report: Callable[[str], None]) -> None:
    """Compile candidates into `folder` until `time.monotonic()` is `end`, then write the plan.

    Kernels that an earlier, interrupted run left for the same subject are kept.

    Raises:
        NothingToTune: the kernel has no tiles to choose.
        NothingCompiles: there is nothing to measure.
    """
    workloads = _workloads(subject, folder)
    # The kernel as it is and the best guess for each workload come before further guesses for any.
    longest = max(len(workload.entries) for workload in workloads)
    jobs = [w.entries[rank][3] for rank in range(longest) for w in workloads if rank < len(w.entries)]
    count = {"done": 0, "failed": 0}
    start = time.monotonic()

    def done(job: CompileJob, problem: str | None) -> None:
        count["done"] += 1
        count["failed"] += problem is not None
        if count["done"] % 10 == 0:
            report(f"compiled {count['done']} of {len(jobs)} candidates, {count['failed']} do not fit")

    CompilePool().run(jobs, end, done)
    report(f"compiled {count['done']} candidates in {time.monotonic() - start:.0f} s, {count['failed']} do not fit")
    for workload in workloads:
        workload.entries = [entry for entry in workload.entries if entry[3].output.exists()]
        if not workload.entries:
            raise NothingCompiles(subject.spec.name, _first_problem(jobs))
    plain, sizes = spec_for_target(subject.spec, subject.target), [workload.sizes for workload in workloads]
    code = reference_code(plain, sizes, subject.scalars)
    replace_file(folder / "reference.py", code.encode())
    replace_file(folder / PLAN, (json.dumps(_plan(subject, workloads), indent=1) + "\n").encode())


def add_measuring(folder: Path) -> None:
    """Add what a machine without wavespec needs to measure the bundle."""
    package = Path(__file__).parents[1]
    for name in MEASURING:
        source, place = package / name, folder / "wavespec" / name
        if source.is_dir():
            shutil.copytree(source, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place)
    replace_file(folder / "run.py", _RUN.encode())


def _workloads(subject: Subject, folder: Path) -> list[_Workload]:
    plain = spec_for_target(subject.spec, subject.target)
    cases = cases_on(subject.spec, subject.target, subject.variants)
    found: list[_Workload] = []
    for index, (sizes, when) in enumerate(zip(subject.workloads, ranges(plain, subject.workloads), strict=True)):
        workload = _Workload(dict(sizes), when)
        chosen = candidates(
            plain,
            subject.variants[0],
            sizes,
            processors=subject.processors,
            named=len(subject.variants) == 1 and subject.variants[0].register_tile == "wave",
            most=_MOST_CANDIDATES,
        )
        case = case_for_sizes(cases, {**_whole(subject), **sizes})
        if case.before:
            raise SeveralKernels(case.when, subject.spec.name, len(case.kernels))
        untuned = case.spec
        entries: list[tuple[str, str, Override | None, KernelSpec]] = [(UNTUNED, "as it is", None, untuned)]
        for number, candidate in enumerate(chosen, 1):
            settled = _with_case(subject, when, candidate.settings)
            entries.append((f"c{number}", candidate.words, candidate.settings, settled))
        variants = tuple(machine.variant for machine in subject.variants)
        for name, words, settings, spec in entries:
            job = CompileJob(dump_yaml(spec), subject.target, variants, folder / kernel_file(index, name))
            workload.entries.append((name, words, settings, job))
        found.append(workload)
    return found


def _with_case(subject: Subject, when: Sequence[str], settings: Override) -> KernelSpec:
    """The plain spec of a case with these settings: compiled under the promises that it will be used with."""
    conditions = tuple(parse_expression(condition) for condition in when)
    case = Case(when=conditions, constraints=settings.constraints, schedule=settings.schedule)
    every: dict[str, TargetOverride] = {**subject.spec.targets}
    own = every.get(subject.target, TargetOverride())
    targets = {**every, subject.target: own.model_copy(update={"cases": (case,)})}
    return cases_for_target(subject.spec.model_copy(update={"targets": targets}), subject.target)[0].spec


def _plan(subject: Subject, workloads: Sequence[_Workload]) -> dict[str, object]:
    return {
        "format": FORMAT,
        "key": subject.key,
        "kernel": subject.spec.name,
        "digest": digest_of(subject.spec, subject.target),
        "target": subject.target,
        "machine": "",
        "workloads": [
            {
                "sizes": workload.sizes,
                "when": workload.when,
                "holds": _holds(subject, workload.sizes),
                **({"scalars": dict(subject.scalars)} if subject.scalars else {}),
                "candidates": [
                    {"name": name, "words": words, "settings": None if settings is None else spec_to_data(settings)}
                    for name, words, settings, _ in workload.entries
                ],
            }
            for workload in workloads
        ],
        "running": None,
        "measurements": [],
    }


def _holds(subject: Subject, sizes: Mapping[str, int]) -> dict[str, dict[str, object]]:
    """What is said or known of the numbers of inputs, which are drawn by it."""
    every = complete_sizes(subject.spec, {**_whole(subject), **sizes})
    sizes = {name: every[name] for name in subject.spec.dims}
    return {name: asdict(held) for name, held in held_by_inputs(subject.spec, sizes, subject.scalars).items()}


def _whole(subject: Subject) -> dict[str, int]:
    """The scalars that sizes and cases may depend on."""
    return {name: int(one) for name, one in subject.scalars.items() if not subject.spec.scalars[name].is_float}


def _first_problem(jobs: Sequence[CompileJob]) -> str:
    for job in jobs:
        if job.problem_file.exists():
            return f"No candidate became machine code; the first: {job.problem_file.read_text()}"
    return "There was no time to compile a single candidate."

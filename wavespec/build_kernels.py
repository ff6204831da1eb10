"""Kernels go in; each compiled for each of its targets, in parts and several parts at a time, comes out."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from wavespec.cache import CompileCache
from wavespec.cases_on_machines import cases_on, machines_of
from wavespec.emit.compiler import CompilerFailure
from wavespec.part_cache import get_part, put_part
from wavespec.pipeline import build_part, emit_variant, join_cases, join_variants, part_key, spec_digest
from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.manifest import unpack_artifact
from wavespec.schema import KernelSpec
from wavespec.schema.checking.case_errors import naming_case
from wavespec.schema.families.family_errors import naming_member
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.resolve import is_for
from wavespec.targets.machine import Machine, machines
from wavespec.tune.compile_pool import CompileJob, CompilePool

_DIED = "compiler-died"
# A part is one case for one machine: an hour is no kernel that anybody waits for, and a busy machine has time.
_SECONDS_PER_PART = 3600.0

Place = tuple[str, str]
"""The name of a kernel, and a target."""


@dataclass(frozen=True, slots=True)
class KernelToBuild:
    """A kernel; ``label``: what it is called in its family, if it has one."""

    spec: KernelSpec
    label: str = ""

    @property
    def name(self) -> str:
        return self.spec.name


def build_kernels(
    kernels: Sequence[KernelToBuild],
    targets: Sequence[str],
    *,
    code: bool = True,
    cache: CompileCache | None = None,
    workers: int | None = None,
    report: Callable[[str], None] = lambda words: None,
) -> dict[Place, KernelArtifact]:
    """Artifacts by the name of a kernel and a target; a kernel that is not for a target has none.

    The bytes are those that building one after the other gives. Worker processes fill the cache, or stand in for it.

    Args:
        code: whether to compile; else binaries have the sha256 of their MLIR, and nothing in them.

    Raises:
        WavespecError: kernels that do not fit a machine; members of a family by name.
    """
    cache = cache or CompileCache()
    todo = {(one.name, target): one for one in kernels for target in targets if is_for(one.spec, target)}
    places = {place: _parts(one.spec, place[1], code) for place, one in todo.items()}
    labels = {
        part: todo[place].label
        for place, cases in places.items()
        for steps in cases
        for parts in steps
        for part in parts
    }
    made = {part.key: found for part in labels if (found := get_part(cache, part.key)) is not None}
    missing = {part: label for part, label in labels.items() if part.key not in made}
    if len(missing) > 1:
        made |= _made_by_workers(missing, code, cache, workers, report)
    built: dict[Place, KernelArtifact] = {}
    for (name, target), one in todo.items():
        # What a worker found wrong is found again here, where the lines of the spec or the template are known; in the
        # kernel for all sizes first: what is wrong with it is no mistake of a case.
        cases = cases_on(one.spec, target, machines(target))
        joined: list[list[KernelArtifact]] = []
        with naming_member(one.label):
            for case, steps in reversed(list(zip(cases, places[name, target], strict=True))):
                with naming_case(case):
                    variants = [
                        [made.get(part.key) or _made_here(part, code, cache) for part in parts] for parts in steps
                    ]
                joined.insert(0, list(map(join_variants, variants)))
        built[name, target] = join_cases(cases, joined)
    return built


@dataclass(frozen=True, slots=True)
class _Part:
    """One kernel of a case for one machine; ``key``: of the cache."""

    spec: KernelSpec = field(compare=False)
    machine: Machine = field(compare=False)
    key: str


def _parts(spec: KernelSpec, target: str, code: bool) -> list[list[list[_Part]]]:
    """By case, by its kernels, and by variant of the target."""

    def variants(one: KernelSpec, own: Sequence[Machine]) -> list[_Part]:
        digest = spec_digest(one)
        return [_Part(one, machine, part_key(digest, machine, code=code)) for machine in own]

    chosen = machines(target)
    return [
        [variants(one, machines_of(case, chosen)) for one in case.kernels] for case in cases_on(spec, target, chosen)
    ]


def _made_here(part: _Part, code: bool, cache: CompileCache) -> KernelArtifact:
    return build_part(part.spec, part.machine, cache) if code else emit_variant(part.spec, part.machine)


def _made_by_workers(
    todo: Mapping[_Part, str], code: bool, cache: CompileCache, workers: int | None, report: Callable[[str], None]
) -> dict[str, KernelArtifact]:
    """By key, the parts that could be made; in the cache as soon as they are."""
    made: dict[str, KernelArtifact] = {}
    with tempfile.TemporaryDirectory() as folder:
        jobs = {
            CompileJob(
                dump_yaml(parts[0].spec),
                parts[0].machine.target,
                tuple(part.machine.variant for part in parts),
                Path(folder, f"{index}.wavespec"),
                code,
            ): parts
            for index, parts in enumerate(_together(todo, code))
        }
        died: list[tuple[_Part, str]] = []

        def done(job: CompileJob, problem: str | None) -> None:
            for part in jobs[job]:
                report(f"{part.spec.name} for {part.machine.variant}")
            if problem is None:
                artifact = unpack_artifact(job.output.read_bytes())
                for part, binary in zip(jobs[job], artifact.binaries, strict=True):
                    made[part.key] = replace(artifact, binaries=(binary,))
                    put_part(cache, part.key, made[part.key])
            elif problem.startswith(_DIED):
                died.append((jobs[job][0], problem.removeprefix(f"{_DIED}: ")))

        CompilePool(workers, seconds_per_job=_SECONDS_PER_PART, cache=cache).run(list(jobs), math.inf, done)
        for part, problem in died:
            # Not again in this process, which it would end.
            with naming_member(todo[part]):
                where = part.spec.span_of("name")
                raise CompilerFailure(where, f"{part.spec.name} for {part.machine.target}: {problem}.")
    return made


def _together(parts: Iterable[_Part], code: bool) -> list[tuple[_Part, ...]]:
    """Parts that make one job: the compiler takes each by itself, and what comes before it all of a case for an
    architecture of a target, whose launch interface is the same for every variant."""
    if code:
        return [(part,) for part in parts]

    def interface(part: _Part) -> tuple[int, str, str]:
        return id(part.spec), part.machine.target, part.machine.architecture

    return [tuple(those) for _, those in groupby(parts, interface)]

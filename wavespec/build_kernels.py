"""Kernels go in; each compiled for each of its targets, in parts and several parts at a time, comes out."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wavespec.cache import CompileCache
from wavespec.emit.compiler import CompilerFailure
from wavespec.pipeline import build, join_cases, join_variants, part_key
from wavespec.runtime.artifact import KernelArtifact, unpack_artifact
from wavespec.schema import KernelSpec
from wavespec.schema.family_errors import naming_member
from wavespec.schema.resolve import cases_for_target, targets_of
from wavespec.schema.spec_to_yaml import dump_yaml
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
    cache: CompileCache | None = None,
    workers: int | None = None,
    report: Callable[[str], None] = lambda words: None,
) -> dict[Place, KernelArtifact]:
    """Artifacts by the name of a kernel and a target; a kernel that is not for a target has none.

    The bytes are those that building one after the other gives. Worker processes fill the cache, or stand in for it.

    Raises:
        WavespecError: kernels that do not fit a machine; members of a family by name.
    """
    cache = cache or CompileCache()
    todo = {(one.name, target): one for one in kernels for target in targets if target in targets_of(one.spec)}
    parts = {place: _parts(one.spec, place[1]) for place, one in todo.items()}
    packed = {
        part.key: payload
        for of_kernel in parts.values()
        for of_case in of_kernel
        for part in of_case
        if (payload := cache.get(part.key)) is not None
    }
    missing = {
        part: todo[place]
        for place, of_kernel in parts.items()
        for of_case in of_kernel
        for part in of_case
        if part.key not in packed
    }
    if len(missing) > 1:
        packed |= _built_by_workers(missing, cache, workers, report)
    built: dict[Place, KernelArtifact] = {}
    for (name, target), one in todo.items():
        of_kernel = parts[name, target]
        if all(part.key in packed for of_case in of_kernel for part in of_case):
            cases = [join_variants([unpack_artifact(packed[part.key]) for part in of_case]) for of_case in of_kernel]
            built[name, target] = join_cases(cases_for_target(one.spec, target), cases)
        else:
            # What a worker found wrong is found again here, where the lines of the spec or the template are known.
            with naming_member(one.label):
                built[name, target] = build(one.spec, target, cache=cache)
    return built


@dataclass(frozen=True, slots=True)
class _Part:
    """One case of a kernel for one machine; ``key``: of the cache."""

    spec: KernelSpec = field(compare=False)
    machine: Machine = field(compare=False)
    key: str


def _parts(spec: KernelSpec, target: str) -> list[list[_Part]]:
    """By case, and by variant of the target."""
    return [
        [_Part(case.spec, machine, part_key(case.spec, machine)) for machine in machines(target)]
        for case in cases_for_target(spec, target)
    ]


def _built_by_workers(
    todo: Mapping[_Part, KernelToBuild], cache: CompileCache, workers: int | None, report: Callable[[str], None]
) -> dict[str, bytes]:
    """By key, the packed artifacts of the parts that could be built; in the cache as soon as they are."""
    packed: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        jobs = {
            CompileJob(
                dump_yaml(part.spec),
                part.machine.target,
                (part.machine.variant,),
                Path(folder, f"{index}.wavespec"),
            ): part
            for index, part in enumerate(todo)
        }
        died: list[tuple[_Part, str]] = []

        def done(job: CompileJob, problem: str | None) -> None:
            part = jobs[job]
            report(f"{part.spec.name} for {part.machine.variant}")
            if problem is None:
                packed[part.key] = job.output.read_bytes()
                cache.put(part.key, packed[part.key])
            elif problem.startswith(_DIED):
                died.append((part, problem.removeprefix(f"{_DIED}: ")))

        CompilePool(workers, seconds_per_job=_SECONDS_PER_PART, cache=cache).run(list(jobs), math.inf, done)
        for part, problem in died:
            # Not again in this process, which it would end.
            with naming_member(todo[part].label):
                where = part.spec.span_of("name")
                raise CompilerFailure(where, f"{part.spec.name} for {part.machine.target}: {problem}.")
    return packed

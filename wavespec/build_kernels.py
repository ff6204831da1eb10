"""Kernels go in; each compiled for each of its targets, in parts and several parts at a time, comes out."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wavespec.cache import CompileCache
from wavespec.emit.compiler import CompilerFailure
from wavespec.pipeline import build, build_key, join_cases, join_variants
from wavespec.runtime.artifact import KernelArtifact, pack_artifact, unpack_artifact
from wavespec.schema import KernelSpec
from wavespec.schema.family_errors import naming_member
from wavespec.schema.resolve import cases_for_target, targets_of
from wavespec.schema.spec_to_yaml import dump_yaml
from wavespec.targets.machine import machines
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
    keys = {place: build_key(one.spec, place[1]) for place, one in todo.items()}
    packed = {place: payload for place, key in keys.items() if (payload := cache.get(key)) is not None}
    missing = {place: one for place, one in todo.items() if place not in packed}
    for place, artifact in _built_by_workers(missing, workers, report).items():
        packed[place] = pack_artifact(artifact)
        cache.put(keys[place], packed[place])
    built: dict[Place, KernelArtifact] = {}
    for place, one in todo.items():
        payload = packed.get(place)
        # What a worker found wrong is found again here, where the lines of the spec or the template are known.
        with naming_member(one.label):
            built[place] = unpack_artifact(payload) if payload else build(one.spec, place[1], cache=cache)
    return built


def _built_by_workers(
    todo: Mapping[Place, KernelToBuild], workers: int | None, report: Callable[[str], None]
) -> dict[Place, KernelArtifact]:
    """Of the kernels that could be built."""
    with tempfile.TemporaryDirectory() as folder:
        parts: dict[Place, list[list[CompileJob]]] = {}
        places: dict[CompileJob, Place] = {}
        for place, one in todo.items():
            of_kernel = parts[place] = []
            for case in cases_for_target(one.spec, place[1]):
                text, of_case = dump_yaml(case.spec), list[CompileJob]()
                for machine in machines(place[1]):
                    output = Path(folder, f"{len(places)}.wavespec")
                    of_case.append(CompileJob(text, place[1], (machine.variant,), output))
                    places[of_case[-1]] = place
                of_kernel.append(of_case)
        died: list[tuple[Place, str]] = []

        def done(job: CompileJob, problem: str | None) -> None:
            report(" for ".join(places[job]))
            if problem and problem.startswith(_DIED):
                died.append((places[job], problem.removeprefix(f"{_DIED}: ")))

        CompilePool(workers, seconds_per_job=_SECONDS_PER_PART).run(list(places), math.inf, done)
        for place, problem in died:
            one = todo[place]
            # Not again in this process, which it would end.
            with naming_member(one.label):
                raise CompilerFailure(one.spec.span_of("name"), f"{' for '.join(place)}: {problem}.")
        return {
            place: _joined(todo[place].spec, place[1], of_kernel)
            for place, of_kernel in parts.items()
            if all(job.output.exists() for of_case in of_kernel for job in of_case)
        }


def _joined(spec: KernelSpec, target: str, parts: Sequence[Sequence[CompileJob]]) -> KernelArtifact:
    built = [join_variants([unpack_artifact(job.output.read_bytes()) for job in of_case]) for of_case in parts]
    return join_cases(cases_for_target(spec, target), built)

"""The members of a family go in; each compiled for each of its targets, several at a time, comes out."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from wavespec.cache import CompileCache
from wavespec.emit.compiler import CompilerFailure
from wavespec.pipeline import build, build_key
from wavespec.runtime.artifact import KernelArtifact, unpack_artifact
from wavespec.schema.family import Member
from wavespec.schema.family_errors import naming_member
from wavespec.schema.resolve import targets_of
from wavespec.schema.spec_to_yaml import dump_yaml
from wavespec.tune.compile_pool import CompileJob, CompilePool

_DIED = "compiler-died"


def build_members(
    members: Sequence[Member],
    targets: Sequence[str],
    *,
    cache: CompileCache | None = None,
    workers: int | None = None,
    report: Callable[[str], None] = lambda words: None,
) -> dict[tuple[str, str], KernelArtifact]:
    """Artifacts by the name of a member and a target; a member that is not for a target has none.

    The bytes are those that building one after the other gives. Worker processes fill the cache, or stand in for it.

    Raises:
        WavespecError: members that do not fit a machine, by name.
    """
    cache = cache or CompileCache()
    todo = [(member, target) for member in members for target in targets if target in targets_of(member.spec)]
    packed: dict[tuple[str, str], bytes] = {}
    keys = {(member.name, target): build_key(member.spec, target) for member, target in todo}
    for place, key in keys.items():
        if (payload := cache.get(key)) is not None:
            packed[place] = payload
    missing = [(member, target) for member, target in todo if (member.name, target) not in packed]
    if len(missing) > 1:
        for place, payload in _built_by_workers(missing, workers, report).items():
            packed[place] = payload
            cache.put(keys[place], payload)
    built: dict[tuple[str, str], KernelArtifact] = {}
    for member, target in todo:
        payload = packed.get((member.name, target))
        # What a worker found wrong is found again here, where the lines of the template are known.
        with naming_member(member.label):
            built[member.name, target] = (
                unpack_artifact(payload) if payload else build(member.spec, target, cache=cache)
            )
    return built


def _built_by_workers(
    todo: Sequence[tuple[Member, str]], workers: int | None, report: Callable[[str], None]
) -> dict[tuple[str, str], bytes]:
    with tempfile.TemporaryDirectory() as folder:
        jobs = {
            CompileJob(dump_yaml(member.spec), target, None, Path(folder, f"{index}.wavespec")): (member, target)
            for index, (member, target) in enumerate(todo)
        }
        died: list[tuple[Member, str, str]] = []

        def done(job: CompileJob, problem: str | None) -> None:
            member, target = jobs[job]
            report(f"{member.name} for {target}")
            if problem and problem.startswith(_DIED):
                died.append((member, target, problem.removeprefix(f"{_DIED}: ")))

        CompilePool(workers).run(list(jobs), math.inf, done)
        for member, target, problem in died:
            # Not again in this process, which it would end.
            with naming_member(member.label):
                raise CompilerFailure(member.spec.span_of("name"), f"{member.name} for {target}: {problem}.")
        return {
            (member.name, target): job.output.read_bytes()
            for job, (member, target) in jobs.items()
            if job.output.exists()
        }

"""Specs go in; whatever would stop one of them from being built for a machine comes out.

A kernel is taken as far as its MLIR, which the compilers behind it take as it is.  The cache remembers what was found
right, so that a second look at the same specs costs no more than reading them.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby

from wavespec.cache import CompileCache, cache_key
from wavespec.cases_on_machines import machines_of
from wavespec.diagnostics import Diagnostic, WavespecError, enumeration
from wavespec.pipeline import Variants, part_key, spec_digest
from wavespec.schema import KernelSpec
from wavespec.schema.cases import TargetCase, cases_for_target
from wavespec.schema.checking.case_errors import in_case
from wavespec.schema.resolve import is_for, targets_of
from wavespec.targets.machine import Machine, machines

_RIGHT = b"right"
# A process of its own takes a second to begin, in which some twenty kernels are lowered.
_FEWEST_FOR_PROCESSES = 24


@dataclass(frozen=True)
class Part:
    """What is compiled by itself: one kernel of a case for one machine."""

    case: TargetCase
    spec: KernelSpec
    machine: Machine
    digest: str
    """`spec_digest` of the kernel, which all machines share."""

    @cached_property
    def key(self) -> str:
        return cache_key({"checked": part_key(self.digest, self.machine)})


def check_builds(
    specs: Sequence[KernelSpec],
    targets: Sequence[str] = (),
    *,
    cache: CompileCache | None = None,
    workers: int | None = None,
) -> list[tuple[Diagnostic, ...]]:
    """For every spec, what is wrong with it for ``targets``, by default all that it is for.

    A mistake that several targets find is there once, with a note that names them.
    """
    cache = cache or CompileCache()
    parts = [_parts(spec, targets) for spec in specs]
    every = {part.key: part for one in parts for part in one}
    missing = {key: part for key, part in every.items() if cache.get(key) != _RIGHT}
    found = dict(zip(missing, _problems_of(list(missing.values()), workers), strict=True))
    for key, problems in found.items():
        if not problems:
            cache.put(key, _RIGHT)
    return [_merged(spec, one, found) for spec, one in zip(specs, parts, strict=True)]


def _parts(spec: KernelSpec, targets: Sequence[str]) -> list[Part]:
    wanted = [target for target in targets or targets_of(spec) if is_for(spec, target)]
    return [
        Part(case, one, machine, digest)
        for target in wanted
        # The kernel for all sizes comes first: what is wrong with it is no mistake of a case.
        for case in reversed(cases_for_target(spec, target))
        for one in case.kernels
        for digest in (spec_digest(one),)
        for machine in machines_of(case, machines(target))
    ]


def _problems_of(parts: Sequence[Part], workers: int | None) -> list[tuple[Diagnostic, ...]]:
    cases = [tuple(those) for _, those in groupby(parts, lambda part: id(part.spec))]
    workers = min(workers or len(os.sched_getaffinity(0)), len(parts) // (_FEWEST_FOR_PROCESSES // 2))
    if workers < 2:
        # No `map`: a `StopIteration` out of a pass would end it as if there were no more cases.
        return [found for case in cases for found in problems_of_case(case)]
    # Forked processes have the parts already; models of ops that are made from tables cannot be sent to others.
    _SHARED[:] = cases
    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
        return list(chain.from_iterable(pool.map(_problems_at, range(len(cases)), chunksize=4)))


_SHARED: list[tuple[Part, ...]] = []


def _problems_at(index: int) -> list[tuple[Diagnostic, ...]]:
    return problems_of_case(_SHARED[index])


def problems(part: Part) -> tuple[Diagnostic, ...]:
    """What stops one part from being built."""
    return problems_of_case((part,))[0]


def problems_of_case(parts: Sequence[Part]) -> list[tuple[Diagnostic, ...]]:
    """What stops each of several machines from having a kernel of a case."""
    found: list[tuple[Diagnostic, ...]] = []
    variants = Variants(parts[0].spec, parts[0].machine.target)
    for part in parts:
        try:
            variants.emit(part.machine)
            found.append(())
        except WavespecError as error:
            found.append(error.diagnostics)
    return found


def _merged(
    spec: KernelSpec, parts: Iterable[Part], found: Mapping[str, tuple[Diagnostic, ...]]
) -> tuple[Diagnostic, ...]:
    general: set[Diagnostic] = set()
    shared: set[Diagnostic] = set()
    stopped: dict[Diagnostic, list[Part]] = {}
    for part in parts:
        for one in found.get(part.key, ()):
            alike = replace(one, targets=())
            if part.case.case is None:
                general.add(one)
                stopped.setdefault(_as_first(alike, stopped) if spec.is_planned else alike, []).append(part)
            elif spec.is_planned and any(one.code == other.code and one.targets == other.targets for other in general):
                continue  # cases are the compiler's own there
            elif one in general:
                shared.add(alike)
            else:
                stopped.setdefault(in_case(alike, part.case), []).append(part)
    defaults = {one for one, those in stopped.items() if all(part.case.is_default for part in those)} - shared
    defaults = set[Diagnostic]() if spec.is_planned else defaults
    return _once_for_variants(
        _for_targets(in_case(one, those[0].case) if one in defaults else one, those, spec)
        for one, those in stopped.items()
    )


def _as_first(found: Diagnostic, known: Iterable[Diagnostic]) -> Diagnostic:
    """The first of those known that say the same at the same place, whatever their hints; else what was found."""
    return next((one for one in known if replace(one, hints=()) == replace(found, hints=())), found)


def _once_for_variants(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """What is said of each variant of a target, is said of the target, once."""
    alike: dict[Diagnostic, list[Diagnostic]] = {}
    for one in found:
        alike.setdefault(_of_target(one), []).append(one)
    return tuple(
        part
        for general, each in alike.items()
        for part in ([general] if len(each) == len([m for t in general.targets for m in machines(t)]) else each)
    )


def _of_target(found: Diagnostic) -> Diagnostic:
    """With the name of the target in place of that of the variant which found it."""
    names = {machine.variant: target for target in found.targets for machine in machines(target)}

    def general(text: str) -> str:
        for variant in sorted(names, key=len, reverse=True):  # some begin with others
            text = text.replace(variant, names[variant])
        return text

    notes, hints = (tuple([general(text) for text in texts]) for texts in (found.notes, found.hints))
    return replace(found, message=general(found.message), notes=notes, hints=hints)


def _for_targets(found: Diagnostic, stopped: Iterable[Part], spec: KernelSpec) -> Diagnostic:
    """With the targets, and how to say that a kernel is not for them."""
    targets = tuple(dict.fromkeys(part.machine.target for part in stopped))
    others = [target for target in targets_of(spec) if target not in targets]
    hint = f"A kernel that is not for {enumeration(targets)} says so: 'only: [{', '.join(others)}]'."
    named = {*spec.targets, *(spec.only or ())}
    hints = (*found.hints, hint) if others and not named.intersection(targets) else found.hints
    return replace(found, targets=targets, hints=hints)

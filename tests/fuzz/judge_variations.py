"""A seed and a number go in; one kernel of ``specs/``, varied, on several machines with the same inputs, and whether all
of them compute what the reference does, comes out.

Whatever is varied, the kernel is right or refused: one that is checked is built, and every call of it works.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from random import Random

import torch
from torch import Tensor

from tests.fuzz.judge import MOST_LINES, time_limit
from tests.fuzz.lowered import place_of, smaller
from tests.fuzz.machines_here import is_here
from tests.fuzz.run_variations import (
    SECONDS,
    Accepted,
    NotRun,
    RefusedLater,
    Run,
    accept,
    build,
    run_in_emulator,
    run_on_cpu,
    run_on_gpu,
    run_simulated,
)
from tests.fuzz.variations import Drawn, Sample, draw, draw_samples
from tests.kernels import Expected
from tests.sim.plan_variations import Varied
from wavespec.schema.resolve import targets_of
from wavespec.sim.packed import unpacked
from wavespec.targets.machine import Machine

_PLANS = 7
"""That a kernel is given for a machine, until one is not refused."""

ITSELF = "itself"
"""Said of a GPU that a kernel runs on, where one is here, besides its simulator."""

_EMULATED = (1, 7, 9)
"""Of 16 numbers, those whose kernel runs as machine code of AMD as well, which costs as much as all else: two of gfx942,
one of gfx950."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What should not be: the kind of failure, where, what was said, and the spec with the calls that show it."""

    kind: str
    """``wrong``, ``accepted, then refused`` or ``internal error``; of a search also ``process ended`` and ``error of the
    search``."""
    where: str
    message: str
    text: str


@dataclass(slots=True)
class Verdict:
    """Of one kernel."""

    number: int
    name: str
    ran: set[str] = field(default_factory=set[str])
    """Where all its calls ran."""
    calls: Counter[str] = field(default_factory=Counter[str])
    """That were right, by where they ran."""
    left_out: Counter[str] = field(default_factory=Counter[str])
    """Plans and runs of which nothing is known, by reason."""
    findings: list[Finding] = field(default_factory=list[Finding])
    seconds: float = 0.0
    peak_bytes: int = 0


def judge_variation(seed: int, number: int) -> Verdict:
    """What becomes of the kernel of this number."""
    start, random = time.process_time(), Random(seed * 1_000_003 + number)
    drawn = draw(number, random)
    verdict = Verdict(number, drawn.subject.name)
    accepted = list(_accepted(drawn, random, verdict))
    if accepted:
        samples = draw_samples([(one.subject, one.resolved) for one in accepted], random)
        runs: dict[str, tuple[Accepted, Run]] = {}
        for one in accepted:
            try:
                for where, run in _runs(one, verdict, emulated=number % 16 in _EMULATED):
                    runs[where] = one, run
            except Exception as error:  # whatever it is, it is what is searched for
                verdict.findings.append(_finding(one, one.machine.variant, samples, error))
        _compare(runs, samples, verdict)
    verdict.seconds = time.process_time() - start
    return verdict


def _accepted(drawn: Drawn, random: Random, verdict: Verdict) -> Iterator[Accepted]:
    """For each machine the first plan that it takes; the CPU is asked first whether it takes that of the GPU."""
    same: list[Varied] = []
    for machine in (drawn.gpu, drawn.cpu):
        if machine.target not in targets_of(drawn.subject.spec):
            continue
        for plan in chain(same, islice(drawn.plans(machine.target, random), _PLANS)):
            try:
                found = accept(plan, machine)
            except Exception as error:  # whatever it is, it is what is searched for
                text = _smallest(
                    plan.text, error, lambda text, plan=plan, machine=machine: _accept(plan, machine, text)
                )
                verdict.findings.append(Finding("internal error", machine.variant, _said(error), text))
                break
            if isinstance(found, Accepted) and machine.target == "cpu" and found.lines > _most_lines(verdict):
                found = "long to compile"
            if isinstance(found, Accepted):
                same.append(plan)
                yield found
                break
            verdict.left_out[f"{machine.target}: {found}"] += 1


def _most_lines(verdict: Verdict) -> int:
    """Of MLIR that is compiled: some kernels have too many with their own tiles, so every eighth one may have more."""
    return MOST_LINES * (1 if verdict.number % 8 else 3)


def _accept(plan: Varied, machine: Machine, text: str) -> object:
    return accept(replace(plan, text=text), machine)


def _runs(one: Accepted, verdict: Verdict, *, emulated: bool) -> Iterator[tuple[str, Run]]:
    """Where a kernel runs, once it is built."""
    if one.machine.target == "cpu":
        yield "cpu", run_on_cpu(build(one))
        return
    yield one.machine.target, run_simulated(one)
    if is_here(one.machine):
        yield f"{one.machine.target} {ITSELF}", run_on_gpu(build(one))
    if not emulated or one.machine.backend != "rocm":
        return
    try:
        if one.lines > _most_lines(verdict):
            raise NotRun(f"{one.machine.target}: long to compile")
        yield f"{one.machine.target} emulated", run_in_emulator(one, build(one))
    except NotRun as reason:
        verdict.left_out[str(reason)] += 1


def _compare(runs: Mapping[str, tuple[Accepted, Run]], samples: Sequence[Sample], verdict: Verdict) -> None:
    """Every sample everywhere, with the reference and with each other; who fails is asked no more."""
    asked = dict(runs)
    for sample in samples:
        if not asked:
            return
        subject = next(iter(asked.values()))[0].subject
        inputs = subject.inputs(sample.sizes, whole=sample.whole)
        expected = subject.expected([one.clone() for one in inputs])
        first: tuple[str, Sequence[Tensor]] | None = None
        for where, (one, run) in list(asked.items()):
            try:
                results = _call(one, run, sample, inputs, expected)
                if sample.whole and subject.row.exact:
                    _same(subject, first or (where, results), where, results)
            except NotRun as reason:
                verdict.left_out[f"{where}: {reason}"] += 1
                del asked[where]
            except Exception as error:  # whatever it is, it is what is searched for
                verdict.findings.append(_finding(one, where, (sample,), error))
                del asked[where]
            else:
                first = first or (where, results)
                verdict.calls[where] += 1
    verdict.ran = set(asked)


def _call(one: Accepted, run: Run, sample: Sample, inputs: Sequence[Tensor], expected: Expected) -> Sequence[Tensor]:
    """What a call writes; raises where that is wrong."""
    try:
        with time_limit(SECONDS):
            results = run(one.subject.complete(sample.sizes), [one.clone() for one in inputs])
    except TimeoutError:
        raise NotRun("long to run") from None
    one.subject.compare(expected, results, sample.sizes, whole=sample.whole)
    return results


def _same(subject: Varied, first: tuple[str, Sequence[Tensor]], where: str, results: Sequence[Tensor]) -> None:
    for name, one, other in zip(subject.written, first[1], results, strict=True):
        dtype = subject.spec.tensors[name].dtype
        mine, theirs = (unpacked(tensor, dtype) for tensor in (one, other))
        if mine.is_floating_point():
            mine, theirs = mine.double().nan_to_num(nan=0.5), theirs.double().nan_to_num(nan=0.5)
        assert torch.equal(mine, theirs), f"{name} is another on {where} than on {first[0]}"


def _finding(one: Accepted, where: str, samples: Sequence[Sample], error: Exception) -> Finding:
    kind = "internal error"
    if isinstance(error, RefusedLater):
        kind = "accepted, then refused"
    elif isinstance(error, AssertionError):
        kind = "wrong"

    def again(text: str) -> None:
        found = accept(replace(one.subject, text=text), one.machine)
        if not isinstance(found, Accepted):
            return
        verdict = Verdict(0, found.subject.name)
        run = dict(_runs(found, verdict, emulated=where.endswith("emulated")))[where]
        for sample in samples:
            inputs = found.subject.inputs(sample.sizes, whole=sample.whole)
            _call(found, run, sample, inputs, found.subject.expected([tensor.clone() for tensor in inputs]))

    calls = "; ".join(f"{dict(one.sizes)} of {'whole' if one.whole else 'normal'} numbers" for one in samples)
    # What failed on a GPU may have left it unable to run anything else in this process.
    text = one.subject.text if where.endswith(ITSELF) else _smallest(one.subject.text, error, again)
    return Finding(kind, f"{one.machine.variant} ({where}), {calls}", _said(error), text)


def _said(error: Exception) -> str:
    return f"{place_of(error)}: {error}"


def _smallest(text: str, error: Exception, judge: Callable[[str], object]) -> str:
    """What fails in the same place, in as few words as are found soon."""
    return smaller(text, place_of(error), judge)

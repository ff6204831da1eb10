"""Minutes and a seed go in; how many random specs, whole and broken, had which outcome comes out."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import count, islice, takewhile
from random import Random
from typing import TypeVar

from tests.fuzz.broken_texts import broken_family, broken_kernel, judge_family, judge_kernel
from tests.fuzz.judge import SECONDS, judge, time_limit
from tests.fuzz.lowered import BUILDS, Found, judge_text, place_of, smaller
from tests.fuzz.mutations import mutated_spec
from tests.fuzz.random_specs import random_spec

T = TypeVar("T")
R = TypeVar("R")
_Chunk = tuple[int, int, int, frozenset[str]]
MOST_BYTES = 2 << 30
_CPU_EVERY = 16
"""One spec of so many is compiled for the CPU, which takes a hundred times as long as the rest."""


@dataclass(slots=True)
class Outcomes:
    """What a search saw."""

    counts: Counter[str] = field(default_factory=Counter[str])
    failures: list[str] = field(default_factory=list[str])
    slowest_seconds: float = 0.0
    slowest: int = 0
    """The number of the text that took them."""

    def took(self, seconds: float, number: int) -> None:
        if seconds > self.slowest_seconds:
            self.slowest_seconds, self.slowest = seconds, number

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.counts.items()))
        return (
            f"{counts}; {len(self.failures)} failures; slowest text {self.slowest_seconds:.2f} s (number {self.slowest}); "
            f"{peak_bytes() >> 20} MiB at most"
        )


def search(
    seed: int, goes_on: Callable[[int], bool], *, broken: bool = False, tell: Callable[[str], None] = print
) -> Outcomes:
    """Try specs until ``goes_on(number of specs so far)`` is false; `broken`: texts with mistakes, else whole specs."""
    outcomes, number, before = Outcomes(), 0, peak_bytes()
    while goes_on(number):
        one = Random(seed * 1_000_003 + number)
        _broken(one, number, outcomes, tell) if broken else _whole(one, number, outcomes, tell)
        number += 1
    if (taken := peak_bytes() - before) > MOST_BYTES:
        outcomes.failures.append(f"{taken >> 20} MiB more were in use")
    return outcomes


def peak_bytes() -> int:
    """Of memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _whole(random: Random, number: int, outcomes: Outcomes, tell: Callable[[str], None]) -> None:
    spec = random_spec(random)
    try:
        outcomes.counts[judge(spec, cpu=number % _CPU_EVERY == 0)] += 1
    except Exception as error:  # whatever it is, it is what is searched for
        _report(spec.text, error, outcomes, tell)


def _broken(random: Random, number: int, outcomes: Outcomes, tell: Callable[[str], None]) -> None:
    family = random.random() < 0.2
    text = (broken_family if family else broken_kernel)(random)
    start = time.perf_counter()
    try:
        with time_limit(SECONDS):
            accepted = (judge_family if family else judge_kernel)(text)
        outcomes.counts["accepted" if accepted else "diagnosed"] += 1
    except Exception as error:  # whatever it is, it is what is searched for
        _report(text, error, outcomes, tell)
    outcomes.took(time.perf_counter() - start, number)


def _report(text: str, error: Exception, outcomes: Outcomes, tell: Callable[[str], None]) -> None:
    failure = f"{type(error).__name__}: {error}\n{text}"
    outcomes.failures.append(failure)
    tell(failure)


def search_mutations(
    seed: int,
    goes_on: Callable[[int], bool],
    *,
    processes: int = 1,
    chunk: int = 100,
    tell: Callable[[str], None] = print,
) -> tuple[Outcomes, Found]:
    """Try specs of the project with nodes changed, each lowered for every target; ``chunk``: so many in one process,
    before it says what it found."""
    outcomes, found = Outcomes(), Found()
    for counts, slowest, failed, builds in _in_chunks(_mutations, seed, goes_on, chunk, processes):
        outcomes.counts.update(counts)
        outcomes.took(*slowest)
        BUILDS.update(builds)
        for place, text in failed:
            if place not in found.counts:
                tell(f"{place}\n{smaller(text, place)}")
            found.add(place, text)
            outcomes.failures.append(place)
        if (outcomes.counts.total() + len(outcomes.failures)) % 5_000 == 0:
            tell(str(outcomes))
    return outcomes, found


def _in_chunks(
    work: Callable[[_Chunk], R], seed: int, goes_on: Callable[[int], bool], size: int, processes: int
) -> Iterator[R]:
    """What `work` makes of chunks, each a seed, the first of `size` numbers, `size`, and what is known to build by then."""
    waiting = ((seed, first, size, frozenset(BUILDS)) for first in takewhile(goes_on, count(step=size)))
    running = [_in_a_process(work, chunk) for chunk in islice(waiting, processes)]
    while running:
        yield running.pop(0).result()
        running += [_in_a_process(work, chunk) for chunk in islice(waiting, 1)]


def _in_a_process(work: Callable[[T], R], chunk: T) -> Future[R]:
    """What `work` makes of a chunk, in a process of its own: limits that it sets, and memory that it keeps, end with it.

    It is made of a server, not of this process: threads of torch and of compilers hold locks that a copy without them
    would wait for.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    pool = ProcessPoolExecutor(1, context)
    future = pool.submit(work, chunk)
    pool.shutdown(wait=False)
    return future


def _mutations(chunk: _Chunk) -> tuple[Counter[str], tuple[float, int], list[tuple[str, str]], set[str]]:
    """The outcomes of a chunk of texts, the processor time and the number of the slowest, the failures with their texts,
    and the keys of what builds."""
    seed, first, size, known = chunk
    BUILDS.update(known)
    limit_memory()
    counts, slowest, failed = Counter[str](), (0.0, first), list[tuple[str, str]]()
    for number in range(first, first + size):
        text = mutated_spec(Random(seed * 1_000_003 + number))
        start = time.process_time()
        try:
            counts[judge_text(text)] += 1
        except Exception as error:  # whatever it is, it is what is searched for
            failed.append((place_of(error), text))
        slowest = max(slowest, (time.process_time() - start, number))
    return counts, slowest, failed, BUILDS - known


def limit_memory() -> None:
    """From here on this process gets at most `MOST_BYTES` more, and a `MemoryError` beyond."""
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    most, (_, hard) = pages * resource.getpagesize() + MOST_BYTES, resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))

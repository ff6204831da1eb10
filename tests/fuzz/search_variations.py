"""A seed goes in; how many kernels of ``specs/``, varied, every machine computes as the reference does comes out."""

from __future__ import annotations

import multiprocessing
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from itertools import count, takewhile
from traceback import format_exception

import torch

from tests.fuzz.judge_variations import ITSELF, Finding, Verdict, judge_variation

_KERNELS = 40
"""That one process tries: what it keeps of them ends with it, and what it reads of specs serves so many.  It ends with
a failure too, which may have left its GPU unable to run anything else."""


@dataclass(slots=True)
class Summary:
    """Of a search."""

    seed: int
    kernels: int = 0
    compared: int = 0
    """Kernels whose calls all were right on a CPU and on a GPU."""
    emulated: int = 0
    """Those that also were as AMD's machine code."""
    on_gpus: int = 0
    """Those that a GPU itself computed."""
    calls: Counter[str] = field(default_factory=Counter[str])
    left_out: Counter[str] = field(default_factory=Counter[str])
    findings: list[Finding] = field(default_factory=list[Finding])
    seconds: float = 0.0
    slowest: tuple[float, str] = (0.0, "none")
    largest: tuple[int, str] = (0, "none")

    def add(self, verdict: Verdict) -> None:
        name = f"{verdict.name}, number {verdict.number}"
        self.kernels += 1
        self.compared += "cpu" in verdict.ran and len(verdict.ran) > 1
        self.emulated += any(where.endswith("emulated") for where in verdict.ran)
        self.on_gpus += any(where.endswith(ITSELF) for where in verdict.ran)
        self.calls.update(verdict.calls)
        self.left_out.update(verdict.left_out)
        self.findings += verdict.findings
        self.seconds += verdict.seconds
        self.slowest = max(self.slowest, (verdict.seconds, name))
        self.largest = max(self.largest, (verdict.peak_bytes, name))

    def __str__(self) -> str:
        kinds = Counter(one.kind for one in self.findings)
        found = ", ".join(f"{kinds[kind]} {kind}" for kind in dict.fromkeys((*_KINDS, *kinds)))
        return "\n".join(
            (
                f"seed {self.seed}: {self.kernels} kernels, {self.compared} right on a CPU and a GPU, {self.emulated} of "
                f"them emulated, {self.on_gpus} by a GPU itself; {found}",
                f"  calls: {_counted(self.calls)}",
                f"  left out: {_counted(self.left_out)}",
                f"  {self.seconds / max(self.kernels, 1):.1f} s a kernel; slowest {self.slowest[0]:.1f} s "
                f"({self.slowest[1]}); largest {self.largest[0] >> 20} MiB ({self.largest[1]})",
            )
        )


_KINDS = ("wrong", "accepted, then refused", "internal error", "process ended")


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {what}" for what, number in sorted(counts.items())) or "none"


def search_variations(
    seed: int,
    goes_on: Callable[[int], bool],
    *,
    first: int = 0,
    processes: int = 1,
    judge: Callable[[int, int], Verdict] = judge_variation,
    tell: Callable[[str], None] = print,
) -> Summary:
    """Try kernels from number `first` on, until ``goes_on(number of kernels so far)`` is false."""
    summary = Summary(seed)
    numbers = (first + number for number in takewhile(goes_on, count()))
    for verdict in _verdicts(partial(_judged, judge, seed), numbers, processes):
        summary.add(verdict)
        for one in verdict.findings:
            again = f"python -m tests.fuzz --variations --seed {seed} --first {verdict.number} --count 1"
            tell(f"{one.kind}: {verdict.name} on {one.where}\n{one.message}\n# {again}\n{one.text}")
        if summary.kernels % 20 == 0:
            tell(str(summary))
    return summary


@dataclass(slots=True)
class _Process:
    """One at a time, replaced once it has tried `_KERNELS`, or has ended at one."""

    pool: ProcessPoolExecutor
    tried: int = 0


def _verdicts(judged: Callable[[int], Verdict], numbers: Iterator[int], processes: int) -> Iterator[Verdict]:
    """As they come.  Each process is the only one of its pool: whose kernel ended it is known."""
    running: dict[Future[Verdict], tuple[int, _Process]] = {}

    def start(process: _Process) -> None:
        number = next(numbers, None)
        if number is None:
            process.pool.shutdown(wait=False)
            return
        running[process.pool.submit(judged, number)] = number, process

    for _ in range(processes):
        start(_process())
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            number, process = running.pop(future)
            process.tried += 1
            try:
                verdict = future.result()
            except BrokenProcessPool:
                finding = Finding("process ended", "one of its machines", "The process ended in the middle.", "")
                verdict, process.tried = Verdict(number, "a kernel", findings=[finding]), _KERNELS
            except Exception as error:  # of the search itself, at one number; the others are tried all the same
                finding = Finding("error of the search", "no machine", "".join(format_exception(error)), "")
                verdict = Verdict(number, "a kernel", findings=[finding])
            if process.tried >= _KERNELS or verdict.findings:
                process.pool.shutdown(wait=False)
                process = _process()
            start(process)
            yield verdict


def _process() -> _Process:
    """Made of a server, not of this process: threads of torch and of compilers hold locks that a copy without them
    would wait for."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return _Process(ProcessPoolExecutor(1, context))


def _judged(judge: Callable[[int, int], Verdict], seed: int, number: int) -> Verdict:
    torch.set_num_threads(1)  # as many processes run as there are cores to use
    verdict = judge(seed, number)
    verdict.peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return verdict

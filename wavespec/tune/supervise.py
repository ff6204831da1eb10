"""A bundle and a time go in; its measurements come out, even of kernels that end the process they run in.

Needs nothing beyond Python: a bundle carries this file.  The measuring itself (`bench`) runs in a process of its own;
when that dies, or is silent for too long, the candidate that was running gets the blame and another process goes on.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from wavespec.tune.results import RESULTS, Results, ResultsError, load_results, start_or_resume

_SILENT_SECONDS = 180.0
_POLL_SECONDS = 0.2
_START_AGAIN = 75


class BenchFailed(Exception):
    """The measuring could not even begin; the text says why."""


def supervise(folder: Path, seconds: float, report: Callable[[str], None]) -> Results:
    """Measure the bundle in `folder` for about `seconds`; progress goes to `report`, a line each.

    Raises:
        BenchFailed: the process that measures does not start.
        ResultsError: the folder has no plan.
    """
    end = time.monotonic() + seconds
    results = start_or_resume(folder)
    results.save()  # what an interrupted run was at is nobody's fault
    while True:
        reported = len(results.data["measurements"])
        code, output = _run(folder, max(0.0, end - time.monotonic()), reported, report)
        results = load_results(folder / RESULTS) if (folder / RESULTS).exists() else results
        running = results.data.get("running")
        if code == 0:
            return results
        if running is not None:
            problem = _death(code)
            results.add(running["workload"], running["candidate"], problem=problem)
            report(f"{_words(results, running['workload'], running['candidate'])}: {problem}")
        elif code != _START_AGAIN:
            raise BenchFailed(output[-1] if output else _death(code))


def _run(folder: Path, seconds: float, reported: int, report: Callable[[str], None]) -> tuple[int, list[str]]:
    """One process; returns its exit code and what it said on stderr."""
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    log = folder / "bench.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "wavespec.tune.bench", str(folder), str(seconds)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is for us: we end it when it is between two measurements or not
        )
        last = time.monotonic()
        try:
            while process.poll() is None:
                time.sleep(_POLL_SECONDS)
                count = _report_new(folder, reported, report)
                if count != reported:
                    reported, last = count, time.monotonic()
                if time.monotonic() - last > _SILENT_SECONDS:
                    process.kill()
            _report_new(folder, reported, report)
            return process.wait(), log.read_text(errors="replace").strip().splitlines()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _report_new(folder: Path, reported: int, report: Callable[[str], None]) -> int:
    """Tell of measurements beyond the first `reported`; returns how many there are."""
    try:
        results = load_results(folder / RESULTS)
    except ResultsError:
        return reported
    measurements = results.data["measurements"]
    for entry in measurements[reported:]:
        what = _words(results, entry["workload"], entry["candidate"])
        report(f"{what}: " + (entry.get("problem") or f"{entry['microseconds']:.1f} us"))
    return len(measurements)


def _words(results: Results, index: int, candidate: str) -> str:
    workload = results.workloads[index]
    sizes = " ".join(f"{name}={size}" for name, size in workload["sizes"].items())
    words = next(one["words"] for one in workload["candidates"] if one["name"] == candidate)
    return f"{sizes}, {words}"


def _death(code: int) -> str:
    if code == _START_AGAIN:
        return "the device failed"
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return f"the process died ({name})" if -code != signal.SIGKILL else "the process was killed, or hung"
    return f"the process ended with code {code}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command of a bundle: measure, and leave `results.json` beside it."""
    parser = argparse.ArgumentParser(description="Measure the kernels of this bundle; run it again to go on.")
    parser.add_argument("--budget", type=float, default=600.0, metavar="SECONDS", help="time to take (600)")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parents[2], help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    try:
        results = supervise(chosen.folder, chosen.budget, lambda words: print(words, file=sys.stderr, flush=True))
    except (BenchFailed, ResultsError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"interrupted; {RESULTS} has what was measured, and running this again goes on", file=sys.stderr)
        return 130
    print(results.path)
    return 0

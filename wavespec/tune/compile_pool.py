"""Candidates as compile jobs go in; their kernels, in files, come out of several processes at once."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wavespec.cache import CompileCache

_COMMAND = (sys.executable, "-m", "wavespec.tune.compile_worker")


@dataclass(frozen=True, slots=True)
class CompileJob:
    """A kernel to be compiled: the YAML of the plain spec of a target or case, and the file for the packed artifact;
    without ``code`` it is emitted only."""

    spec: str
    target: str
    variants: tuple[str, ...]
    output: Path
    code: bool = True

    @property
    def problem_file(self) -> Path:
        """Where it is kept, in words, that this kernel cannot be compiled."""
        return self.output.with_suffix(".problem")

    @property
    def is_done(self) -> bool:
        return self.output.exists() or self.problem_file.exists()

    def as_line(self) -> str:
        return json.dumps({**asdict(self), "output": str(self.output)}) + "\n"


class CompilePool:
    """Worker processes, a thread each; a worker that dies or hangs is replaced, and its job has that as its problem."""

    def __init__(
        self, workers: int | None = None, *, seconds_per_job: float = 180.0, cache: CompileCache | None = None
    ) -> None:
        self._workers = workers or len(os.sched_getaffinity(0))
        self._seconds_per_job = seconds_per_job
        self._cache = cache or CompileCache()

    def run(self, jobs: Sequence[CompileJob], end: float, done: Callable[[CompileJob, str | None], None]) -> None:
        """Compile `jobs` in order until `time.monotonic()` is `end`; calls `done` with each and its problem, if any.

        What is finished already is left alone.  A job that has begun is finished.
        """
        waiting: queue.SimpleQueue[CompileJob] = queue.SimpleQueue()
        finished: queue.SimpleQueue[tuple[CompileJob, str | None] | None] = queue.SimpleQueue()
        for job in jobs:
            if not job.is_done:
                waiting.put(job)
        count = min(self._workers, waiting.qsize())
        workers = [_Worker(self._seconds_per_job, self._cache) for _ in range(count)]
        threads = [
            threading.Thread(target=_work, args=(worker, waiting, finished, end), daemon=True) for worker in workers
        ]
        try:
            for thread in threads:
                thread.start()
            while count:
                result = finished.get()
                if result is None:
                    count -= 1
                    continue
                job, problem = result
                if problem is not None:
                    job.problem_file.parent.mkdir(parents=True, exist_ok=True)
                    job.problem_file.write_text(problem)
                done(job, problem)
        finally:
            for worker in workers:
                worker.kill()
            for thread in threads:
                thread.join()
            for worker in workers:
                worker.end()


def _work(
    worker: _Worker,
    waiting: queue.SimpleQueue[CompileJob],
    finished: queue.SimpleQueue[tuple[CompileJob, str | None] | None],
    end: float,
) -> None:
    with contextlib.suppress(queue.Empty):
        while time.monotonic() < end:
            job = waiting.get_nowait()
            finished.put((job, worker.compile(job)))
    finished.put(None)


class _Worker:
    """One process that compiles; started when it is needed, and again after it died."""

    def __init__(self, seconds_per_job: float, cache: CompileCache) -> None:
        self._seconds_per_job = seconds_per_job
        self._cache = cache
        self._process: subprocess.Popen[str] | None = None
        self._closed = False

    def compile(self, job: CompileJob) -> str | None:
        """Returns what is wrong with the job; its kernel, where nothing is, is in the file."""
        if self._closed:
            return "interrupted"
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        hung = threading.Timer(self._seconds_per_job, process.kill)
        hung.start()
        try:
            process.stdin.write(job.as_line())
            process.stdin.flush()
            answer = process.stdout.readline()
        except (OSError, ValueError):  # it died before it read all, or we were closed
            answer = ""
        finally:
            hung.cancel()
        if answer:
            found: dict[str, Any] = json.loads(answer)
            return found["problem"]
        code = self.end()
        return f"compiler-died: the compiler ended with code {code} or took over {self._seconds_per_job:.0f} seconds"

    def kill(self) -> None:
        """Have whoever waits for an answer find that there is none, and begin nothing more."""
        self._closed = True
        if self._process is not None:
            self._process.kill()

    def end(self) -> int:
        """Clear away the process, if any; returns its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with contextlib.suppress(OSError), process:  # closing a pipe that nobody reads complains of what is in it
            pass
        return process.wait()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            root = str(Path(__file__).parents[2])
            environment = {
                **os.environ,
                **self._cache.environment(),
                "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]),
            }
            self._process = subprocess.Popen(
                _COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment,
                start_new_session=True,  # Ctrl-C is for us
            )
        return self._process

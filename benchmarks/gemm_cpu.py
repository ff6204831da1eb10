"""The GEMMs of ``specs/`` on this CPU in; checked results, times beside ``torch.matmul`` and shares of the peak out.

    OMP_WAIT_POLICY=passive python benchmarks/gemm_cpu.py [--seconds 4] [--write [FILE]]

Both run in this process on as many threads as torch has, call by call in turn, on the same tensors, each into a result
of its own that exists before.  GF/s are 2·M·N·K over the time of a call.  The median says how the machine was shared
while this ran, the minimum what the code can do; the ratio is the median over rounds, in which both met the same load.
Beside that, GF per second of processor time, times the number of threads: what the code does while it runs, whoever
else has the cores in between (it says nothing about threads that wait for each other).
``--write`` puts the table into a file of ``benchmarks/results/``; ``plot.py`` draws the chart beside it.

The peak is that of the matrix instruction alone (``cpu_peak.py``), timed in turn with the rest.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from cpu_peak import peak

import wavespec as ws
from wavespec.pipeline import best_variant

ROOT = Path(__file__).parent.parent
FILES = {"f32": "gemm_f32", "bf16": "gemm_bf16", "f16": "gemm", "i8": "gemm_i8"}
TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8}
SIZES = (
    (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096),
    (1, 4096, 4096), (16, 4096, 4096), (4096, 16, 4096), (1000, 1017, 513), (333, 4000, 777),
)  # fmt: skip
HEAD = "| dtype | M x N x K | wavespec | torch | ratio | wavespec running | torch running | ratio | peak | share |"
LONGEST_CALL = 2.0
"""Seconds: torch's f16 takes longer for the largest size, which is left out then."""
DEPTH_STEP = 16
"""``K: {multiple_of: ...}`` of the specs: 513 elements are stored as 528, the last ones zero."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of calls of one function, by the clock and of processors."""

    seconds: tuple[float, ...]
    processor_seconds: tuple[float, ...]

    def rate(self, work: float) -> tuple[float, float]:
        """Units of ``work`` per second: at the median, at the minimum."""
        return work / statistics.median(self.seconds), work / min(self.seconds)

    def rate_while_running(self, work: float) -> float:
        """Units of ``work`` per second of all threads running, at the median."""
        return work * torch.get_num_threads() / statistics.median(self.processor_seconds)

    def times_faster(self, other: Times) -> float:
        """How many times as long a call of ``other`` took as the one of ours in the same round, at the median."""
        return statistics.median(theirs / mine for mine, theirs in zip(self.seconds, other.seconds, strict=True))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="time per size and dtype")
    parser.add_argument("--write", nargs="?", const="gemm_cpu.md", metavar="FILE", help="in benchmarks/results")
    parser.add_argument("--dtypes", nargs="+", choices=FILES, default=list(FILES))
    arguments = parser.parse_args()
    lines = [
        "# GEMM on the CPU beside torch", "",
        f"Command: `OMP_WAIT_POLICY=passive python benchmarks/gemm_cpu.py {' '.join(sys.argv[1:])}`", "",
        f"{cpu_model()}; {torch.get_num_threads()} threads; torch {torch.__version__} ({blas()}); "
        f"variant {best_variant('cpu').variant}; load average before: {load_average()}.", "",
        "GF/s (i8: GOP/s) at the median and, in brackets, at the fastest call.  `ratio` is the median over rounds of "
        "one call each, in brackets of the fastest calls; above 1 is faster than torch.  `running`: the same work per "
        "second of processor time, times the threads, at the median: it does not depend on who else has the cores.  "
        "The peak is that of the same matrix instruction without memory traffic, also by processor time.", "",
        HEAD,
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    print("\n".join(lines), flush=True)
    for dtype in arguments.dtypes:
        for row in rows(dtype, arguments.seconds):
            print(row, flush=True)
            lines.append(row)
    lines += ["", *notes()]
    print("\n".join(lines[-len(notes()) :]))
    if arguments.write:
        place = ROOT / "benchmarks/results" / arguments.write
        table = lines.index(HEAD)
        lines[table:table] = [f"![ratio to torch while running]({place.stem}.svg)", ""]
        place.write_text("\n".join(lines) + "\n", encoding="utf-8")


def rows(dtype: str, seconds: float) -> list[str]:
    """One row of the table per size."""
    kernel = ws.compile(ws.load(ROOT / f"specs/{FILES[dtype]}.wave.yaml"))
    machine = best_variant("cpu")
    alone = peak(next(row for row in machine.instructions if dtype in {kind.name for kind in row.inputs}), machine)
    measured: dict[tuple[int, int, int], list[Times]] = {}
    for m, n, k in SIZES:
        a, b = operands(dtype, m, n, k)
        out = kernel(a, b)
        check(dtype, a, b, out)
        calls: list[Callable[[], object]] = [lambda out=out, a=a, b=b: kernel(a, b, out=out)]
        turned = b[:, :k].T
        if dtype == "i8":
            calls.append(lambda a=a, k=k, turned=turned: torch._int_mm(a[:, :k], turned))
        else:
            theirs = torch.empty(m, n, dtype=TORCH[dtype])
            calls.append(lambda theirs=theirs, a=a, k=k, turned=turned: torch.matmul(a[:, :k], turned, out=theirs))
        calls[1]()
        start = time.perf_counter()
        calls[1]()
        if time.perf_counter() - start < LONGEST_CALL:
            measured[m, n, k] = in_turn([*calls, alone.call], seconds)
    top = max(times[-1].rate_while_running(alone.work / 1e9) for times in measured.values())
    result: list[str] = []
    for (m, n, k), (ours, torchs, _) in measured.items():
        work = 2 * m * n * k / 1e9
        (median, most), (torch_median, torch_most) = (times.rate(work) for times in (ours, torchs))
        running, torch_running = (times.rate_while_running(work) for times in (ours, torchs))
        result.append(
            f"| {dtype} | {m} x {n} x {k} | {median:.0f} ({most:.0f}) | {torch_median:.0f} ({torch_most:.0f}) "
            f"| {ours.times_faster(torchs):.2f} ({most / torch_most:.2f}) "
            f"| {running:.0f} | {torch_running:.0f} | {running / torch_running:.2f} | {top:.0f} | {running / top:.0%} |"
        )
    return result


def operands(dtype: str, m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random operands; a depth that the specs do not take is padded with zeros."""
    depth = k if dtype == "f32" else -(-k // DEPTH_STEP) * DEPTH_STEP
    generator = torch.Generator().manual_seed(0)
    result: list[torch.Tensor] = []
    for size in (m, n):
        if dtype == "i8":
            tensor = torch.randint(-128, 128, (size, depth), generator=generator, dtype=torch.int8)
        else:
            tensor = torch.randn(size, depth, generator=generator).to(TORCH[dtype])
        tensor[:, k:] = 0
        result.append(tensor)
    return result[0], result[1]


def check(dtype: str, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Integers exactly; else at most twice the error (root mean square) of torch's f32 product of the same inputs."""
    exact = a.double() @ b.double().T
    error = (out.double() - exact).square().mean().sqrt()
    allowed = 0 if dtype == "i8" else 2 * (torch.matmul(a.float(), b.float().T).double() - exact).square().mean().sqrt()
    assert error <= allowed, f"{dtype}: error {error}, allowed {allowed}"


def in_turn(calls: list[Callable[[], object]], seconds: float) -> list[Times]:
    """Time the calls one after another, again and again."""
    times: list[list[tuple[float, float]]] = [[] for _ in calls]
    for call in calls:
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for call, taken in zip(calls, times, strict=True):
            start, running = time.perf_counter(), time.process_time()
            call()
            taken.append((time.perf_counter() - start, time.process_time() - running))
    return [Times(*zip(*taken, strict=True)) for taken in times]


def cpu_model() -> str:
    """Model and size of this CPU, as Linux says."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    found = {match[1]: match[2] for match in re.finditer(r"^([a-z ]+?)\s*: (.*)$", text, re.MULTILINE)}
    numbers = ", ".join(f"{key} {found[key]}" for key in ("cpu family", "model", "stepping") if key in found)
    return f"{found.get('model name', platform.processor())} ({numbers}), {os.cpu_count()} cores seen"


def blas() -> str:
    """What torch multiplies with."""
    return "MKL and oneDNN" if torch.backends.mkl.is_available() else "without MKL"


def load_average() -> str:
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def notes() -> list[str]:
    """What has to be known to read the table."""
    return [
        "- torch writes bf16 and f16 results in that type, wavespec the f32 that the spec asks for: twice the bytes.",
        "- bf16, f16, i8: the specs promise a multiple of 8 or 16 for K, so rows of 513 are stored 528 wide with "
        "zeros; torch multiplies the 513 elements in place.",
        "- i8: torch's figure is ``torch._int_mm``, which makes its result anew in every call.",
        "- All threads of the machine are used, and it may be shared: medians move with the load, fastest calls less.",
        "- `OMP_WAIT_POLICY=passive`: torch's threads otherwise spin for a while after each of its calls, on the cores "
        "that the next call needs; our medians then fall by 40 %, torch's own figures do not change.",
    ]


if __name__ == "__main__":
    main()

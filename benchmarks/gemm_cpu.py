"""The GEMMs of ``specs/`` on this CPU in; results checked, times beside ``torch.matmul`` and the share of the measured peak out.

    python benchmarks/gemm_cpu.py [--seconds 4] [--write]

Both run in this process on as many threads as torch has, call by call in turn, on the same tensors, each into a result of its own that
exists before.  GF/s are 2·M·N·K over the time of a call.  The median says how the machine was shared while this ran, the minimum what
the code can do.  ``--write`` puts the tables into ``benchmarks/results/gemm_cpu.md``.

The peak is that of multiply-adds (or products in tile registers) without memory traffic: a GEMM spec of one register tile whose
operands stay in the first cache, run long, on every thread at once.
"""

from __future__ import annotations

import argparse
import platform
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

import wavespec as ws
from wavespec.pipeline import best_variant

ROOT = Path(__file__).parent.parent
FILES = {"f32": "gemm_f32", "bf16": "gemm_bf16", "f16": "gemm", "i8": "gemm_i8"}
TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8}
SIZES = ((1024, 1024, 1024), (2048, 2048, 2048), (1000, 1017, 513))
PADDED_DEPTH = 528
"""``K: {multiple_of: ...}`` of the specs: 513 elements are stored as that many, the last ones zero."""
PEAK_SPEC = """\
apiVersion: wavespec/v1
kind: Kernel
name: peak
dims: {{M: {{}}, N: {{}}, K: {{multiple_of: {depth}}}}}
tensors:
  a: {{shape: [M, K], dtype: {dtype}, space: shared}}
  b: {{shape: [N, K], dtype: {dtype}, space: shared}}
  c: {{shape: [M, N], dtype: {acc}, role: output}}
constraints:
  - {{workgroup: M, tile: {rows}, axis: 0}}
  - {{workgroup: N, tile: {columns}, axis: 1}}
  - {{tiling: K, tile: {depth}}}
  - {{hardware: {{mma: auto}}}}
graph:
  - zero: {{register: [M, N], dtype: {acc}, value: 0}}
  - k_loop:
      iterate: K
      carry: {{acc: zero}}
      body:
        - a_tile: {{read: a}}
        - b_tile: {{read: b}}
        - acc: {{mma: [a_tile, b_tile, acc]}}
  - {{write: k_loop.acc, to: c}}
"""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of calls of one function."""

    seconds: tuple[float, ...]

    def rate(self, work: float) -> tuple[float, float]:
        """Units of ``work`` per second: at the median, at the minimum."""
        return work / statistics.median(self.seconds), work / min(self.seconds)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="time per size and dtype")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/gemm_cpu.md")
    arguments = parser.parse_args()
    lines = [
        "# GEMM on the CPU beside torch", "",
        f"Command: `python benchmarks/gemm_cpu.py --seconds {arguments.seconds:g} --write`", "",
        f"{cpu_model()}; {torch.get_num_threads()} threads; torch {torch.__version__} ({blas()}); variant {best_variant('cpu').variant}; "
        f"load average before: {load_average()}.", "",
        "GF/s (i8: GOP/s) at the median and, in brackets, at the fastest call.  The share is that of the fastest call in the peak "
        "measured by the same compiler without memory traffic.  `ratio` compares fastest calls; above 1 is faster than torch.", "",
        "| dtype | M x N x K | wavespec | torch | ratio | peak | share of peak |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    print("\n".join(lines), flush=True)
    for dtype in FILES:
        for row in rows(dtype, arguments.seconds):
            print(row, flush=True)
            lines.append(row)
    lines += ["", *notes()]
    print("\n".join(lines[-len(notes()) :]))
    if arguments.write:
        (ROOT / "benchmarks/results/gemm_cpu.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def rows(dtype: str, seconds: float) -> list[str]:
    """One row of the table per size."""
    kernel = ws.compile(ws.load(ROOT / f"specs/{FILES[dtype]}.wave.yaml"))
    result: list[str] = []
    for m, n, k in SIZES:
        a, b = operands(dtype, m, n, k)
        out = kernel(a, b)
        check(dtype, a, b, out)
        calls: list[Callable[[], object]] = [lambda out=out, a=a, b=b: kernel(a, b, out=out)]
        if dtype != "i8":  # torch has no matmul of int8 on the CPU
            theirs, turned = torch.empty(m, n, dtype=TORCH[dtype]), b[:, :k].T
            calls.append(lambda theirs=theirs, a=a, k=k, turned=turned: torch.matmul(a[:, :k], turned, out=theirs))
        peak_call, peak_work = peak(dtype)
        *measured, best = in_turn([*calls, peak_call], seconds)
        work = 2 * m * n * k / 1e9
        (median, most), top = measured[0].rate(work), best.rate(peak_work)[1]
        torch_median, torch_most = measured[1].rate(work) if len(measured) > 1 else (0.0, 0.0)
        torch_text, ratio = (f"{torch_median:.0f} ({torch_most:.0f})", f"{most / torch_most:.2f}") if torch_most else ("-", "-")
        result.append(f"| {dtype} | {m} x {n} x {k} | {median:.0f} ({most:.0f}) | {torch_text} | {ratio} | {top:.0f} | {most / top:.0%} |")
    return result


def operands(dtype: str, m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random operands; a depth that the specs do not take is padded with zeros."""
    depth = k if k % 16 == 0 or dtype == "f32" and k % 8 == 0 else PADDED_DEPTH
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
    """Integers exactly; floating point with at most twice the error of torch's f32 product of the same inputs."""
    exact = a.double() @ b.double().T
    error = (out.double() - exact).abs().max()
    allowed = 0 if dtype == "i8" else 2 * (torch.matmul(a.float(), b.float().T).double() - exact).abs().max()
    assert error <= allowed, f"{dtype}: error {error}, allowed {allowed}"


_PEAKS: dict[str, tuple[Callable[[], object], float]] = {}


def peak(dtype: str) -> tuple[Callable[[], object], float]:
    """A call without memory traffic, and its work in GF: one register tile per thread, its k so long that all else vanishes."""
    if dtype not in _PEAKS:
        row = next(row for row in best_variant("cpu").instructions if dtype in {kind.name for kind in row.inputs})
        _PEAKS[dtype] = _peak_call(dtype, row.m, row.n, row.k)
    return _PEAKS[dtype]


def _peak_call(dtype: str, rows: int, columns: int, step: int) -> tuple[Callable[[], object], float]:
    raise NotImplementedError


def in_turn(calls: list[Callable[[], object]], seconds: float) -> list[Times]:
    """Time the calls one after another, again and again."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    return [Times(tuple(taken)) for taken in times]

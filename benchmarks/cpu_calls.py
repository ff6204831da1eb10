"""Kernels of ``specs/`` on this CPU in; how long each of some hundred calls takes, beside torch in turn, out.

    python benchmarks/cpu_calls.py [--seconds 6] [--write] [--only NAME ...]

Everything runs in one process in the environment that it is started in, call by call: ours, the same through the
worker threads of IREE's runtime, torch's own function, with one of torch's operators on other tensors between any two.
``best`` is the fastest call; p50, p90 and p99 say how many times as long the median, the 90th and the 99th call of a
hundred took.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import torch
from attention_cpu import channels_last_conv2d
from gemm_cpu import cpu_model, load_average, operands
from torch.nn import functional

import wavespec as ws
from wavespec.pipeline import best_variant
from wavespec.runtime import kernel as launchers

ROOT = Path(__file__).parent.parent
WAYS = "best | p50 | p90 | p99"
HEAD = f"| kernel | sizes | {WAYS} | IREE: {WAYS} | torch: {WAYS} | ratio |"
GEMMS = {"gemm_f32": "f32", "gemm_bf16": "bf16", "gemm": "f16", "gemm_i8": "i8"}


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel, what it takes, and torch's function of the same."""

    spec: str
    sizes: str
    inputs: tuple[torch.Tensor, ...]
    torchs: Callable[[], object]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6.0, help="time per row")
    parser.add_argument("--write", action="store_true", help="benchmarks/results/cpu_calls.md")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="specs")
    arguments = parser.parse_args()
    lines = [
        "# Calls on the CPU: how even they are, beside torch", "",
        f"Command: `python benchmarks/cpu_calls.py {' '.join(sys.argv[1:])}`", "",
        f"{cpu_model()}; {torch.get_num_threads()} threads; torch {torch.__version__}; variant "
        f"{best_variant('cpu').variant}; load average before: {load_average()}.", "",
        "Microseconds of the fastest call; the median and the 90th and 99th of a hundred calls as multiples of it. "
        "Default environment, an operator of torch between any two calls. `IREE`: the same code, its workgroups "
        "run by the worker threads of IREE's runtime. `ratio`: torch's median over ours.", "",
        HEAD,
        "|---|---|" + "---:|" * (HEAD.count("|") - 3),
    ]  # fmt: skip
    print("\n".join(lines), flush=True)
    for case in cases():
        if not arguments.only or case.spec in arguments.only:
            lines.append(row(case, arguments.seconds))
            print(lines[-1], flush=True)
    if arguments.write:
        (ROOT / "benchmarks/results/cpu_calls.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def cases() -> Iterator[Case]:
    """Products in four types, attention, rows, convolutions."""
    for spec, dtype in GEMMS.items():
        for size in (256, 1024, 2048):
            a, b = operands(dtype, size, size, size)
            multiply = torch._int_mm if dtype == "i8" else torch.matmul
            yield Case(spec, f"{size}³", (a, b), lambda a=a, b=b, multiply=multiply: multiply(a, b.T))
    for sizes in ((1, 8, 1024, 1024, 64), (4, 8, 197, 197, 64)):
        batch, heads, rows, keys, depth = sizes
        q = torch.randn(batch, heads, rows, depth).bfloat16()
        k, v = (torch.randn(batch, heads, keys, depth).bfloat16() for _ in range(2))
        inputs = q, k, v
        yield Case(
            "attention",
            " x ".join(map(str, sizes)),
            inputs,
            lambda inputs=inputs: functional.scaled_dot_product_attention(*inputs),
        )
    for size in (1024, 4096):
        x = torch.randn(size, size)
        yield Case("softmax", f"{size} x {size}", (x,), lambda x=x: torch.softmax(x, -1))
    x, weight = torch.randn(4096, 4096), torch.randn(4096)
    yield Case("rms_norm", "4096 x 4096", (x, weight), lambda: functional.rms_norm(x, (4096,), weight, 1e-6))
    wide = torch.randn(64, 32768)
    yield Case("softmax", "64 x 32768", (wide,), lambda: torch.softmax(wide, -1))
    for size, channels in ((56, 64), (28, 128)):
        pixels = torch.randn(1, size, size, channels).bfloat16()
        filters = (torch.randn(channels, 3, 3, channels) / (3 * channels**0.5)).bfloat16()
        given = pixels, filters
        yield Case(
            "conv2d_nhwc",
            f"1 x {size} x {size} x {channels}, 3 x 3",
            given,
            lambda given=given: channels_last_conv2d(given),
        )


def row(case: Case, seconds: float) -> str:
    """One row of the table."""
    kernels, outs = [], []
    for is_available in (launchers.are_shared_out, lambda: False):
        with patch.object(launchers, "are_shared_out", is_available):
            kernels.append(ws.compile(ws.load(ROOT / f"specs/{case.spec}.wave.yaml")))
            outs.append(kernels[-1](*case.inputs))  # a kernel keeps the launcher of its first call
    assert torch.equal(outs[0].view(torch.uint8), outs[1].view(torch.uint8)), "the same code, other results"
    calls: list[Callable[[], object]] = [
        lambda kernel=kernel, out=out: kernel(*case.inputs, out=out) for kernel, out in zip(kernels, outs, strict=True)
    ]
    times = in_turn([*calls, case.torchs], seconds)
    cells = [
        " | ".join([f"{taken[0] * 1e6:.0f}", *(f"{at(taken, percent) / taken[0]:.2f}" for percent in (50, 90, 99))])
        for taken in times
    ]
    ratio = at(times[2], 50) / at(times[0], 50)
    return f"| {case.spec} | {case.sizes} | {' | '.join(cells)} | {ratio:.2f} |"


def at(taken: Sequence[float], percent: int) -> float:
    """The time that so many calls of a hundred do not exceed; ``taken`` is sorted."""
    return taken[min(len(taken) - 1, len(taken) * percent // 100)]


def in_turn(
    calls: Sequence[Callable[[], object]], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> list[list[float]]:
    """Sorted seconds of every call of the functions, called in turn with one of torch's operators between them."""
    times: list[list[float]] = [[] for _ in calls]
    other = torch.randn(512, 512)
    for call in calls:
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for call, taken in zip(calls, times, strict=True):
            other.mul(1.5)
            start = clock()
            call()
            taken.append(clock() - start)
    return [sorted(taken) for taken in times]


if __name__ == "__main__":
    main()

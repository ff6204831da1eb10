"""Specs without a tile, as users write them, in; checks against f64 and times beside torch on this CPU, out.

    python benchmarks/planned_cpu.py [--only NAME ...] [--seconds 0.5] [--threads N] [--wall] [--variant x86_64_v3]

The specs are those of ``benchmarks/specs/planned``.  One thread and its own time (`time.thread_time`), or with
``--wall`` the wall clock and as many threads as ``--threads`` says; calls take turns with torch in one process, on
the same tensors.  Figures are the fastest tenth of the calls, in microseconds; ratios are torch's time over ours,
errors the largest against f64, ours and torch's.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parent))

from planned_trials import TRIALS, Trial, double, errors_of, text_of

import wavespec as ws
from wavespec.pipeline import best_variant, build
from wavespec.runtime.kernel import Kernel
from wavespec.schema import loads
from wavespec.targets import machines


def kernel_of(name: str, variant: str | None = None) -> Kernel:
    """A trial, compiled for one variant of CPUs: that of this one, unless it is said."""
    machine = next((one for one in machines("cpu") if one.variant == variant), best_variant("cpu"))
    return Kernel(build(loads(text_of(name)), "cpu", only=machine))


def fastest(calls: dict[str, Callable[[], object]], seconds: float, clock: Callable[[], float]) -> dict[str, float]:
    """Microseconds of the fastest tenth of the calls of each, which take turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    end_at = time.perf_counter() + seconds
    while time.perf_counter() < end_at or len(next(iter(found.values()))) < 10:
        for name, call in calls.items():
            start = clock()
            call()
            found[name].append(clock() - start)
    return {name: sorted(each)[len(each) // 10] * 1e6 for name, each in found.items()}


def _row(
    kernel: Kernel, trial: Trial, shapes: Sequence[Sequence[int]], seconds: float, clock: Callable[[], float]
) -> str:
    inputs = [trial.make(shape, place) for place, shape in enumerate(shapes)]
    shown = "; ".join(" x ".join(map(str, shape)) for shape in shapes)
    ours = kernel(*(one.clone() for one in inputs))
    theirs = trial.torch(*(one.clone() for one in inputs))
    errors = errors_of(ours, theirs, trial.torch(*map(double, inputs)))
    times = fastest({"ours": lambda: kernel(*inputs), "torch": lambda: trial.torch(*inputs)}, seconds, clock)
    ratio = times["torch"] / times["ours"]
    figures = f"{times['ours']:.1f} | {times['torch']:.1f} | {ratio:.2f} | {errors[0]:.1e} | {errors[1]:.1e}"
    return f"{shown} | {figures}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", default=list(TRIALS), help="words of names")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each size")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--wall", action="store_true", help="time by the wall clock")
    parser.add_argument("--variant", help="of the CPU")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    clock = time.perf_counter if arguments.wall else time.thread_time
    print("| kernel | sizes | us | torch | ratio | error | torch's |\n|---|---|---:|---:|---:|---:|---:|")
    for name, trial in TRIALS.items():
        if not any(word in name for word in arguments.only):
            continue
        try:
            kernel = kernel_of(name, arguments.variant)
        except ws.WavespecError as error:
            print(f"| {name} | {str(error).splitlines()[0]} |", flush=True)
            continue
        for shapes in trial.sizes:
            print(f"| {name} | {_row(kernel, trial, shapes, arguments.seconds, clock)} |", flush=True)


if __name__ == "__main__":
    main()

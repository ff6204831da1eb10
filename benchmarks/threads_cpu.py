"""Numbers of threads in; what a call with work for a few of them, and an operator of torch behind it, take, out.

    python benchmarks/threads_cpu.py [--threads 2 4 8] [--rows 30] [--calls 2000]

`softmax` of rows that are enough for two threads, ours and torch's, each followed by a sum that torch makes on all
threads. A parallel region of GNU's OpenMP ends the threads that it has no place for.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Measure, print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[torch.get_num_threads()])
    parser.add_argument("--rows", type=int, default=30, help="of 1,024 columns (default %(default)s)")
    parser.add_argument("--calls", type=int, default=2000)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))  # `generated` is no package that is installed
    softmax = import_module("generated.softmax").softmax
    x, many = torch.randn(options.rows, 1024), torch.randn(200, 1000)
    sums = torch.empty_like(many)
    print("| threads | ours, median (p90) us | torch |", "|---:|---:|---:|", sep="\n")
    for threads in options.threads:
        torch.set_num_threads(threads)
        cells = list[str]()
        for call in (lambda: softmax(x), lambda: torch.softmax(x, -1)):
            taken = times(lambda call=call: (call(), torch.add(many, many, out=sums)), options.calls)
            cells.append(f"{statistics.median(taken):.1f} ({taken[len(taken) * 9 // 10]:.1f})")
        print(f"| {threads} | {' | '.join(cells)} |", flush=True)


def times(call: Callable[[], object], count: int) -> list[float]:
    """Sorted microseconds of so many calls, behind some that nothing asks for."""
    taken = list[float]()
    for _ in range(count + 20):
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1e6)
    return sorted(taken[20:])


if __name__ == "__main__":
    main()

"""Kernels that go through rows, of one build or of several, in; their times beside torch's and a copy's, out.

    python -m benchmarks.every_speed build FOLDER --variant NAME [--only NAME ...]
    python -m benchmarks.rows_cpu FOLDER [FOLDER ...] [--only NAME ...] [--seconds S] [--out] [--sizes 257x1024 ...]

Processor time of one thread, so that a machine that others use will do: all builds, torch and a copy are called in
random order in one process, each figure is the median.  A copy reads and writes half of the bytes each that the kernel
reads and writes in all.  Results are new tensors, or with ``--out`` tensors that are there, as far as torch has such a
call.  Sizes are those of `speed_contests`, rows of 1,001, 4,097 and 32,000 numbers, and short ones within caches.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.every_speed import inputs_of, what_is_wrong
from benchmarks.speed_contests import CONTESTS
from tests.kernels import Sizes, sized, tensors_of
from wavespec.runtime import Kernel, unpack_artifact

_MORE = sized("M N", (1, 256), (2500, 1001), (600, 4097), (1, 32_000), (100, 32_000))
_SHORT = sized(
    "M N", (1024, 33), (1024, 64), (1024, 100), (1024, 128), (1024, 200), (1024, 256), (600, 300), (512, 512)
)
_OUT: dict[str, Callable[..., Any]] = {
    "add_broadcast": lambda x, b, out: torch.add(x, b, out=out),
    "softmax": lambda x, out: torch.softmax(x, -1, out=out),
    "log_softmax": lambda x, out: torch.log_softmax(x, -1, out=out),
    "transpose": lambda x, out: out.copy_(x.T),
    "sum_dim": lambda x, out: torch.sum(x, 1, out=out),
    "cumsum": lambda x, out: torch.cumsum(x, 1, out=out),
}
_LEAST_CALLS = 5


def main() -> None:
    """Print a row for each kernel and size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--sizes", nargs="*", help="these alone, as 257x1024")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each size")
    parser.add_argument("--most-work", type=float, default=math.inf, help="products of all extents that are left out")
    parser.add_argument("--out", action="store_true", help="write into tensors that are there")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    titles = [folder.name for folder in arguments.folders]
    columns = [*(f"{title} µs" for title in titles), "torch µs", "copy µs"]
    columns += [f"torch / {title}" for title in titles] + [f"copy / {title}" for title in titles]
    print(f"| kernel | sizes | {' | '.join(columns)} |\n|---|---|{'---:|' * len(columns)}", flush=True)
    for path in sorted(arguments.folders[-1].glob("*.wavespec")):
        file, _, name = path.stem.partition("-")
        if arguments.only and name not in arguments.only:
            continue
        kernels = {
            folder.name: Kernel(unpack_artifact((folder / path.name).read_bytes()))
            for folder in arguments.folders
            if (folder / path.name).exists()
        }
        for sizes in _sizes(name, arguments):
            _row(kernels, titles, file, name, sizes, arguments)


def _sizes(name: str, arguments: argparse.Namespace) -> Iterator[Sizes]:
    own = CONTESTS[name].sizes
    more = (*_MORE, *_SHORT) if set(own[0]) == {"M", "N"} and name not in ("searchsorted", "topk") else ()
    for sizes in (*own, *more):
        shown = "x".join(map(str, sizes.values()))
        if math.prod(sizes.values()) <= arguments.most_work and (not arguments.sizes or shown in arguments.sizes):
            yield sizes


def _row(
    kernels: dict[str, Kernel], titles: list[str], file: str, name: str, sizes: Sizes, arguments: argparse.Namespace
) -> None:
    contest, last = CONTESTS[name], kernels[titles[-1]]
    inputs = inputs_of(last.artifact, file, name, sizes)
    found = contest.torch(*inputs)
    wrong = what_is_wrong(last, file, name, contest, inputs, found)
    calls: dict[str, Callable[[], object]] = {}
    outputs = tensors_of(last(*inputs))
    in_place = arguments.out
    for title, kernel in kernels.items():
        out = tuple(map(torch.empty_like, outputs)) if in_place else None
        calls[title] = lambda kernel=kernel, out=out: kernel(*inputs, out=out)
    of_torch = _OUT.get(name.removesuffix("_bf16"))
    if in_place and of_torch is not None:
        target = torch.empty_like(outputs[0])
        calls["torch"] = lambda: of_torch(*inputs, target)
    else:
        calls["torch"] = lambda: contest.torch(*inputs)
    calls["copy"] = _copy(inputs, outputs, in_place)
    times = _times(calls, arguments.seconds)
    cells = [f"{times[one]:.1f}" if one in times else "" for one in (*titles, "torch", "copy")]
    cells += [f"{times['torch'] / times[one]:.2f}" if one in times else "" for one in titles]
    cells += [f"{times['copy'] / times[one]:.2f}" if one in times else "" for one in titles]
    print(f"| {name} | {' x '.join(map(str, sizes.values()))} | {' | '.join(cells)} |{wrong}", flush=True)


def _copy(inputs: list[Tensor], outputs: tuple[Tensor, ...], in_place: bool) -> Callable[[], object]:
    """Of as many bytes as inputs and outputs have."""
    half = sum(one.numel() * one.element_size() for one in (*inputs, *outputs)) // 2
    source = torch.zeros(max(1, half), dtype=torch.uint8)
    if in_place:
        target = torch.empty_like(source)
        return lambda: target.copy_(source)
    return source.clone


def _times(calls: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Median microseconds of each."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for name in names:
        calls[name]()
    end_at = time.perf_counter() + seconds
    while time.perf_counter() < end_at or len(taken[names[0]]) < _LEAST_CALLS:
        random.shuffle(names)
        for name in names:
            start = time.thread_time()
            calls[name]()
            taken[name].append(time.thread_time() - start)
    return {name: statistics.median(each) * 1e6 for name, each in taken.items()}


if __name__ == "__main__":
    main()

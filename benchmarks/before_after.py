"""Two folders of generated kernels in; the times of every case whose code differs, in one process, out.

Needs torch, `wavespec.runtime` and `tests/kernels.py` alone, so it runs on a machine without the compiler:

    python -m benchmarks.before_after BEFORE AFTER [--target sm_90] [--seconds S] [--only TEXT]

BEFORE and AFTER are `generated/` of two commits, with the binaries that `wavespec generate` writes.  Each case is
called at the largest of the sizes that are drawn for it, in turns, on the same fresh inputs; on a GPU 256 MiB are
written between calls.  The last column says by how much the two results differ, in units of the largest element.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from random import Random

import torch
from torch import Tensor

from benchmarks.every_kernel import EXTENTS, completed
from tests.kernels import KERNELS, Row, Subject, make_inputs, tensors_of
from wavespec.runtime import ArgumentError, Kernel, KernelArtifact
from wavespec.runtime.manifest import load_artifact
from wavespec.runtime.size_expr import evaluate

_TRIES = 20_000
_MOST_BYTES = {"cpu": 1 << 26, "cuda": 1 << 30}
_MOST_WORK = {"cpu": 1 << 31, "cuda": 1 << 37}
"""The product of all dims: what a machine does in some milliseconds."""
_FLUSHED_BYTES = 256 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each case")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    arguments = parser.parse_args()
    ratios: list[float] = []
    print("| kernel | case | sizes | before µs | after µs | before / after | difference |")
    print("|---|---:|---|---:|---:|---:|---:|", flush=True)
    for manifest in sorted(arguments.after.rglob(f"{arguments.target}.json")):
        place = manifest.relative_to(arguments.after)
        name = "_".join(place.parent.parts).replace(".artifacts", "")  # members of families have a folder each
        old = arguments.before / place
        if arguments.only in name and old.exists():
            ratios += compare(name, load_artifact(old), load_artifact(manifest), arguments.seconds)
    if ratios:
        print(f"\n{len(ratios)} cases, geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}")


def compare(name: str, before: KernelArtifact, after: KernelArtifact, seconds: float) -> list[float]:
    """Time the cases that differ; returns the time before over the time after, of each."""
    device = "cpu" if after.backend == "cpu" else "cuda"
    changed = [
        number
        for number, (old, new) in enumerate(zip(before.members, after.members, strict=False))
        if [one.sha256 for one in old.binaries] != [one.sha256 for one in new.binaries]
    ]
    sizes_of, row, ratios = largest_sizes(after, device), row_of(name), list[float]()
    for number in changed:
        sizes = sizes_of.get(number)
        if sizes is None:
            print(f"| {name} | {number} | none were drawn | | | | |", flush=True)
            continue
        # The kernels of this case alone: the one before may have chosen by other conditions.
        pair = [Kernel(replace(one.members[number], cases=())) for one in (before, after)]
        parameters = [(one.name, one.dtype, one.shape(sizes)) for one in after.inputs]
        inputs = [one.to(device) for one in make_inputs(row, parameters, sizes, whole=False)]
        try:
            results = [[one.clone() for one in tensors_of(kernel(*copies(kernel, inputs)))] for kernel in pair]
        except ArgumentError as error:
            print(f"| {name} | {number} | {_text(sizes)} | refused: {error} | | | |", flush=True)
            continue
        old, new = in_turns([_call(kernel, copies(kernel, inputs)) for kernel in pair], device, seconds)
        ratios.append(old / new)
        print(
            f"| {name} | {number} | {_text(sizes)} | {old:.1f} | {new:.1f} | {old / new:.2f} "
            f"| {_difference(*results):.1e} |",
            flush=True,
        )
    return ratios


def row_of(name: str) -> Row:
    """How the inputs of a kernel of `specs/` are drawn; members of families have the name of their file in front."""
    file = max((file for file in KERNELS if name.startswith(file)), key=len)
    return Subject(file, name).row


def largest_sizes(artifact: KernelArtifact, device: str) -> dict[int, Mapping[str, int]]:
    """For each case of a kernel, of the sizes drawn, those with the most work."""
    free = [dim for dim in artifact.dims if dim.size is None and dim.equals is None]
    random, found = Random(0), dict[int, tuple[int, Mapping[str, int]]]()
    for _ in range(_TRIES):
        drawn = {dim.name: -(-random.choice(EXTENTS) // dim.multiple_of) * dim.multiple_of for dim in free}
        sizes = completed(artifact, drawn)
        if any(sizes[dim.name] < 1 or sizes[dim.name] % dim.multiple_of for dim in artifact.dims):
            continue
        if not all(evaluate(one.condition, sizes) for one in artifact.assumptions):
            continue
        work = prod(sizes.values())
        elements = sum(prod(one.shape(sizes)) for one in artifact.tensors)
        if elements * 4 > _MOST_BYTES[device] or work > _MOST_WORK[device]:
            continue
        member = artifact.member_for({**sizes, **artifact.dense(sizes)})
        if member not in found or work > found[member][0]:
            found[member] = work, sizes
    return {member: sizes for member, (_, sizes) in found.items()}


def copies(kernel: Kernel, inputs: list[Tensor]) -> list[Tensor]:
    """The inputs; those that are changed in place are copied."""
    return [
        one.clone() if parameter.updated else one for parameter, one in zip(kernel.artifact.inputs, inputs, strict=True)
    ]


def _call(kernel: Kernel, inputs: list[Tensor]) -> Callable[[], object]:
    return lambda: kernel(*inputs)


def in_turns(calls: list[Callable[[], object]], device: str, seconds: float) -> list[float]:
    """Median microseconds of each."""
    found: list[list[float]] = [[] for _ in calls]
    flush = torch.empty(_FLUSHED_BYTES, dtype=torch.uint8, device=device) if device == "cuda" else None
    for call in calls:
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(found[0]) < 5:
        for call, times in zip(calls, found, strict=True):
            if flush is None:
                start = time.perf_counter()
                call()
                times.append((time.perf_counter() - start) * 1e6)
                continue
            flush.zero_()
            begin, finish = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            finish.record()
            finish.synchronize()
            times.append(begin.elapsed_time(finish) * 1e3)
    return [statistics.median(times) for times in found]


def _difference(before: list[Tensor], after: list[Tensor]) -> float:
    worst = 0.0
    for old, new in zip(before, after, strict=True):
        a, b = (as_bytes_or_numbers(one).double() for one in (old, new))
        both = a.isfinite() & b.isfinite()
        if bool(both.any()):
            worst = max(worst, ((a - b)[both].abs().max() / a[both].abs().max().clamp(min=1e-30)).item())
    return worst


def as_bytes_or_numbers(tensor: Tensor) -> Tensor:
    """Types of a byte, of which torch converts only some, as bytes."""
    return tensor.view(torch.uint8) if tensor.dtype.itemsize == 1 else tensor


def _text(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{name}={size}" for name, size in sizes.items())


if __name__ == "__main__":
    main()

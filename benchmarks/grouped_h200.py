"""Specs of grouped products in, kernels out; kernels and an NVIDIA GPU in, times beside `torch._grouped_mm` out.

Needs the compiler to build, and torch and `wavespec.runtime` to run, maybe on another machine:

    python -m benchmarks.grouped_h200 build FOLDER
    python -m benchmarks.grouped_h200 run FOLDER [--shape 8x4096x14336:8192 ...] [--groups even uneven empty]

A shape is groups x N x K : rows.  bf16; operands are flushed from the caches before each call, contestants take turns,
figures are medians of ``--calls`` calls on normal numbers, in microseconds.  Before that, whole numbers: every element
is compared with the sum in f32, which is exact, rounded once.  ``out``: into a given tensor; ``new``: a call that makes
its result, zeros for rows of no group included.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from torch import Tensor

from wavespec.runtime import Kernel, unpack_artifact

SHAPES = (
    "8x4096x14336:8192",
    "8x14336x4096:8192",
    "64x7168x4096:8192",
    "64x7168x4096:512",
    "128x2048x1536:8192",
    "128x2048x1536:1024",
)
_FLUSHED_BYTES = 256 << 20
Call = Callable[[], Any]


def main() -> None:
    """Build kernels, or time those of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile the spec for sm_90")
    building.add_argument("folder", type=Path)
    running = commands.add_parser("run", help="check and time the kernels on this machine's GPU")
    running.add_argument("folder", type=Path)
    running.add_argument("--shape", nargs="*", default=list(SHAPES), help="groups x N x K : rows")
    running.add_argument("--groups", nargs="*", default=["even", "uneven", "empty"], choices=list(_SHARES))
    running.add_argument("--calls", type=int, default=15)
    arguments = parser.parse_args()
    if arguments.command == "build":
        build(arguments.folder)
    else:
        run(arguments.folder, arguments.shape, arguments.groups, arguments.calls)


def build(folder: Path) -> None:
    """Compile the kernel into ``folder``."""
    from wavespec.pipeline import build
    from wavespec.runtime import pack_artifact
    from wavespec.schema import load

    folder.mkdir(parents=True, exist_ok=True)
    spec = load(Path(__file__).parents[1] / "specs" / "grouped_gemm.wave.yaml")
    (folder / "grouped_gemm.wavespec").write_bytes(pack_artifact(build(spec, "sm_90")))


def run(folder: Path, shapes: Sequence[str], shares: Sequence[str], calls: int) -> None:
    """Print a row for each shape and way to share out rows."""
    kernels = {path.stem: Kernel(unpack_artifact(path.read_bytes())) for path in sorted(folder.glob("*.wavespec"))}
    print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, torch {torch.__version__}\n")
    columns = [f"{name} {how}" for name in kernels for how in ("out", "new")]
    print(f"| groups x N x K : rows | groups | torch | {' | '.join(columns)} | torch / out | TFLOP/s | TB/s |")
    print("|---|---|" + "---:|" * (len(columns) + 4))
    ratios: list[float] = []
    for shape in shapes:
        sizes, _, rows = shape.partition(":")
        groups, n, k = map(int, sizes.split("x"))
        w = torch.empty(groups, n, k, device="cuda", dtype=torch.bfloat16)
        x = torch.empty(int(rows), k, device="cuda", dtype=torch.bfloat16)
        for share in shares:
            ratios.append(_row(kernels, shape, share, x, w, _offsets(share, groups, int(rows)), calls))
        del w, x
        torch.cuda.empty_cache()
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"\nGeometric mean {mean:.2f} x torch._grouped_mm; least {min(ratios):.2f}.")


def _even(groups: int) -> Tensor:
    return torch.ones(groups)


def _uneven(groups: int) -> Tensor:
    return torch.rand(groups, generator=torch.Generator().manual_seed(0)) ** 2 + 0.05


def _empty(groups: int) -> Tensor:
    """Every third group has no rows."""
    return _uneven(groups) * (torch.arange(groups) % 3 != 1)


_SHARES = {"even": _even, "uneven": _uneven, "empty": _empty}


def _offsets(share: str, groups: int, rows: int) -> Tensor:
    weights = _SHARES[share](groups).double()
    ends = (weights.cumsum(0) / weights.sum() * rows).round().to(torch.int32)
    return torch.cat([torch.zeros(1, dtype=torch.int32), ends]).cuda()


def _row(
    kernels: dict[str, Kernel], shape: str, share: str, x: Tensor, w: Tensor, offsets: Tensor, calls: int
) -> float:
    turned, ends = w.transpose(1, 2), offsets[1:]
    y = torch.empty(len(x), w.shape[1], device="cuda", dtype=torch.bfloat16)
    contestants: dict[str, Call] = {"torch": lambda: torch._grouped_mm(x, turned, offs=ends)}  # pyright: ignore
    for name, kernel in kernels.items():
        contestants[f"{name} out"] = lambda kernel=kernel: kernel(x, w, offsets, out=y)
        contestants[f"{name} new"] = lambda kernel=kernel: kernel(x, w, offsets)
    for tensor in (x, w):
        tensor.random_(-2, 3)
    for name, call in contestants.items():
        wrong = _wrong(call(), x, w, offsets)
        if wrong:
            print(f"{name} is wrong in {wrong} of {y.numel()} elements of {shape}, {share}", flush=True)
    for tensor in (x, w):
        tensor.normal_()
    times = _medians(contestants, calls)
    ours = min(time for name, time in times.items() if name.endswith("out"))
    seconds, elements = ours / 1e6, x.numel() + y.numel() + w[0].numel() * int((offsets.diff() > 0).sum())
    flops = 2 * len(x) * w.shape[1] * w.shape[2]
    shown = " | ".join(f"{time:.0f}" for time in times.values())
    rates = f"{flops / seconds / 1e12:.0f} | {2 * elements / seconds / 1e12:.2f}"
    print(f"| {shape} | {share} | {shown} | {times['torch'] / ours:.2f} | {rates} |", flush=True)
    return times["torch"] / ours


def _wrong(y: Tensor, x: Tensor, w: Tensor, offsets: Tensor) -> int:
    """How many elements are not the exact sum, rounded."""
    bounds = [int(offset) for offset in offsets]
    wrong = 0
    for weights, start, end in zip(w, bounds, bounds[1:], strict=False):
        exact = (x[start:end].float() @ weights.float().T).bfloat16()
        wrong += int((y[start:end] != exact).sum())
    return wrong


def _medians(contestants: dict[str, Call], calls: int) -> dict[str, float]:
    """Microseconds of a call, in turns, each with cold caches."""
    flushed = torch.empty(_FLUSHED_BYTES, device="cuda", dtype=torch.int8)
    times: dict[str, list[tuple[Any, Any]]] = {name: [] for name in contestants}
    for _ in range(calls):
        for name, call in contestants.items():
            flushed.zero_()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            times[name].append((start, end))
    torch.cuda.synchronize()
    return {
        name: statistics.median(start.elapsed_time(end) for start, end in pairs) * 1e3 for name, pairs in times.items()
    }


if __name__ == "__main__":
    main()

"""Specs of ragged attention in, kernels out; kernels and an NVIDIA GPU in, errors and times beside FlashAttention out.

Needs the compiler to build, and torch and `wavespec.runtime` to run, maybe on another machine:

    python -m benchmarks.ragged_h200 build FOLDER
    python -m benchmarks.ragged_h200 run FOLDER [--kernels full causal extend] [--heads 64 128]
        [--lengths 4096,4096,4096,4096 ...] [--cached 0,3584,3584 ...]

bf16, 2048 / D heads of D elements.  TFLOP/s count the pairs of a query and a key that it sees.  Contestants take turns;
figures are medians of ``--calls`` calls.  Errors are the largest of two heads against f64.  `attention_extend` has a
quarter as many heads of keys and values, and as many cached tokens as ``--cached`` says, at random rows; torch has
nothing like it, so plain attention of the longest new and cached parts, as many batches, stands beside it.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wavespec.runtime import Kernel, unpack_artifact

Call = Callable[[], Any]
_NAMES = ("attention_ragged_full", "attention_ragged_causal")
_EXTEND, _PLAIN = "attention_extend", "attention_gqa"


def main() -> None:
    """Build kernels, or time those of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile the specs for sm_90")
    building.add_argument("folder", type=Path)
    running = commands.add_parser("run", help="check and time the kernels on this machine's GPU")
    running.add_argument("folder", type=Path)
    running.add_argument("--heads", type=int, nargs="*", default=[64, 128], help="elements of a head")
    lengths = ["4096,4096,4096,4096", "8000,37,3000,900,1500,2947", ",".join(["512"] * 32)]
    running.add_argument("--lengths", nargs="*", default=lengths, help="of the sequences of a call")
    running.add_argument("--kernels", nargs="*", default=["full", "causal"], choices=["full", "causal", "extend"])
    new = [",".join(["512"] * 8), ",".join(["128"] * 8), ",".join(["2048"] * 4), "37,1000,3,512,2048", "4096,4096"]
    cached = [",".join(["3584"] * 8), ",".join(["4096"] * 8), ",".join(["2048"] * 4), "100,5000,8000,0,1024", "0,0"]
    running.add_argument("--new", nargs="*", default=new, help="new tokens of the sequences of a call")
    running.add_argument("--cached", nargs="*", default=cached, help="cached ones")
    running.add_argument("--calls", type=int, default=15)
    arguments = parser.parse_args()
    if arguments.command == "build":
        build_all(arguments.folder)
    else:
        names = [name for name in _NAMES if name.rpartition("_")[2] in arguments.kernels]
        run(arguments.folder, names, arguments.heads, arguments.lengths, arguments.calls)
        if "extend" in arguments.kernels:
            run_extend(arguments.folder, arguments.heads, arguments.new, arguments.cached, arguments.calls)


def build_all(folder: Path) -> None:
    """Compile the kernels into ``folder``."""
    from tests.kernels import subjects
    from wavespec.pipeline import build
    from wavespec.runtime import pack_artifact

    folder.mkdir(parents=True, exist_ok=True)
    for subject in subjects("sm_90"):
        if subject.name in (*_NAMES, _EXTEND, _PLAIN):
            (folder / f"{subject.name}.wavespec").write_bytes(pack_artifact(build(subject.spec, "sm_90")))


def run(folder: Path, names: Sequence[str], heads: Sequence[int], lengths: Sequence[str], calls: int) -> None:
    """Print a row for each size, way of masking and batch."""
    print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, torch {torch.__version__}\n")
    print("| kernel | head | lengths | TFLOP/s | FA2 | over FA2 | error | FA2's |")
    print("|---|---:|---|---:|---:|---:|---:|---:|")
    for name in names:
        kernel = _kernel(folder, name)
        for size in heads:
            for text in lengths:
                _row(kernel, name, size, [int(length) for length in text.split(",")], calls)


def run_extend(folder: Path, heads: Sequence[int], news: Sequence[str], cached: Sequence[str], calls: int) -> None:
    """Print a row for each size and batch."""
    print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, torch {torch.__version__}\n")
    print("| head | new | cached | us | TFLOP/s | plain | of plain | error |")
    print("|---:|---|---|---:|---:|---:|---:|---:|")
    extend, plain = _kernel(folder, _EXTEND), _kernel(folder, _PLAIN)
    for size in heads:
        for new, old in zip(news, cached, strict=True):
            _extend_row(extend, plain, size, [int(n) for n in new.split(",")], [int(n) for n in old.split(",")], calls)


def _extend_row(extend: Kernel, plain: Kernel, size: int, new: list[int], cached: list[int], calls: int) -> None:
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    count, groups = 2048 // size, 512 // size
    starts, old = ([0, *itertools.accumulate(lengths)] for lengths in (new, cached))
    rows = old[-1] + 64

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, device="cuda").bfloat16()

    q, k, v = drawn(starts[-1], count, size), drawn(starts[-1], groups, size), drawn(starts[-1], groups, size)
    keys, values = drawn(rows, groups, size), drawn(rows, groups, size)
    slots = torch.randperm(rows, device="cuda")[: old[-1]].int()
    tables = [torch.tensor(bounds, dtype=torch.int32, device="cuda") for bounds in (starts, old)]
    result, batches, longest = torch.empty_like(q), len(new), max(new) + max(cached)
    dense = [drawn(batches, n, length, size) for n, length in ((count, max(new)), *[(groups, longest)] * 2)]

    def ours() -> Tensor:
        return extend(q, k, v, keys, values, *tables, slots, out=result)

    ours()
    worst = 0.0
    for batch in range(batches):
        own, there = slice(starts[batch], starts[batch + 1]), slots[old[batch] : old[batch + 1]].long()
        every = [torch.cat([tensor[there], fresh[own]]) for tensor, fresh in ((keys, k), (values, v))]
        for head in (0, count - 1):
            seen, passed = (tensor[:, head * groups // count].double() for tensor in every)
            scores = q[own, head].double() @ seen.T / math.sqrt(size)
            behind = torch.arange(new[batch], device="cuda")[:, None] + cached[batch]
            scores[torch.arange(len(seen), device="cuda")[None] > behind] = -math.inf
            worst = max(worst, (result[own, head].double() - scores.softmax(-1) @ passed).abs().max().item())
    seconds, others = _medians((ours, lambda: plain(*dense)), calls)
    pairs = sum(n * c + n * (n + 1) // 2 for n, c in zip(new, cached, strict=True))
    speed, other = 8192 * pairs / seconds / 1e12, 8192 * batches * max(new) * longest / others / 1e12
    shown = [f"{len(one)} x {one[0]}" if len({*one}) == 1 else ", ".join(map(str, one)) for one in (new, cached)]
    print(
        f"| {size} | {' | '.join(shown)} | {seconds * 1e6:.0f} | {speed:.0f} | {other:.0f} | {speed / other:.2f} "
        f"| {worst:.4f} |",
        flush=True,
    )


def _kernel(folder: Path, name: str) -> Kernel:
    return Kernel(unpack_artifact((folder / f"{name}.wavespec").read_bytes()))


def _row(kernel: Kernel, name: str, size: int, lengths: list[int], calls: int) -> None:
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    bounds, causal = [0, *itertools.accumulate(lengths)], name.endswith("causal")
    starts = torch.tensor(bounds, dtype=torch.int32, device="cuda")
    q, k, v = (torch.randn(bounds[-1], 2048 // size, size, device="cuda").bfloat16() for _ in range(3))
    result, most = torch.empty_like(q), max(lengths)

    def ours() -> Tensor:
        return kernel(q, k, v, starts, starts, out=result)

    def flash() -> Tensor:
        forward = torch.ops.aten._flash_attention_forward
        return forward(q, k, v, starts, starts, most, most, 0.0, causal, False)[0]

    errors = [_error(call(), q, k, v, bounds, causal=causal) for call in (ours, flash)]
    times = _medians((ours, flash), calls)
    pairs = sum(length * (length + 1) // 2 if causal else length * length for length in lengths)
    speeds = [4 * 2048 * pairs / seconds / 1e12 for seconds in times]
    shown = f"{len(lengths)} x {most}" if len({*lengths}) == 1 else ", ".join(map(str, lengths))
    print(
        f"| {name} | {size} | {shown} | {speeds[0]:.0f} | {speeds[1]:.0f} | {speeds[0] / speeds[1]:.2f} "
        f"| {errors[0]:.4f} | {errors[1]:.4f} |",
        flush=True,
    )


def _error(result: Tensor, q: Tensor, k: Tensor, v: Tensor, bounds: list[int], *, causal: bool) -> float:
    """Of the first and the last head of all sequences."""
    worst = 0.0
    for start, end in ((start, end) for start, end in itertools.pairwise(bounds) if end > start):
        places = torch.arange(end - start, device="cuda")
        for head in (0, q.shape[1] - 1):
            queries, keys, values = (tensor[start:end, head].double() for tensor in (q, k, v))
            scores = queries @ keys.T / math.sqrt(q.shape[-1])
            if causal:
                scores[places[None] > places[:, None]] = -math.inf
            worst = max(worst, (result[start:end, head].double() - scores.softmax(-1) @ values).abs().max().item())
    return worst


def _medians(contestants: Sequence[Call], calls: int) -> list[float]:
    """Seconds of a call, in turns."""
    for call in (*contestants, *contestants):
        call()
    times: list[list[tuple[Any, Any]]] = [[] for _ in contestants]
    for _ in range(calls):
        for call, pairs in zip(contestants, times, strict=True):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            pairs.append((start, end))
    torch.cuda.synchronize()
    return [statistics.median(start.elapsed_time(end) for start, end in pairs) / 1e3 for pairs in times]


if __name__ == "__main__":
    main()

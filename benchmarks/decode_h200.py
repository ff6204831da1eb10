"""Decode specs in, kernels out; kernels and an NVIDIA GPU in, errors and times beside torch's backends and a copy out.

Needs the compiler to build, and torch and `wavespec.runtime` to run, maybe on another machine:

    python -m benchmarks.decode_h200 build FOLDER
    python -m benchmarks.decode_h200 run FOLDER [--shapes 1x8192 ...] [--pages 16 64] [--heads 8] [--rows 4]

bf16; a shape is sequences x keys; ``--rows`` queries ask each of ``--heads`` heads of ``--size`` elements.  Torch gets
dense keys and values, and the queries of a head as rows.  Times are of the two launches that a result takes, caches
flushed before each; figures are medians.  The copy moves as many bytes as keys and values
have: half of them read, half written.  Errors are the largest of two heads against f64.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from wavespec.runtime import Kernel, unpack_artifact

_ROUNDS = 11
_FLUSHED = 1 << 28
_BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FA2": SDPBackend.FLASH_ATTENTION}
_SHAPES = ("1x8192", "1x131072", "4x32768", "16x8192", "16x32768", "64x4096", "64x8192", "128x4096", "128x8192")
_KERNELS = ("attention_paged_decode", "attention_decode", "attention_combine")
Call = Callable[[], Any]


def main() -> None:
    """Build kernels, or time those of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile the specs for sm_90")
    building.add_argument("folder", type=Path)
    running = commands.add_parser("run", help="check and time the kernels on this machine's GPU")
    running.add_argument("folder", type=Path)
    running.add_argument("--shapes", nargs="*", default=_SHAPES, help="sequences x keys of each")
    running.add_argument("--pages", type=int, nargs="*", default=[16, 64], help="keys of a page")
    running.add_argument("--heads", type=int, default=8, help="of keys and values")
    running.add_argument("--rows", type=int, default=4, help="queries of a head")
    running.add_argument("--size", type=int, default=128, help="elements of a head")
    arguments = parser.parse_args()
    if arguments.command == "build":
        build_all(arguments.folder)
        return
    names = sorted(arguments.folder.glob("*.wavespec"))
    kernels = {path.stem: Kernel(unpack_artifact(path.read_bytes())) for path in names}
    heads, rows, size = arguments.heads, arguments.rows, arguments.size
    for keys in arguments.pages:
        check_uneven(kernels, heads, rows, size, keys)
    print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, torch {torch.__version__}")
    print(f"{heads} heads of {size} elements, {rows} queries each; times in µs\n")
    print("| sequences x keys | pages | paged | dense | cuDNN | FA2 | copy | paged of copy | dense of copy | error |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for shape in arguments.shapes:
        batches, length = map(int, shape.split("x"))
        for keys in arguments.pages:
            _row(kernels, batches, length, keys, heads, rows, size)


def build_all(folder: Path) -> None:
    """Compile every kernel into ``folder``, one file each."""
    from tests.kernels import subjects
    from wavespec.pipeline import build
    from wavespec.runtime import pack_artifact

    folder.mkdir(parents=True, exist_ok=True)
    for subject in subjects("sm_90"):
        if subject.name in _KERNELS:
            (folder / f"{subject.name}.wavespec").write_bytes(pack_artifact(build(subject.spec, "sm_90")))
            print(subject.name, flush=True)


def check_uneven(kernels: dict[str, Kernel], heads: int, rows: int, size: int, keys: int) -> None:
    """Sequences of any length, of none too, with NaN in every row that no sequence has."""
    counts = [0, 1, keys - 1, 4 * keys, 777, 1000]
    pages = -(-1000 // keys)
    q, stored, page = _inputs(len(counts), pages, keys, heads, rows, size)
    for batch, count in enumerate(counts):
        for place in range(count // keys, pages):
            for tensor in stored:
                tensor[page[batch, place], max(0, count - place * keys) :] = math.nan
    count = torch.tensor(counts, dtype=torch.int32, device="cuda")
    result = _paged(kernels, q, stored, page, count)()
    assert result[0].eq(0).all(), "no keys, but a result"
    for batch in range(1, len(counts)):
        error = _error(result, q, stored, page, count, batch)
        assert error < 0.02, f"{counts[batch]} keys in pages of {keys}: error {error}"
    print(f"pages of {keys}: uneven lengths are right", flush=True)


def _row(kernels: dict[str, Kernel], batches: int, length: int, keys: int, heads: int, rows: int, size: int) -> None:
    q, stored, page = _inputs(batches, -(-length // keys), keys, heads, rows, size)
    count = torch.full((batches,), length, dtype=torch.int32, device="cuda")
    dense = [tensor[page.long()].flatten(1, 2)[:, :length].transpose(1, 2).contiguous() for tensor in stored]
    calls = {"paged": _paged(kernels, q, stored, page, count), "dense": _dense(kernels, q, *dense)}
    calls |= {label: _torch(backend, q, *dense) for label, backend in _BACKENDS.items()}
    source = torch.empty_like(dense[0])
    calls["copy"] = lambda: source.copy_(dense[0])
    error = _error(calls["paged"](), q, stored, page, count, batches - 1)
    error = max(error, _error(calls["dense"](), q, stored, page, count, batches - 1))
    times = {label: time * 1e6 for label, time in _medians(calls).items()}
    shown = " | ".join(
        f"{times[label]:.1f}" if label in times else "-" for label in ("paged", "dense", *_BACKENDS, "copy")
    )
    shares = " | ".join(f"{times['copy'] / times[label]:.2f}" for label in ("paged", "dense"))
    print(f"| {batches} x {length} | {keys} | {shown} | {shares} | {error:.1e} |", flush=True)


def _inputs(
    batches: int, pages: int, keys: int, heads: int, rows: int, size: int
) -> tuple[Tensor, list[Tensor], Tensor]:
    """Queries, keys and values in pages, and which pages a sequence has, in no order."""
    torch.manual_seed(0)
    q = torch.randn(batches, heads, rows, size, device="cuda", dtype=torch.bfloat16)
    shape = (batches * pages, keys, heads, size)
    stored = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    page = torch.randperm(batches * pages, device="cuda").to(torch.int32).view(batches, pages)
    return q, stored, page


def _paged(kernels: dict[str, Kernel], q: Tensor, stored: Sequence[Tensor], page: Tensor, count: Tensor) -> Call:
    parts, combine = kernels["attention_paged_decode"], kernels["attention_combine"]
    return lambda: combine(*parts(q, *stored, page, count))


def _dense(kernels: dict[str, Kernel], q: Tensor, k: Tensor, v: Tensor) -> Call:
    parts, combine = kernels["attention_decode"], kernels["attention_combine"]
    return lambda: combine(*parts(q, k, v))


def _torch(backend: SDPBackend, q: Tensor, k: Tensor, v: Tensor) -> Call:
    def call() -> Tensor:
        with sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(q, k, v)

    return call


def _error(result: Tensor, q: Tensor, stored: Sequence[Tensor], page: Tensor, count: Tensor, batch: int) -> float:
    """Of the first and the last head of a sequence."""
    worst, length = 0.0, int(count[batch])
    k, v = (tensor[page[batch].long()].flatten(0, 1)[:length] for tensor in stored)
    for head in (0, q.shape[1] - 1):
        scores = q[batch, head].double() @ k[:, head].double().T / math.sqrt(q.shape[-1])
        exact = scores.softmax(-1) @ v[:, head].double()
        worst = max(worst, (result[batch, head].double() - exact).abs().max().item())
    return worst


def _medians(calls: dict[str, Call]) -> dict[str, float]:
    """Seconds of a call, in turns, each behind a flush of the caches that hides what the host does."""
    times: dict[str, list[float]] = {}
    flushed = torch.empty(_FLUSHED, dtype=torch.int8, device="cuda")
    for label, call in calls.items():
        try:
            call()
            times[label] = []
        except RuntimeError as error:
            print(f"{label}: {str(error).splitlines()[0]}")
    for _ in range(_ROUNDS):
        for label in times:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flushed.zero_()
            start.record()
            calls[label]()
            end.record()
            torch.cuda.synchronize()
            times[label].append(start.elapsed_time(end) / 1e3)
    return {label: statistics.median(values) for label, values in times.items()}


if __name__ == "__main__":
    main()

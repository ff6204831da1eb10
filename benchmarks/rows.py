"""Kernels of rows in (softmax, norms, sums, look-ups); checks and times beside torch, and beside a copy, out.

Needs the compiler to build, and torch and `wavespec.runtime` to run, maybe on another machine:

    python benchmarks/rows.py build FOLDER [--target cpu | sm_90] [--only NAME ...] [--dtype f32 bf16]
    python benchmarks/rows.py run FOLDER [--device cpu | cuda] [--seconds S] [--only NAME ...] [--shapes 4096x4097 ...]
                                         [--compile] [--flush write read]

A shape is rows and columns; sums are over the rows, heads have 128 elements.  All contestants of a shape run in turns
on fresh random data; figures are medians.  A copy moves as many bytes as the kernel reads and writes, a stream
(``streams.py``) reads as many and writes as many.

On a GPU 256 MiB are written between calls, or read, so that operands come from memory.  What is written stays in the
cache until something else takes its place, and has to be written back then: in the time of a kernel, a stream or a copy
alike.  A kernel that only reads has all of it in its way, and a copy, half of whose bytes are written, only a part: the
bar of a kernel is a stream behind the same flush, and that of all earlier tables, `write`.  A run ends with 1 where a
result is wrong.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as functional
from gemm_h200 import in_turns
from streams import stream
from torch import Tensor

from wavespec.runtime import Kernel, unpack_artifact

ROOT = Path(__file__).parent.parent
SHAPES = ("1024x1024", "4096x4096", "16384x512", "64x32768", "8192x8192", "4096x4097")
HEAD, TOKENS = 128, 32000
Call = Callable[[], object]
Tensors = Sequence[Tensor]


def _rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    one, other = x.chunk(2, -1)
    return x * cos[:, None] + torch.cat([-other, one], -1) * sin[:, None]


def _normed(x: Tensor, weight: Tensor) -> Tensor:
    return functional.rms_norm(x.to(weight.dtype), x.shape[-1:], weight, 1e-6)


TORCH: dict[str, Callable[[Tensors], Tensor]] = {
    "cross_entropy": lambda t: functional.cross_entropy(t[0], t[1], reduction="none"),
    "embedding": lambda t: functional.embedding(t[0], t[1]),
    "layer_norm": lambda t: functional.layer_norm(t[0], t[0].shape[1:], t[1], t[2], 1e-5),
    "log_softmax": lambda t: torch.log_softmax(t[0], 1),
    "qk_norm_rope": lambda t: _rope(_normed(t[0], t[1]), t[2], t[3]),
    "rms_norm": lambda t: functional.rms_norm(t[0], t[0].shape[1:], t[1], 1e-6),
    "rope": lambda t: _rope(t[0], t[1], t[2]),
    "scatter_add": lambda t: t[0].index_add_(0, t[1], t[2]),
    "silu_and_mul": lambda t: functional.silu(t[0].chunk(2, 1)[0]) * t[0].chunk(2, 1)[1],
    "softmax": lambda t: torch.softmax(t[0], 1),
    "sum_dim": lambda t: t[0].sum(1),
    "topk": lambda t: torch.topk(t[0], 8, 1).values,
}
"""What torch users write; it makes its result anew."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile the specs")
    building.add_argument("folder", type=Path)
    building.add_argument("--target", default="cpu")
    building.add_argument("--dtype", nargs="*", default=["f32"], help="of the kernels that have several")
    running = commands.add_parser("run", help="check and time kernels on this machine")
    running.add_argument("folder", type=Path)
    running.add_argument("--device", default="cpu")
    running.add_argument("--seconds", type=float, default=1.0, help="for each shape")
    running.add_argument("--shapes", nargs="*", default=SHAPES, help="rows and columns, as 4096x4097")
    running.add_argument("--compile", action="store_true", help="time torch.compile as well")
    running.add_argument("--flush", nargs="*", default=["write"], choices=list(_FLUSHES), help="between calls on a GPU")
    for command in (building, running):
        command.add_argument("--only", nargs="*", default=list(TORCH), help="kernels by name")
    arguments = parser.parse_args()
    if arguments.command == "build":
        build_all(arguments.folder, arguments.target, arguments.only, arguments.dtype)
        return 0
    return 0 if run(arguments) else 1


def build_all(folder: Path, target: str, names: Sequence[str], dtypes: Sequence[str]) -> None:
    """Compile every spec that torch has a function for, in those of the types that it has."""
    from wavespec.pipeline import build
    from wavespec.runtime import pack_artifact
    from wavespec.schema import load
    from wavespec.schema.families.load_family import is_family_file, load_family

    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = ROOT / "specs" / f"{name}.wave.yaml"
        specs = [member.spec for member in load_family(path).members] if is_family_file(path) else [load(path)]
        for spec in specs:
            dtype = next(tensor.dtype for tensor in spec.tensors.values() if tensor.dtype != "i64")
            if len(specs) > 1 and dtype not in dtypes:
                continue
            title = f"{name}-{dtype}"
            (folder / f"{title}.wavespec").write_bytes(pack_artifact(build(spec, target, cubins=True)))
            print(title, flush=True)


def run(arguments: argparse.Namespace) -> bool:
    """Print a row for each kernel, shape and flush; whether all results are right comes out."""
    print("| kernel | shape | flush | wavespec µs | torch µs | compile µs | copy µs | stream µs ", end="")
    print("| of the better torch | of a copy | of a stream |\n|---|---|---|" + "---:|" * 8)
    rows: list[_Row] = []
    for path in sorted(arguments.folder.glob("*.wavespec")):
        if path.stem.partition("-")[0] in arguments.only:
            kernel = Kernel(unpack_artifact(path.read_bytes()))
            rows += [row for shape in arguments.shapes for row in _rows(path.stem, kernel, shape, arguments)]
    for peer in _PEERS:
        ratios = [row.times[peer] / row.times["wavespec"] for row in rows if peer in row.times]
        if ratios:
            mean, least = math.exp(statistics.fmean(map(math.log, ratios))), min(ratios)
            print(f"Of {peer}: geometric mean {mean:.2f}, least {least:.2f}, {len(ratios)} rows.")
    return all(row.is_right for row in rows)


_PEERS = ("torch", "compile", "copy", "stream")


@dataclass(frozen=True, slots=True)
class _Row:
    """Microseconds of every contestant of a shape behind one flush, and whether the kernel's result is right."""

    times: dict[str, float]
    is_right: bool


def _rows(title: str, kernel: Kernel, shape: str, arguments: argparse.Namespace) -> Iterator[_Row]:
    name = title.partition("-")[0]
    m, n = map(int, shape.split("x"))
    given = _inputs(kernel, name, m, n, arguments.device)
    expected, error, allowed = _errors(kernel, TORCH[name], given)
    wrong = "" if error <= allowed else f" error {error:.1e}, allowed {allowed:.1e}"
    is_cuda = arguments.device == "cuda"
    calls = _calls(name, kernel, given, expected, compiled=arguments.compile, streamed=is_cuda)
    for flush in arguments.flush if is_cuda else ("",):
        times = gpu_times(calls, arguments.seconds, flush) if is_cuda else cpu_times(calls, arguments.seconds)
        mine, other = times["wavespec"], min(times["torch"], times.get("compile", math.inf))
        shown = [f"{times[one]:.1f}" if one in times else "" for one in ("wavespec", *_PEERS)]
        shown += [f"{other / mine:.2f}", *(f"{times[one] / mine:.2f}" if one in times else "" for one in _PEERS[2:])]
        print(f"| {title} | {shape} | {flush} | {' | '.join(shown)} |{wrong}", flush=True)
        yield _Row(times, not wrong)


def _calls(
    name: str, kernel: Kernel, given: Tensors, expected: Tensor, *, compiled: bool, streamed: bool
) -> dict[str, Call]:
    """All contestants of a shape."""
    function, device = TORCH[name], expected.device
    calls: dict[str, Call] = {"wavespec": lambda: kernel(*given), "torch": lambda: function(given)}
    if name != "scatter_add" and name != "topk":
        calls["wavespec"] = lambda: kernel(*given, out=expected)
    if compiled:
        torch._dynamo.reset()
        fast = torch.compile(lambda *tensors: function(tensors), dynamic=False)
        calls["compile"] = lambda: fast(*given)
    reads, writes = _bytes(name, given, expected)
    source, target = (torch.zeros((reads + writes) // 2, dtype=torch.uint8, device=device) for _ in range(2))
    calls["copy"] = lambda: target.copy_(source)
    return {**calls, "stream": stream(reads, writes)} if streamed else calls


def _inputs(kernel: Kernel, name: str, m: int, n: int, device: str) -> list[Tensor]:
    """Random numbers, and integers that are rows of a table or columns."""
    sizes = {"M": m, "T": m, "N": n, "D": n, "V": TOKENS, "A": 1, "B": n}
    if name == "sum_dim":
        sizes["N"] = m
    elif name in ("rope", "qk_norm_rope"):
        sizes |= {"H": n // HEAD, "D": HEAD}
    elif name == "scatter_add":
        sizes["V"] = m
    given: list[Tensor] = []
    for one in kernel.artifact.inputs:
        shape = [sizes[dim] for dim in one.dims]
        if one.dtype == "i64":
            given.append(torch.randint(0, n if name == "cross_entropy" else sizes["V"], shape, device=device))
        else:
            given.append(torch.randn(shape, device=device).to(getattr(torch, _TYPES[one.dtype])))
    return given


_TYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}


def _errors(kernel: Kernel, function: Callable[[Tensors], Tensor], given: Tensors) -> tuple[Tensor, float, float]:
    """What torch makes of it, the kernel's largest error against f64, and what is allowed: twice torch's."""
    ours, others, wide = ([tensor.clone() for tensor in given] for _ in range(3))
    made = kernel(*ours)
    result = ours[0] if made is None else made[0] if isinstance(made, tuple) else made
    expected = function(others)
    exact = function([tensor.double() if tensor.is_floating_point() else tensor for tensor in wide])
    error, torchs = ((one.double() - exact).abs().max().item() for one in (result, expected))
    least = torch.finfo(expected.dtype).eps * exact.abs().max().item()
    return expected, error, 2 * max(torchs, least)


def _bytes(name: str, given: Tensors, result: Tensor) -> tuple[int, int]:
    """What a kernel has to read, and to write; of a table, the rows that are looked up."""
    read, written = [*given], result
    if name == "embedding":
        read = [*(tensor for tensor in given if not tensor.is_floating_point()), result]
    if name == "scatter_add":
        read, written = [given[1], given[2], given[2]], given[2]
    sizes = [sum(tensor.numel() * tensor.element_size() for tensor in tensors) for tensors in (read, [written])]
    return sizes[0], sizes[1]


def _write(memory: Tensor, sums: Tensor) -> None:
    memory.zero_()


def _read(memory: Tensor, sums: Tensor) -> None:
    torch.amax(memory.view(torch.int32).view(len(sums), -1), 1, out=sums)


_FLUSHES: dict[str, Callable[[Tensor, Tensor], None]] = {"write": _write, "read": _read}
"""What is done with 256 MiB between calls."""


def gpu_times(calls: dict[str, Call], seconds: float, flush: str = "write") -> dict[str, float]:
    """Median microseconds of each, behind a flush of one kind."""
    memory = torch.zeros(256 << 20, dtype=torch.uint8, device="cuda")
    sums = torch.zeros(8192, dtype=torch.int32, device="cuda")
    found = in_turns(calls, seconds, lambda: _FLUSHES[flush](memory, sums))
    return {name: milliseconds * 1e3 for name, milliseconds in found.items()}


def cpu_times(
    calls: dict[str, Call], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median microseconds of each, called in turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    end_at = time.perf_counter() + seconds
    while time.perf_counter() < end_at or len(found["torch"]) < 5:
        for name, call in calls.items():
            start = clock()
            call()
            found[name].append(clock() - start)
    return {name: statistics.median(each) * 1e6 for name, each in found.items()}


if __name__ == "__main__":
    sys.exit(main())

"""Attention specs in, kernels out; kernels and an NVIDIA GPU in, errors and times beside torch's own backends out.

Needs the compiler to build, and torch and `wavespec.runtime` to run, maybe on another machine:

    python -m benchmarks.attention_h200 build FOLDER [--window 128 1024]
    python -m benchmarks.attention_h200 run FOLDER [--heads 64 128 256] [--length 512 2048 4096 16384] [--tokens 16384]
        [--kernels attention ...] [--rounds 7]

bf16, 2048 / D heads of D elements, so many batches that there are ``--tokens`` tokens.  TFLOP/s count the pairs of a
query and a key that it sees.  Contestants take turns, a dozen calls each; figures are medians.  Errors are the largest
of two heads against f64.  Where torch has no fast backend for a mask, plain attention is the one to compare with.
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

_CALLS = 12
_CAP = 30
_BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FA2": SDPBackend.FLASH_ATTENTION}
_KERNELS = (
    "attention",
    "attention_alibi",
    "attention_gqa",
    "attention_masked_causal",
    "attention_masked_soft_cap",
    "attention_masked_window",
)
Call = Callable[[], Any]


def main() -> None:
    """Build kernels, or time those of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile the specs for sm_90")
    building.add_argument("folder", type=Path)
    building.add_argument("--window", type=int, nargs="*", default=[128, 1024], help="keys of windows")
    running = commands.add_parser("run", help="check and time the kernels on this machine's GPU")
    running.add_argument("folder", type=Path)
    running.add_argument("--heads", type=int, nargs="*", default=[64, 128, 256], help="elements of a head")
    running.add_argument("--length", type=int, nargs="*", default=[512, 2048, 4096, 16384], help="of a sequence")
    running.add_argument("--tokens", type=int, default=16384, help="in all")
    running.add_argument("--kernels", nargs="*", help="files of the folder, by default all")
    running.add_argument("--rounds", type=int, default=7, help="of a dozen calls each")
    arguments = parser.parse_args()
    if arguments.command == "build":
        build_all(arguments.folder, arguments.window)
    else:
        names = arguments.kernels or sorted(path.stem for path in arguments.folder.glob("*.wavespec"))
        run(arguments.folder, names, arguments.heads, arguments.length, arguments.tokens, arguments.rounds)


def build_all(folder: Path, windows: Sequence[int]) -> None:
    """Compile every kernel into ``folder``, one file each."""
    from tests.kernels import subjects
    from wavespec.pipeline import build
    from wavespec.runtime import pack_artifact

    folder.mkdir(parents=True, exist_ok=True)
    specs = {subject.name: subject.spec for subject in subjects("sm_90") if subject.name in _KERNELS}
    window = specs.pop("attention_masked_window")
    specs |= {f"attention_window_{keys}": window for keys in windows}
    for name, spec in specs.items():
        (folder / f"{name}.wavespec").write_bytes(pack_artifact(build(spec, "sm_90")))
        print(name, flush=True)


def run(
    folder: Path, names: Sequence[str], heads: Sequence[int], lengths: Sequence[int], tokens: int, rounds: int
) -> None:
    """Print a row for each size and way of masking."""
    kernels = {name: Kernel(unpack_artifact((folder / f"{name}.wavespec").read_bytes())) for name in names}
    print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, torch {torch.__version__}\n")
    print("| kernel | head | length | TFLOP/s | cuDNN | FA2 | of cuDNN | of plain | error over cuDNN's |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    ratios, plain = list[float](), dict[tuple[int, int], float]()
    for name, kernel in kernels.items():
        for size in heads:
            for length in lengths:
                ratios.append(_row(name, kernel, size, length, max(1, tokens // length), rounds, plain))
    if known := [ratio for ratio in ratios if ratio]:
        mean = math.exp(statistics.fmean(map(math.log, known)))
        print(f"\nGeometric mean {mean:.2f} of cuDNN; least {min(known):.2f}.")


def _row(
    name: str,
    kernel: Kernel,
    size: int,
    length: int,
    batches: int,
    rounds: int,
    plain: dict[tuple[int, int], float],
) -> float:
    torch.manual_seed(0)
    count = 2048 // size
    groups = count // 4 if name == "attention_gqa" else count
    q, k, v = (
        torch.randn(batches, number, length, size, device="cuda", dtype=torch.bfloat16)
        for number in (count, groups, groups)
    )
    more = [torch.rand(count, device="cuda") / 8] if name == "attention_alibi" else []
    numbers = {"window": _window(name)} if "window" in name else {"soft_cap": _CAP} if "cap" in name else {}
    calls: dict[str, Call] = {"ours": lambda: kernel(q, k, v, *more, **numbers)}
    causal = name == "attention_masked_causal"
    if not more and "window" not in name and "cap" not in name:  # torch's fast backends take none of these
        for label, backend in _BACKENDS.items():
            calls[label] = _torch(backend, q, k, v, causal=causal, grouped=groups != count)
    errors = {label: _error(call(), q, k, v, name, more) for label, call in calls.items()} if length <= 4096 else {}
    seconds = _medians(calls, rounds)
    seen = length * length
    if causal:
        seen = length * (length + 1) // 2
    elif "window" in name:
        seen = sum(min(_window(name), place + 1) for place in range(length))
    speed = {label: 4 * batches * count * size * seen / time / 1e12 for label, time in seconds.items()}
    ratio = speed["ours"] / speed["cuDNN"] if "cuDNN" in speed else 0.0
    if name == "attention":
        plain[size, length] = speed["ours"]
    of_plain = f"{speed['ours'] / plain[size, length]:.2f}" if (size, length) in plain else ""
    shown = [f"{speed[label]:.0f}" if label in speed else "" for label in ("ours", *_BACKENDS)]
    error = f"{errors['ours'] / errors['cuDNN']:.2f}" if "cuDNN" in errors else ""
    share = f"{ratio:.2f}" if ratio else ""
    print(f"| {name} | {size} | {length} | {' | '.join(shown)} | {share} | {of_plain} | {error} |", flush=True)
    return ratio


def _torch(backend: SDPBackend, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, grouped: bool) -> Call:
    def call() -> Tensor:
        with sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)

    return call


def _error(result: Tensor, q: Tensor, k: Tensor, v: Tensor, name: str, more: Sequence[Tensor]) -> float:
    """Of the first and the last head of the last batch."""
    worst = 0.0
    for head in (0, q.shape[1] - 1):
        group = head * k.shape[1] // q.shape[1]
        scores = q[-1, head].double() @ k[-1, group].double().T / math.sqrt(q.shape[-1])
        places = torch.arange(q.shape[2], device="cuda")
        behind = places[:, None] - places[None]
        if more:
            scores -= more[0][head].double() * behind.abs()
        if "cap" in name:
            scores = _CAP * (scores / _CAP).tanh()
        if "causal" in name or "window" in name:
            scores[behind < 0] = -math.inf
        if "window" in name:
            scores[behind >= _window(name)] = -math.inf
        exact = scores.softmax(-1) @ v[-1, group].double()
        worst = max(worst, (result[-1, head].double() - exact).abs().max().item())
    return worst


def _window(name: str) -> int:
    return int(name.rpartition("_")[2])


def _medians(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    """Seconds of a call, in turns."""
    times: dict[str, list[float]] = {label: [] for label in calls}
    for call in calls.values():
        for _ in range(3):
            call()
    for _ in range(rounds):
        for label, call in calls.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(_CALLS):
                call()
            end.record()
            torch.cuda.synchronize()
            times[label].append(start.elapsed_time(end) / 1e3 / _CALLS)
    return {label: statistics.median(values) for label, values in times.items()}


if __name__ == "__main__":
    main()

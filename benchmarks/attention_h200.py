"""Attention specs in, kernels out; kernels and an NVIDIA GPU in, errors and times beside torch's own backends out.

Needs the compiler to build, and torch and `wavespec.runtime` to run, maybe on another machine:

    python -m benchmarks.attention_h200 build FOLDER [--window 128 1024]
    python -m benchmarks.attention_h200 run FOLDER [--heads 64 128 256] [--length 512 2048 4096 16384] [--tokens 16384]
        [--kernels attention ...] [--biases full heads one keys] [--rounds 7]

bf16, 2048 / D heads of D elements, so many batches that there are ``--tokens`` tokens.  TFLOP/s count the pairs of a
query and a key that it sees, all of them where a tensor says which.  Biases and masks are of every pair (``full``), or
expanded: of the heads of one batch (``heads``), of ``one`` head, or of the ``keys`` of each batch.  Contestants take
turns, a dozen calls each; figures are medians.  Errors are the largest of two heads against f64.  Where torch has no
fast backend for a mask, plain attention is the one to compare with.
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
import torch.nn.functional as functional
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from wavespec.runtime import Kernel, unpack_artifact

_CALLS = 12
_CAP = 30
_BACKENDS = {
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "FA2": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
_WITH_BIASES = ("cuDNN", "efficient")
_BIASES = {"full": "BHMN", "heads": "HMN", "one": "MN", "keys": "BN"}
"""Dims of biases and masks, by name; along others they are expanded."""
_KERNELS = (
    "attention",
    "attention_alibi",
    "attention_biased_bias",
    "attention_biased_mask",
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
    running.add_argument("--biases", nargs="*", default=["full"], choices=_BIASES, help="of which dims they are")
    running.add_argument("--rounds", type=int, default=7, help="of a dozen calls each")
    arguments = parser.parse_args()
    if arguments.command == "build":
        build_all(arguments.folder, arguments.window)
    else:
        names = arguments.kernels or sorted(path.stem for path in arguments.folder.glob("*.wavespec"))
        run(
            arguments.folder,
            names,
            arguments.heads,
            arguments.length,
            arguments.tokens,
            arguments.rounds,
            arguments.biases,
        )


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
    folder: Path,
    names: Sequence[str],
    heads: Sequence[int],
    lengths: Sequence[int],
    tokens: int,
    rounds: int,
    biases: Sequence[str],
) -> None:
    """Print a row for each size and way of masking."""
    kernels = {name: Kernel(unpack_artifact((folder / f"{name}.wavespec").read_bytes())) for name in names}
    print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, torch {torch.__version__}\n")
    print("| kernel | head | length | TFLOP/s | cuDNN | FA2 | efficient | of cuDNN | of plain | error over cuDNN's |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    ratios, plain = list[float](), dict[tuple[int, int], float]()
    for name, kernel in kernels.items():
        for dims in biases if "biased" in name else [""]:
            for size, length in itertools.product(heads, lengths):
                ratios.append(_row(name, kernel, size, length, max(1, tokens // length), rounds, plain, dims))
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
    dims: str,
) -> float:
    torch.manual_seed(0)
    count = 2048 // size
    groups = count // 4 if name == "attention_gqa" else count
    q, k, v = (
        torch.randn(batches, number, length, size, device="cuda", dtype=torch.bfloat16)
        for number in (count, groups, groups)
    )
    more = [torch.rand(count, device="cuda") / 8] if name == "attention_alibi" else []
    more += [_bias(name, dims, batches, count, length)] if dims else []
    numbers = {"window": _window(name)} if "window" in name else {"soft_cap": _CAP} if "cap" in name else {}
    calls: dict[str, Call] = {"ours": lambda: kernel(q, k, v, *more, **numbers)}
    causal = name == "attention_masked_causal"
    if dims or not (more or "window" in name or "cap" in name):  # torch's fast backends take none of these
        for label in _WITH_BIASES if dims else ("cuDNN", "FA2"):
            mask = more[0] if dims else None
            call = _torch(_BACKENDS[label], q, k, v, mask, causal=causal, grouped=groups != count)
            calls |= {label: call} if _runs(call) else {}
    errors = {label: _error(call(), q, k, v, name, more) for label, call in calls.items()} if length <= 4096 else {}
    seconds = _medians(calls, rounds)
    seen = length * length
    if causal:
        seen = length * (length + 1) // 2
    elif "window" in name:
        seen = sum(min(_window(name), place + 1) for place in range(length))
    speed = {label: 4 * batches * count * size * seen / time / 1e12 for label, time in seconds.items()}
    ratio = speed["ours"] / speed["cuDNN"] if "cuDNN" in speed else 0.0
    label = f"{name}, {dims}" if dims else name
    if name == "attention":
        plain[size, length] = speed["ours"]
    of_plain = f"{speed['ours'] / plain[size, length]:.2f}" if (size, length) in plain else ""
    shown = [f"{speed[label]:.0f}" if label in speed else "" for label in ("ours", *_BACKENDS)]
    error = f"{errors['ours'] / errors['cuDNN']:.2f}" if "cuDNN" in errors else ""
    share = f"{ratio:.2f}" if ratio else ""
    print(f"| {label} | {size} | {length} | {' | '.join(shown)} | {share} | {of_plain} | {error} |", flush=True)
    return ratio


def _bias(name: str, dims: str, batches: int, heads: int, length: int) -> Tensor:
    """Normal numbers, or a mask of three of four pairs."""
    sizes = {"B": batches, "H": heads, "M": length, "N": length}
    shape = [size if dim in _BIASES[dims] else 1 for dim, size in sizes.items()]
    if "mask" in name:
        made = torch.randint(4, shape, device="cuda", dtype=torch.uint8) > 0
    else:
        made = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    return made.expand(*sizes.values())


def _torch(
    backend: SDPBackend, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, causal: bool, grouped: bool
) -> Call:
    def call() -> Tensor:
        with sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=grouped)

    return call


def _runs(call: Call) -> bool:
    """Whether a backend takes these arguments."""
    try:
        call()
    except RuntimeError:
        return False
    return True


def _error(result: Tensor, q: Tensor, k: Tensor, v: Tensor, name: str, more: Sequence[Tensor]) -> float:
    """Of the first and the last head of the last batch."""
    worst = 0.0
    for head in (0, q.shape[1] - 1):
        group = head * k.shape[1] // q.shape[1]
        scores = q[-1, head].double() @ k[-1, group].double().T / math.sqrt(q.shape[-1])
        places = torch.arange(q.shape[2], device="cuda")
        behind = places[:, None] - places[None]
        if more and more[0].dtype == torch.bool:
            scores[~more[0][-1, head]] = -math.inf
        elif more and "biased" in name:
            scores += more[0][-1, head].double()
        elif more:
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

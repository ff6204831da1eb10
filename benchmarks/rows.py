"""Kernels of rows in (softmax, norms); checks and times beside torch, and beside a copy of the same bytes, out.

Needs the compiler to build, and torch and `wavespec.runtime` to run, maybe on another machine:

    python benchmarks/rows.py build FOLDER [--target cpu | sm_90]
    python benchmarks/rows.py run FOLDER [--device cpu | cuda] [--seconds S]

All contestants of a shape run in turns on fresh random data; figures are medians.  On a GPU 256 MiB are written between
calls, so that operands come from memory.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as functional
from gemm_h200 import in_turns

from wavespec.runtime import Kernel, unpack_artifact

ROOT = Path(__file__).parent.parent
SHAPES = ((1024, 1024), (4096, 4096), (16384, 512), (64, 32768), (8192, 8192), (4096, 4097))
Call = Callable[[], object]
Tensors = Sequence[torch.Tensor]
TORCH: dict[str, Callable[[Tensors], torch.Tensor]] = {
    "layer_norm": lambda t: functional.layer_norm(t[0], t[0].shape[1:], t[1], t[2], 1e-5),
    "log_softmax": lambda t: torch.log_softmax(t[0], 1),
    "rms_norm": lambda t: functional.rms_norm(t[0], t[0].shape[1:], t[1], 1e-6),
    "softmax": lambda t: torch.softmax(t[0], 1),
}
"""What torch users write; it makes its result anew."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile the specs")
    building.add_argument("folder", type=Path)
    building.add_argument("--target", default="cpu")
    running = commands.add_parser("run", help="check and time kernels on this machine")
    running.add_argument("folder", type=Path)
    running.add_argument("--device", default="cpu")
    running.add_argument("--seconds", type=float, default=1.0, help="for each shape")
    arguments = parser.parse_args()
    if arguments.command == "build":
        build_all(arguments.folder, arguments.target)
    else:
        run(arguments.folder, arguments.device, arguments.seconds)


def build_all(folder: Path, target: str) -> None:
    """Compile every spec that torch has a function for."""
    from wavespec.pipeline import build
    from wavespec.runtime import pack_artifact
    from wavespec.schema import load

    folder.mkdir(parents=True, exist_ok=True)
    for name in TORCH:
        artifact = build(load(ROOT / "specs" / f"{name}.wave.yaml"), target)
        (folder / f"{name}.wavespec").write_bytes(pack_artifact(artifact))


def run(folder: Path, device: str, seconds: float) -> None:
    print("| kernel | M x N | wavespec µs | torch µs | copy µs | ratio to torch | to a copy |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for path in sorted(folder.glob("*.wavespec")):
        kernel = Kernel(unpack_artifact(path.read_bytes()))
        for m, n in SHAPES:
            sizes, function = {"M": m, "N": n}, TORCH[path.stem]
            given = [torch.randn([sizes[str(d)] for d in one.dims], device=device) for one in kernel.artifact.inputs]
            x, ours, copied = given[0], torch.empty_like(given[0]), torch.empty_like(given[0])
            calls: dict[str, Call] = {
                "wavespec": lambda kernel=kernel, given=given, out=ours: kernel(*given, out=out),
                "torch": lambda function=function, given=given: function(given),
                "copy": lambda x=x, out=copied: out.copy_(x),
            }
            times = gpu_times(calls, seconds) if device == "cuda" else cpu_times(calls, seconds)
            exact = function([tensor.double() for tensor in given])
            error, allowed = ((result.double() - exact).abs().max().item() for result in (ours, function(given)))
            least = torch.finfo(x.dtype).eps * exact.abs().max().item()
            wrong = "" if error <= 2 * max(allowed, least) else f" error {error:.1e}, torch {allowed:.1e}"
            mine, other, copy = (times[name] for name in ("wavespec", "torch", "copy"))
            print(
                f"| {path.stem} | {m} x {n} | {mine:.1f} | {other:.1f} | {copy:.1f} | {other / mine:.2f} | "
                f"{copy / mine:.2f} |{wrong}",
                flush=True,
            )


def gpu_times(calls: dict[str, Call], seconds: float) -> dict[str, float]:
    """Median microseconds of each."""
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    return {name: milliseconds * 1e3 for name, milliseconds in in_turns(calls, seconds, flush).items()}


def cpu_times(calls: dict[str, Call], seconds: float) -> dict[str, float]:
    """Median microseconds of each, called in turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    end_at = time.perf_counter() + seconds
    while time.perf_counter() < end_at or len(found["torch"]) < 5:
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            found[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) * 1e6 for name, each in found.items()}


if __name__ == "__main__":
    main()

"""Routers of a mixture of experts without tiles in; checks and times beside torch, at sizes of models, out.

Needs the compiler to build, and torch and `wavespec.runtime` to run, maybe on another machine:

    python benchmarks/routers.py build FOLDER [--target sm_90] [--types f32 bf16] [--experts 64 128 256 512]
    python benchmarks/routers.py run FOLDER [--device cuda] [--seconds S] [--tokens 1 64 8192 ...] [--hidden 2048 7168]

A router is the softmax of a product of tokens and experts, and its largest shares with their experts.  Torch has
`torch.topk(torch.softmax(x @ w.T, -1, dtype=torch.float32), k)`, f32 without TF32.  Both are called in turns, on a GPU
with 256 MiB written in between; figures are medians.  Errors are those of the shares, relative to f64; an expert counts
as right whose share in f64 is within an error of 1e-4 of that of the one that f64 has there.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
from rows import Call, cpu_times, gpu_times
from torch import Tensor

from wavespec.runtime import Kernel, pack_artifact, unpack_artifact

TEXT = """\
apiVersion: wavespec/v1
kind: Kernel
name: router
dims: {{T: {{}}, D: {{}}, X: {{value: {experts}}}, K: {{value: {largest}}}}}
tensors:
  x: {{shape: [T, D], dtype: {dtype}}}
  router: {{shape: [X, D], dtype: {dtype}}}
  weights: {{shape: [T, K], dtype: f32, role: output}}
  experts: {{shape: [T, K], dtype: i32, role: output}}
graph:
  - zero: {{register: [T, X], dtype: f32, value: 0}}
  - logits:
      iterate: D
      carry: {{acc: zero}}
      body:
        - token: {{read: x}}
        - expert: {{read: router}}
        - acc: {{mma: [token, expert, acc]}}
  - largest: {{max: logits.acc, dim: X}}
  - powers: exp(logits.acc - largest)
  - total: {{sum: powers, dim: X}}
  - shares: powers / total
  - found: {{topk: shares, dim: X, k: K, indices: places, dtype: i32}}
  - {{write: found, to: weights}}
  - {{write: places, to: experts}}
"""
_TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
_SAME_SHARE = 1e-4


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile the routers")
    building.add_argument("folder", type=Path)
    building.add_argument("--target", default="sm_90")
    building.add_argument("--types", nargs="*", default=["f32", "bf16"])
    building.add_argument("--experts", nargs="*", type=int, default=[64, 128, 256, 512])
    building.add_argument("--largest", type=int, default=8, help="experts of a token")
    running = commands.add_parser("run", help="check and time them on this machine")
    running.add_argument("folder", type=Path)
    running.add_argument("--device", default="cuda")
    running.add_argument("--seconds", type=float, default=0.02, help="for each size")
    running.add_argument("--tokens", nargs="*", type=int, default=[1, 4, 16, 64, 256, 1024, 4096, 8192])
    running.add_argument("--hidden", nargs="*", type=int, default=[2048, 4096, 7168])
    arguments = parser.parse_args()
    if arguments.command == "build":
        build_all(arguments)
    else:
        run(arguments)


def build_all(arguments: argparse.Namespace) -> None:
    """Compile a router for each type and number of experts."""
    from wavespec.pipeline import build
    from wavespec.schema import loads

    arguments.folder.mkdir(parents=True, exist_ok=True)
    for dtype in arguments.types:
        for experts in arguments.experts:
            text = TEXT.format(dtype=dtype, experts=experts, largest=arguments.largest)
            artifact = build(loads(text, "router.wave.yaml"), arguments.target)
            name = f"router-{dtype}-{experts}-{arguments.largest}.wavespec"
            (arguments.folder / name).write_bytes(pack_artifact(artifact))
            print(name, flush=True)


def run(arguments: argparse.Namespace) -> None:
    """Print a row for each router and size."""
    print("| type, experts, of a token | tokens x hidden | wavespec us | torch us | ratio | error | torch's |")
    print("|---|---|---:|---:|---:|---:|---:|")
    ratios: list[float] = []
    for path in sorted(arguments.folder.glob("router-*.wavespec")):
        kernel = Kernel(unpack_artifact(path.read_bytes()))
        sizes = [(tokens, hidden) for hidden in arguments.hidden for tokens in arguments.tokens]
        ratios += [_row(path.stem, kernel, *size, arguments) for size in sizes]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"\nGeometric mean {mean:.2f}, least {min(ratios):.2f}.")


def _row(title: str, kernel: Kernel, tokens: int, hidden: int, arguments: argparse.Namespace) -> float:
    _, dtype, experts, largest = title.split("-")
    count, k, type_ = int(experts), int(largest), _TYPES[dtype]
    x = torch.randn(tokens, hidden, device=arguments.device).to(type_)
    w = (torch.randn(count, hidden, device=arguments.device) / math.sqrt(hidden)).to(type_)

    def of_torch() -> tuple[Tensor, Tensor]:
        found = torch.topk(torch.softmax(x @ w.T, -1, dtype=torch.float32), k)
        return found.values, found.indices

    exact = torch.softmax(x.double() @ w.double().T, -1)
    best = exact.topk(k).values
    (shares, places), (others, _) = kernel(x, w), of_torch()
    error, torchs = (((one.double() - best).abs() / best).max().item() for one in (shares, others))
    apart = ((exact.gather(1, places.long()) - best).abs() / best).max().item()
    calls: dict[str, Call] = {"wavespec": lambda: kernel(x, w), "torch": of_torch}
    times = (gpu_times if arguments.device == "cuda" else cpu_times)(calls, arguments.seconds)
    ratio = times["torch"] / times["wavespec"]
    shown = f"{times['wavespec']:.1f} | {times['torch']:.1f} | {ratio:.2f} | {error:.1e} | {torchs:.1e}"
    wrong = "" if apart <= _SAME_SHARE else f" other experts: {apart:.1e}"
    print(f"| {dtype}, {experts}, {largest} | {tokens} x {hidden} | {shown} |{wrong}", flush=True)
    return ratio


if __name__ == "__main__":
    main()

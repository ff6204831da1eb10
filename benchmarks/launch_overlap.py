"""A chain of kernels in a CUDA graph, where launches begin before those in front of them end, in; its time, and what it
is when they do not, out.

Needs the compiler to build, and torch and `wavespec.runtime` to run, maybe on another machine:

    python -m benchmarks.launch_overlap build FOLDER
    python -m benchmarks.launch_overlap run FOLDER [--rows 1 16 64]

The chain is a layer of a decoder as Llama 3 8B has it, for one new token of each of some sequences with 4,096 keys:
norm, product, attention over pages and what joins its parts, product, norm, product, gate, product, without the sums
beside them; weights of 16 or of 4 bits.  Each kernel reads what the one before it wrote.  Layers have weights of their
own, more than caches hold.  `alone`: each is launched when the one in front of it has ended.  Figures are medians of
replays in turns; the results of both are the same bits.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from wavespec.runtime import Kernel, KernelArtifact, unpack_artifact

_HIDDEN, _WIDE, _HEADS, _GROUPS, _SIZE = 4096, 14336, 8, 4, 128
_KEYS, _PAGE, _LAYERS, _ROUNDS, _BLOCK = 4096, 64, 4, 31, 128
_KERNELS = (
    "rms_norm_bf16", "matmul_bf16", "linear_i4", "silu_and_mul", "attention_paged_decode", "attention_combine",
)  # fmt: skip
Call = Callable[[], object]


def main() -> None:
    """Build kernels, or time those of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile the specs for sm_90")
    building.add_argument("folder", type=Path)
    running = commands.add_parser("run", help="check and time the kernels on this machine's GPU")
    running.add_argument("folder", type=Path)
    running.add_argument("--rows", type=int, nargs="*", default=[1, 16, 64], help="sequences, of one new token each")
    arguments = parser.parse_args()
    if arguments.command == "build":
        build_all(arguments.folder)
        return
    print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, torch {torch.__version__}\n")
    print("| chain | rows | launches | us alone | us | times as fast | us saved a launch |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    artifacts = {path.stem: unpack_artifact(path.read_bytes()) for path in arguments.folder.glob("*.wavespec")}
    for rows in arguments.rows:
        for bits in (16, 4):
            _row(artifacts, rows, bits)


def build_all(folder: Path) -> None:
    """Compile every kernel into ``folder``, one file each."""
    from tests.kernels import subjects
    from wavespec.pipeline import build
    from wavespec.runtime import pack_artifact

    folder.mkdir(parents=True, exist_ok=True)
    for subject in subjects("sm_90"):
        if subject.name in _KERNELS:
            artifact = build(subject.spec, "sm_90", cubins=True)
            (folder / f"{subject.name}.wavespec").write_bytes(pack_artifact(artifact))
            print(subject.name, flush=True)


def alone(artifact: KernelArtifact) -> KernelArtifact:
    """The same, launched when what is in front of it has ended."""
    cases = tuple(replace(case, kernel=alone(case.kernel)) for case in artifact.cases)
    return replace(artifact, waits=False, cases=cases, steps=tuple(map(alone, artifact.steps)))


def _row(artifacts: dict[str, KernelArtifact], rows: int, bits: int) -> None:
    torch.manual_seed(0)
    layers = [_Weights.drawn(bits) for _ in range(_LAYERS * 16 // bits)]
    cache = _Cache.drawn(rows)
    x = torch.randn(rows, _HIDDEN, device="cuda", dtype=torch.bfloat16)
    ways: list[tuple[Call, Tensor]] = []
    for of_way in (alone, lambda artifact: artifact):
        kernels = {name: Kernel(of_way(artifact)) for name, artifact in artifacts.items()}
        ways.append(_captured(lambda kernels=kernels: _decoded(kernels, x, layers, cache)))
    times: list[list[float]] = [[], []]
    for _ in range(_ROUNDS):
        for (replay, _), found in zip(ways, times, strict=True):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            replay()
            end.record()
            end.synchronize()
            found.append(start.elapsed_time(end) * 1e3)
        (_, before), (_, after) = ways
        assert before.isfinite().all() and torch.equal(before, after), "a launch did not wait"
    before, after = map(statistics.median, times)
    launches = 9 * len(layers)
    saved = (before - after) / launches
    name = f"{len(layers)} layers, weights of {bits} bits"
    print(
        f"| {name} | {rows} | {launches} | {before:.0f} | {after:.0f} | {before / after:.3f} | {saved:.2f} |",
        flush=True,
    )


@dataclass(frozen=True, slots=True)
class _Weights:
    norms: Sequence[Tensor]
    query: Sequence[Tensor]
    output: Sequence[Tensor]
    gate: Sequence[Tensor]
    down: Sequence[Tensor]

    @staticmethod
    def drawn(bits: int) -> _Weights:
        def matrix(n: int, k: int) -> Sequence[Tensor]:
            if bits == 16:
                return (torch.randn(n, k, device="cuda", dtype=torch.bfloat16) / k**0.5,)
            codes = torch.randint(0, 256, (n, k // 2), device="cuda", dtype=torch.uint8)
            return codes, torch.rand(n, k // _BLOCK, device="cuda").to(torch.bfloat16) / (4 * k**0.5)

        norms = [torch.rand(_HIDDEN, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
        queries = _HEADS * _GROUPS * _SIZE
        return _Weights(
            norms,
            matrix(queries, _HIDDEN),
            matrix(_HIDDEN, queries),
            matrix(2 * _WIDE, _HIDDEN),
            matrix(_HIDDEN, _WIDE),
        )


@dataclass(frozen=True, slots=True)
class _Cache:
    keys: Tensor
    values: Tensor
    page: Tensor
    count: Tensor

    @staticmethod
    def drawn(rows: int) -> _Cache:
        pages = rows * _KEYS // _PAGE
        stored = [torch.randn(pages, _PAGE, _HEADS, _SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
        page = torch.randperm(pages, device="cuda").to(torch.int32).view(rows, -1)
        return _Cache(*stored, page, torch.full((rows,), _KEYS, dtype=torch.int32, device="cuda"))


def _decoded(kernels: dict[str, Kernel], x: Tensor, layers: Sequence[_Weights], cache: _Cache) -> Tensor:
    norm, silu = kernels["rms_norm_bf16"], kernels["silu_and_mul"]
    parts, combine = kernels["attention_paged_decode"], kernels["attention_combine"]
    rows = x.shape[0]

    def product(x: Tensor, weights: Sequence[Tensor]) -> Tensor:
        return kernels["matmul_bf16" if len(weights) == 1 else "linear_i4"](x, *weights)

    for layer in layers:
        q = product(norm(x, layer.norms[0]), layer.query).view(rows, _HEADS, _GROUPS, _SIZE)
        seen = combine(*parts(q, cache.keys, cache.values, cache.page, cache.count))
        x = product(seen.view(rows, -1), layer.output)
        x = product(silu(product(norm(x, layer.norms[1]), layer.gate)), layer.down)
    return x


def _captured(chain: Callable[[], Tensor]) -> tuple[Call, Tensor]:
    """Its graph, and where it leaves its result."""
    chain()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = chain()
    return graph.replay, result


if __name__ == "__main__":
    main()

"""Kernels with weights of four bits, or blocks with scales, in; checks, and times beside torch's products, out.

Needs the compiler to build, and torch and `wavespec.runtime` to run, maybe on another machine:

    python -m benchmarks.decoded_h200 build FOLDER [SPEC ...]
    python -m benchmarks.decoded_h200 run FOLDER [--rows 1 16 64 512 4096] [--shape 14336x4096 8192x8192] [--cubes 4096]

Rows are those of the activations, a shape is N x K of the weights; cubes are M = N = K of products whose operands both
have scales.  Peers are the bf16 product and, of f8 with f32 scales, `_scaled_mm` with one scale for a tensor and with
the same blocks.  Calls of one contestant stand in a CUDA graph, each with weights of its own, so many that none is in a
cache still; contestants take turns, and figures are medians.  Results are exact on whole numbers, or the run ends.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wavespec.runtime import Kernel, unpack_artifact

GROUP, BLOCK = 128, 32
NAMES = ("linear_i4", "matmul_mxf4", "matmul_mxf8", "matmul_f8_blocks")
SPECS = tuple(Path("specs") / f"{name}.wave.yaml" for name in NAMES)
_COLD_BYTES = 200 << 20  # of weights in one graph: several times the second-level cache
_ROUNDS, _CALLS = 9, 8
Call = Callable[[], Any]


def main() -> None:
    """Build kernels, or check and time those of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile specs for sm_90")
    building.add_argument("folder", type=Path)
    building.add_argument("specs", type=Path, nargs="*", default=SPECS)
    running = commands.add_parser("run", help="check and time the kernels on this machine's GPU")
    running.add_argument("folder", type=Path)
    running.add_argument("--rows", type=int, nargs="*", default=[1, 16, 64, 512, 4096])
    running.add_argument("--shape", nargs="*", default=["14336x4096", "8192x8192"], help="of weights, as NxK")
    running.add_argument("--cubes", type=int, nargs="*", default=[4096, 8192])
    running.add_argument("--only", default="", help="kernels whose file name contains this")
    arguments = parser.parse_args()
    if arguments.command == "build":
        build_all(arguments.folder, arguments.specs)
        return
    shapes = [(m, *map(int, shape.split("x"))) for shape in arguments.shape for m in arguments.rows]
    run(arguments.folder, shapes, [(size, size, size) for size in arguments.cubes], arguments.only)


def build_all(folder: Path, specs: Sequence[Path]) -> None:
    """Compile every spec into ``folder``, one file each."""
    from wavespec.pipeline import build
    from wavespec.runtime import pack_artifact
    from wavespec.schema import load

    folder.mkdir(parents=True, exist_ok=True)
    for path in specs:
        target = folder / path.name.replace(".wave.yaml", ".wavespec")
        target.write_bytes(pack_artifact(build(load(path), "sm_90")))
        print(target, flush=True)


def run(folder: Path, shapes: Sequence[Sequence[int]], cubes: Sequence[Sequence[int]], only: str) -> None:
    """Print a row for each size of each kernel."""
    print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, torch {torch.__version__}\n")
    print("| kernel | M | N | K | us | beside | us | times as fast |")
    print("|---|---:|---:|---:|---:|---|---:|---:|")
    kernels = {path.stem: Kernel(unpack_artifact(path.read_bytes())) for path in sorted(folder.glob("*.wavespec"))}
    kernels = {name: kernel for name, kernel in kernels.items() if only in name}
    kinds = (
        ("linear_i4", _Weights, shapes),
        ("matmul_mx", _Scaled, (*shapes, *cubes)),
        ("matmul_f8", _Blocks, (*shapes, *cubes)),
    )
    for prefix, makers, sizes in kinds:
        these = {name: one for name, one in kernels.items() if name.startswith(prefix)}
        for shape in sizes if these else ():
            m, n, k = shape
            for kernel in these.values():
                makers(kernel, m, n, k, integers=True).check()
            found = {name: makers(kernel, m, n, k) for name, kernel in these.items()}
            first = next(iter(found.values()))
            peers = first.peers()
            times = _medians({name: one.graph() for name, one in found.items()} | peers)
            for name in these:
                for peer in peers:
                    measured = f"{times[name]:.1f} | {peer} | {times[peer]:.1f} | {times[peer] / times[name]:.2f}"
                    print(f"| {name} | {m} | {n} | {k} | {measured} |", flush=True)
            del found, first, peers
            torch.cuda.empty_cache()


class _Product:
    """Operands of one kernel for one size, as many copies of the weights as do not fit a cache."""

    x: Tensor
    weights: Sequence[Sequence[Tensor]]

    def __init__(self, kernel: Kernel, m: int, n: int, k: int, *, integers: bool = False) -> None:
        torch.manual_seed(0)
        self.kernel, self.m, self.n, self.k, self.integers = kernel, m, n, k, integers
        self.y = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)

    def inputs(self, weights: Sequence[Tensor]) -> Sequence[Tensor]:
        raise NotImplementedError

    def exact(self) -> Tensor:
        """In f64, of the first weights."""
        raise NotImplementedError

    def copies(self, bytes_: int) -> int:
        return 1 if self.integers else max(1, -(-_COLD_BYTES // bytes_))

    def check(self) -> None:
        """Raise where whole numbers are not multiplied exactly, or a row behind the last is written."""
        guarded = torch.full((self.m + 1, self.n), -77.0, device="cuda", dtype=torch.bfloat16)
        for _ in range(2):
            self.kernel(*self.inputs(self.weights[0]), out=guarded[: self.m])
        wrong = (guarded[: self.m] != self.exact().to(torch.bfloat16)).sum().item()
        if wrong or (guarded[self.m] != -77).any():
            raise SystemExit(f"{self.kernel.artifact.name} {self.m}x{self.n}x{self.k}: {wrong} elements differ")

    def graph(self) -> Call:
        return _captured([lambda one=one: self.kernel.raw(*self.inputs(one), self.y) for one in self.weights])

    def peers(self) -> dict[str, Call]:
        """What torch has for it, by name: the product of as many bf16 matrices."""
        count = self.copies(2 * self.n * self.k)
        x = torch.randn(self.m, self.k, device="cuda", dtype=torch.bfloat16)
        matrices = [torch.randn(self.n, self.k, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
        return {"bf16": _captured([lambda one=one: torch.mm(x, one.T, out=self.y) for one in matrices])}


class _Weights(_Product):
    """i4 with a scale for each group along K; activations of bf16."""

    def __init__(self, kernel: Kernel, m: int, n: int, k: int, *, integers: bool = False) -> None:
        super().__init__(kernel, m, n, k, integers=integers)
        self.weights = [self._made() for _ in range(self.copies(n * k // 2))]
        x = torch.randint(-2, 3, (m, k), device="cuda") if integers else torch.randn(m, k, device="cuda")
        self.x = x.to(torch.bfloat16)

    def _made(self) -> tuple[Tensor, Tensor]:
        codes = torch.randint(0, 256, (self.n, self.k // 2), device="cuda", dtype=torch.uint8)
        shape = (self.n, -(-self.k // GROUP))
        power = torch.randint(-1, 2, shape, device="cuda").exp2()
        return codes, (power if self.integers else torch.rand(shape, device="cuda")).to(torch.bfloat16)

    def inputs(self, weights: Sequence[Tensor]) -> Sequence[Tensor]:
        return self.x, *weights

    def exact(self) -> Tensor:
        codes, scale = self.weights[0]
        numbers = torch.stack([codes & 15, codes >> 4], -1).flatten(-2).to(torch.int8)
        numbers = ((numbers ^ 8) - 8).double() * scale.double().repeat_interleave(GROUP, -1)[:, : self.k]
        return self.x.double() @ numbers.T


class _Scaled(_Product):
    """f8 or f4 with a power of two for each block along K, on both sides."""

    def __init__(self, kernel: Kernel, m: int, n: int, k: int, *, integers: bool = False) -> None:
        super().__init__(kernel, m, n, k, integers=integers)
        self.is_packed = kernel.artifact.inputs[0].dtype == "f4e2m1fn"
        x, bits = self._made(m), 4 if self.is_packed else 8
        self.weights = [(*x, *self._made(n)) for _ in range(self.copies(n * k * bits // 8))]

    def _made(self, rows: int) -> tuple[Tensor, Tensor]:
        shape = (rows, self.k // 2 if self.is_packed else self.k)
        if self.is_packed:
            numbers = torch.randint(0, 256, shape, device="cuda", dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
        elif self.integers:
            numbers = torch.randint(-2, 3, shape, device="cuda").float().to(torch.float8_e4m3fn)
        else:
            numbers = torch.randn(shape, device="cuda").to(torch.float8_e4m3fn)
        powers = torch.randint(126, 129, (rows, self.k // BLOCK), device="cuda", dtype=torch.uint8)
        return numbers, powers.view(torch.float8_e8m0fnu)

    def inputs(self, weights: Sequence[Tensor]) -> Sequence[Tensor]:
        a, a_scale, b, b_scale = weights
        return a, b, a_scale, b_scale

    def exact(self) -> Tensor:
        a, a_scale, b, b_scale = self.weights[0]
        return self._numbers(a, a_scale) @ self._numbers(b, b_scale).T

    def _numbers(self, codes: Tensor, scale: Tensor) -> Tensor:
        numbers = codes.double() if not self.is_packed else f4_numbers(codes.view(torch.uint8))
        return numbers * scale.double().repeat_interleave(BLOCK, -1)


class _Blocks(_Product):
    """f8 with an f32 scale for each 128 elements of a row of x, and for 128 x 128 of the weights."""

    def __init__(self, kernel: Kernel, m: int, n: int, k: int, *, integers: bool = False) -> None:
        super().__init__(kernel, m, n, k, integers=integers)
        self.x, self.x_scale = self._made(m, k, 1)
        self.weights = [self._made(n, k, GROUP) for _ in range(self.copies(n * k))]

    def _made(self, rows: int, columns: int, block: int) -> tuple[Tensor, Tensor]:
        shape, blocks = (rows, columns), (-(-rows // block), -(-columns // GROUP))
        if self.integers:
            numbers = torch.randint(-2, 3, shape, device="cuda")
            scales = torch.randint(-1, 2, blocks, device="cuda").exp2()
        else:
            numbers, scales = torch.randn(shape, device="cuda"), torch.rand(blocks, device="cuda") + 0.5
        return numbers.float().to(torch.float8_e4m3fn), scales.float()

    def inputs(self, weights: Sequence[Tensor]) -> Sequence[Tensor]:
        b, b_scale = weights
        return self.x, b, self.x_scale, b_scale

    def exact(self) -> Tensor:
        b, b_scale = self.weights[0]
        scales = (one.double().repeat_interleave(GROUP, -1)[:, : self.k] for one in (self.x_scale, b_scale))
        x_scale, wide = scales
        return (self.x.double() * x_scale) @ (b.double() * wide.repeat_interleave(GROUP, 0)[: self.n]).T

    def peers(self) -> dict[str, Call]:
        """One scale for a tensor, and the same blocks, whose scales lie in the order that cuBLAS wants."""
        scaled: Any = torch._scaled_mm  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
        one, x_scale = torch.ones((), device="cuda"), self.x_scale.T.contiguous().T
        plain, kind = [b.T for b, _ in self.weights], {"out_dtype": torch.bfloat16}
        whole = [lambda b=b: scaled(self.x, b, one, one, use_fast_accum=True, **kind) for b in plain]
        blocks = [(b.T, b_scale.T) for b, b_scale in self.weights]
        in_blocks = [lambda b=b, scale=scale: scaled(self.x, b, x_scale, scale, **kind) for b, scale in blocks]
        found = super().peers() | {"_scaled_mm, fast": _captured(whole)}
        try:  # of some sizes torch has none
            return found | {"_scaled_mm, blocks": _captured(in_blocks)}
        except (RuntimeError, ValueError) as error:
            print(f"no _scaled_mm of blocks: {str(error).splitlines()[0]}", flush=True)
            return found


def f4_numbers(codes: Tensor) -> Tensor:
    """In f64, of bytes with two codes each."""
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], device=codes.device, dtype=torch.float64)
    table = torch.cat([table, -table])
    return torch.stack([table[(codes & 15).int()], table[(codes >> 4).int()]], -1).flatten(-2)


def _captured(calls: Sequence[Call]) -> Call:
    """One replay of a CUDA graph of the calls; its figure is the time of one of them."""
    for call in calls:
        call()
    graph = torch.cuda.CUDAGraph()
    times = max(1, -(-_CALLS // len(calls)))
    with torch.cuda.graph(graph):
        for _ in range(times):
            for call in calls:
                call()

    def replay() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) * 1e3 / (times * len(calls))

    return replay


def _medians(calls: dict[str, Call]) -> dict[str, float]:
    """Microseconds of a call, in turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            times[name].append(call())
    return {name: statistics.median(found[1:]) for name, found in times.items()}


if __name__ == "__main__":
    main()

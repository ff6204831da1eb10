"""GEMM specs in, kernels out; kernels and an NVIDIA GPU in, checks and times beside cuBLAS out.

Needs the compiler to build, and torch, cuda-bindings and `wavespec.runtime` to run, maybe on another machine:

    python benchmarks/gemm_h200.py build FOLDER [SPEC ...]
    python benchmarks/gemm_h200.py run FOLDER [--only TEXT] [--check-only] [--json FILE]

Every kernel computes C[M, N] = A[M, K] · B[N, K]ᵀ.  Times are medians; "flushed" writes 256 MiB between
calls, so that operands come from memory, "hot" calls back to back.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from wavespec.runtime import Kernel, unpack_artifact

DEVICE = "cuda"
SHAPES = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (4000, 4104, 1000), (32768, 4096, 4096))
EXACT_SHAPES = ((4000, 4104, 1000), (512, 768, 1024), (130, 264, 80), (1, 8, 16))
ERROR_SHAPE = (1024, 1024, 4096)
TORCH = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "i8": torch.int8,
    "i32": torch.int32,
}


def main() -> None:
    """Build kernels, or check and time those of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile specs for sm_90")
    building.add_argument("folder", type=Path)
    building.add_argument("specs", type=Path, nargs="*", default=sorted(Path("specs").glob("gemm*.wave.yaml")))
    running = commands.add_parser("run", help="check and time kernels on this machine's GPU")
    running.add_argument("folder", type=Path)
    running.add_argument("--only", default="", help="kernels whose file name contains this")
    running.add_argument("--check-only", action="store_true")
    running.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    if arguments.command == "build":
        build_all(arguments.folder, arguments.specs)
    else:
        run(arguments.folder, arguments.only, arguments.check_only, arguments.json)


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


def run(folder: Path, only: str, check_only: bool, figures: Path | None) -> None:
    """Check, then time, every kernel of ``folder`` whose name contains ``only``."""
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, torch {torch.__version__}", flush=True)
    kernels: dict[str, Kernel] = {}
    for path in sorted(folder.glob("*.wavespec")):
        if only in path.stem:
            kernels[path.stem] = Kernel(unpack_artifact(path.read_bytes()))
    rows: list[dict[str, Any]] = []
    for name, kernel in kernels.items():
        problems = check(kernel)
        rows.append({"kernel": name, "problems": problems})
        print(f"{name:28s} {'; '.join(problems) or 'exact on integers, error within twice torch'}", flush=True)
    if not check_only:
        for dtype in sorted({dtype_of(kernel) for kernel in kernels.values()}):
            rows += measure({n: k for n, k in kernels.items() if dtype_of(k) == dtype}, dtype)
        rows.append(overhead(next(iter(kernels.values()))))
    if figures:
        figures.write_text(json.dumps(rows, indent=1))


def dtype_of(kernel: Kernel) -> str:
    """Element type of the operands."""
    return kernel.artifact.inputs[0].dtype


def fitted(kernel: Kernel, shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """The shape, rounded up to what the kernel's spec promises."""
    multiples = {dim.name: dim.multiple_of for dim in kernel.artifact.dims}
    m, n, k = (-(-size // multiples[name]) * multiples[name] for name, size in zip("MNK", shape, strict=True))
    return m, n, k


def operands(shape: tuple[int, int, int], dtype: str, *, integers: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Random A and B; small integers, whose products add up exactly, or normal numbers."""
    m, n, k = shape
    generator = torch.Generator(device=DEVICE).manual_seed(1)
    if integers or dtype == "i8":
        limit = 3 if integers else 100
        a, b = (torch.randint(-limit, limit + 1, (rows, k), device=DEVICE, generator=generator) for rows in (m, n))
    else:
        a, b = (torch.randn((rows, k), device=DEVICE, generator=generator) for rows in (m, n))
    return a.to(TORCH[dtype]), b.to(TORCH[dtype])


def torch_product(a: torch.Tensor, b: torch.Tensor, out: torch.dtype) -> torch.Tensor:
    """The same product by cuBLAS."""
    if a.dtype is torch.int8:
        return torch._int_mm(a, b.T)  # pyright: ignore[reportPrivateUsage]
    if out is a.dtype:
        return torch.mm(a, b.T)
    return torch.mm(a, b.T, out_dtype=out)


def check(kernel: Kernel) -> list[str]:
    """What is wrong: inexact on integers, writes beyond the end, or an error over twice torch's."""
    problems: list[str] = []
    dtype, out = dtype_of(kernel), TORCH[kernel.artifact.outputs[0].dtype]
    for wanted in EXACT_SHAPES:
        m, n, k = shape = fitted(kernel, wanted)
        a, b = operands(shape, dtype, integers=True)
        guarded = torch.full((m + 1, n), -77, dtype=out, device=DEVICE)
        kernel(a, b, out=guarded[:m])
        exact = (a.double() @ b.double().T).to(out)
        if not torch.equal(guarded[:m], exact):
            problems.append(f"{m}x{n}x{k}: {(guarded[:m] != exact).sum().item()} elements differ")
        if not bool((guarded[m] == -77).all()):
            problems.append(f"{m}x{n}x{k}: wrote beyond the end")
    shape = fitted(kernel, ERROR_SHAPE)
    a, b = operands(shape, dtype, integers=False)
    exact = a.double() @ b.double().T

    def error(result: torch.Tensor) -> float:
        return ((result.double() - exact).norm() / exact.norm()).item()

    ours, theirs = error(kernel(a, b)), error(torch_product(a, b, out))
    if ours > 2 * theirs:
        problems.append(f"error {ours:.2e}, torch {theirs:.2e}")
    return problems


def milliseconds(run: Callable[[], object], repeats: int, flush: torch.Tensor) -> tuple[float, float]:
    """Median time of one call, flushed and hot."""
    for _ in range(3):
        run()
    pairs: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
    for _ in range(repeats):
        flush.zero_()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    flushed = statistics.median(start.elapsed_time(end) for start, end in pairs)
    hot: list[float] = []
    for _ in range(3):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(repeats):
            run()
        end.record()
        torch.cuda.synchronize()
        hot.append(start.elapsed_time(end) / repeats)
    return flushed, statistics.median(hot)


def measure(kernels: dict[str, Kernel], dtype: str) -> list[dict[str, Any]]:
    """TFLOP/s (for integers Tera-operations/s) of every kernel and of cuBLAS, shape by shape."""
    flush = torch.empty(256 << 20, dtype=torch.uint8, device=DEVICE)
    rows: list[dict[str, Any]] = []
    for wanted in SHAPES:
        m, n, k = shape = fitted(next(iter(kernels.values())), wanted)
        a, b = operands(shape, dtype, integers=False)
        for name, call in contestants(kernels, dtype, a, b).items():
            times = milliseconds(call, 10 if m * n * k > 10**11 else 20, flush)
            flushed, hot = (2e-9 * m * n * k / time_ms for time_ms in times)
            rows.append({"dtype": dtype, "shape": shape, "kernel": name, "flushed": flushed, "hot": hot})
            print(
                f"{dtype:5s} {m}x{n}x{k}  {name:28s} {flushed:7.1f} flushed {hot:7.1f} hot TFLOP/s",
                flush=True,
            )
    return rows


def contestants(
    kernels: dict[str, Kernel], dtype: str, a: torch.Tensor, b: torch.Tensor
) -> dict[str, Callable[[], object]]:
    """A call of cuBLAS per output type, and of every kernel, by name."""
    outs = {kernel.artifact.outputs[0].dtype for kernel in kernels.values()}
    outs |= {dtype} & {"f16", "bf16"}
    calls: dict[str, Callable[[], object]] = {}
    for out in sorted(outs):
        calls[f"cuBLAS -> {out}"] = lambda out=out: torch_product(a, b, TORCH[out])
    for name, kernel in kernels.items():
        out = TORCH[kernel.artifact.outputs[0].dtype]
        c = torch.empty((a.shape[0], b.shape[0]), dtype=out, device=DEVICE)
        calls[name] = lambda kernel=kernel, c=c: kernel.raw(a, b, c)
    return calls


def overhead(kernel: Kernel) -> dict[str, Any]:
    """Microseconds that one call keeps the Python thread busy, on a product too small to matter."""
    m, n, k = fitted(kernel, (128, 128, 64))
    a, b = operands((m, n, k), dtype_of(kernel), integers=True)
    c = kernel(a, b)
    calls: dict[str, Callable[[], object]] = {
        "raw": lambda: kernel.raw(a, b, c),
        "call with out": lambda: kernel(a, b, out=c),
        "call": lambda: kernel(a, b),
        "torch.mm": lambda: torch_product(a, b, c.dtype),
    }
    row: dict[str, Any] = {"overhead": "microseconds per call"}
    for name, call in calls.items():
        best = float("inf")
        for _ in range(5):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(300):
                call()
            best = min(best, time.perf_counter() - start)
            torch.cuda.synchronize()
        row[name] = best / 300 * 1e6
    print(row, flush=True)
    return row


if __name__ == "__main__":
    main()

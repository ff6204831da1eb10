"""GEMM specs in, kernels out; kernels and an NVIDIA GPU in, checks and times beside torch out.

Needs the compiler to build, and torch and `wavespec.runtime` to run, maybe on another machine:

    python benchmarks/gemm_h200.py build FOLDER [SPEC ...]
    python benchmarks/gemm_h200.py run FOLDER [--only TEXT] [--size MxNxK ...] [--tf32] [--check-only] [--hot]

Kernels compute C[M, N] = f(A[M, K] · B[N, K]ᵀ), or as many of them as a batch has.  All contestants of a shape run in
turns, one call each, on fresh random data, with 256 MiB written between calls so that operands come from memory ("hot":
not written); figures are medians.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional

from wavespec.runtime import Kernel, unpack_artifact

DEVICE = "cuda"
SHAPES = (
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (4096, 14336, 4096),
    (8192, 1024, 8192),
    (8192, 8192, 1024),
    (16, 8192, 8192),
    (4000, 4104, 1000),
)
SMALL_GRIDS = (
    (16, 1280, 8192),
    (16, 2048, 4096),
    (64, 1280, 8192),
    (64, 4096, 4096),
    (128, 1024, 8192),
    (256, 1024, 8192),
    (512, 512, 16384),
    (512, 1024, 4096),
    (1024, 1024, 1024),
    (1024, 1024, 4096),
)
"""Fewer large tiles than the machine has processors."""
LAYERS = tuple(
    (m, n, k)
    for n, k in (
        (6144, 4096),
        (28672, 4096),
        (4096, 14336),
        (10240, 8192),
        (8192, 28672),
        (2112, 7168),
        (24576, 1536),
        (7168, 16384),
        (3584, 3584),
    )
    for m in (1, 16, 64, 256, 1024, 4096, 8192)
)
"""63 products of layers of language models of 8 and 70 billion parameters, of DeepSeek's, and of a square one."""
MODELS = tuple(
    (m, n, k)
    for n, k in (
        (3584, 18944),
        (18944, 3584),
        (4608, 4608),
        (1536, 8960),
        (8960, 1536),
        (7168, 2048),
        (3072, 8192),
        (512, 4096),
        (4096, 512),
        (768, 3072),
    )
    for m in (20, 40, 96, 150, 300, 450, 640, 900, 1300, 1800, 3000)
)
"""110 products of models that no tile was chosen for."""
BATCHES = ((64, 512, 512, 512), (128, 128, 128, 4096), (32, 2048, 2048, 128), (512, 64, 64, 64))
EXACT_SHAPES = (
    (64, 64, 0),
    (4000, 4104, 1000),
    (512, 768, 1024),
    (130, 264, 80),
    (1, 8, 16),
    (16, 1024, 2048),
    (257, 520, 4096),
    (1000, 1000, 2120),
)
ERROR_SHAPE = (1024, 1024, 4096)
TORCH = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "i8": torch.int8,
    "i32": torch.int32,
    "f8e4m3fn": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
}
_HEAD_START = 4  # of the CPU over the GPU in a round, in writes of 256 MiB
Call = Callable[[], Any]
Row = dict[str, Any]
Shape = tuple[int, ...]


def main() -> None:
    """Build kernels, or check and time those of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile specs for sm_90")
    building.add_argument("folder", type=Path)
    building.add_argument("specs", type=Path, nargs="*", default=sorted(Path("specs").glob("*.wave.yaml")))
    running = commands.add_parser("run", help="check and time kernels on this machine's GPU")
    running.add_argument("folder", type=Path)
    running.add_argument("--only", default="", help="kernels whose file name contains this")
    running.add_argument("--size", type=size, nargs="*", help="shapes to time, as MxNxK, in a batch BxMxNxK")
    running.add_argument("--small-grids", action="store_const", const=SMALL_GRIDS, dest="size", help="time these")
    running.add_argument("--layers", action="store_const", const=LAYERS, dest="size", help="time these")
    running.add_argument("--models", action="store_const", const=MODELS, dest="size", help="time these")
    running.add_argument("--tf32", action="store_true", help="let torch multiply f32 as TF32")
    running.add_argument("--check-only", action="store_true")
    running.add_argument("--hot", action="store_true", help="leave operands in the caches")
    running.add_argument("--seconds", type=float, default=1.0, help="for each shape and contestant")
    running.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    if arguments.command == "build":
        build_all(arguments.folder, arguments.specs)
    else:
        run(arguments)


def build_all(folder: Path, specs: Sequence[Path]) -> None:
    """Compile every spec that is no template into ``folder``, one file for each kernel."""
    from wavespec.generate import kernels_in, load_spec
    from wavespec.pipeline import build
    from wavespec.runtime import pack_artifact
    from wavespec.schema.families.load_family import is_template_file

    folder.mkdir(parents=True, exist_ok=True)
    for path in specs:
        if is_template_file(path):
            continue
        for kernel in kernels_in(load_spec(path)):
            target = folder / f"{kernel.name}.wavespec"
            target.write_bytes(pack_artifact(build(kernel.spec, "sm_90")))
            print(target, flush=True)


def run(arguments: argparse.Namespace) -> None:
    """Check, then time, every kernel of the folder whose name contains ``--only``."""
    torch.backends.cuda.matmul.allow_tf32 = arguments.tf32
    print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, torch {torch.__version__}", flush=True)
    kernels: dict[str, Kernel] = {}
    for path in sorted(arguments.folder.glob("*.wavespec")):
        if arguments.only in path.stem:
            kernels[path.stem] = Kernel(unpack_artifact(path.read_bytes()))
    rows: list[Row] = []
    for name, kernel in kernels.items():
        problems = check(kernel)
        rows.append({"kernel": name, "problems": problems})
        print(f"{name:28s} {'; '.join(problems) or 'exact on integers, error within twice torch'}", flush=True)
    if not arguments.check_only:
        for kind in sorted({kind_of(kernel) for kernel in kernels.values()}):
            of_kind = {name: kernel for name, kernel in kernels.items() if kind_of(kernel) == kind}
            first = next(iter(of_kind.values()))
            shapes = arguments.size or (BATCHES if is_batched(first) else SHAPES)
            rows += measure(of_kind, arguments.seconds, arguments.hot, shapes)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


def size(text: str) -> Shape:
    """The shape written ``MxNxK`` or ``BxMxNxK``."""
    return tuple(map(int, text.split("x")))


def named(shape: Shape) -> str:
    return "x".join(map(str, shape))


def kind_of(kernel: Kernel) -> tuple[str, ...]:
    """What it computes on: kernels of one kind compete.  Element type of the operands, then names of the inputs."""
    return (kernel.artifact.inputs[0].dtype, *(tensor.name for tensor in kernel.artifact.inputs))


def is_batched(kernel: Kernel) -> bool:
    return any(dim.name == "B" for dim in kernel.artifact.dims)


def fitted(kernel: Kernel, shape: Shape) -> Shape:
    """The shape, rounded up to what the kernel's spec promises; of a batch of 3 where it says nothing of batches."""
    if is_batched(kernel) and len(shape) == 3:
        shape = (3, *shape)
    multiples = {dim.name: dim.multiple_of for dim in kernel.artifact.dims}
    return tuple(
        -(-size // multiples[name]) * multiples[name] for name, size in zip(dims_of(shape), shape, strict=True)
    )


def dims_of(shape: Shape) -> str:
    return "BMNK"[-len(shape) :]


def inputs_of(kernel: Kernel, shape: Shape, *, integers: bool) -> list[torch.Tensor]:
    """Random inputs: small integers, whose products add up exactly, or normal numbers."""
    sizes = dict(zip(dims_of(shape), shape, strict=True))
    made: list[torch.Tensor] = []
    for tensor in kernel.artifact.inputs:
        extents = [sizes[str(dim)] for dim in tensor.dims]
        if integers or tensor.dtype == "i8":
            limit = 3 if integers else 100
            values = torch.randint(-limit, limit + 1, extents, device=DEVICE)
        else:
            values = torch.randn(extents, device=DEVICE)
        made.append(values.to(TORCH[tensor.dtype]))
    return made


def as_rows(kernel: Kernel, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Views of the operands as A[..., M, K] and B[..., N, K], however the kernel takes them."""
    parameters = kernel.artifact.inputs
    return [t.mT if p.dims[-2:][0] == "K" else t for p, t in zip(parameters, inputs, strict=True)]


def exact_result(kernel: Kernel, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """The result in f64."""
    a, b, *rest = (tensor.double() for tensor in as_rows(kernel, inputs))
    product = a @ b.mT
    match kind_of(kernel)[3:]:
        case ():
            return product
        case ("bias",):
            return functional.gelu(product + rest[0])
        case ("residual",):
            return product / 2 + rest[0]
        case names:
            raise SystemExit(f"{kernel.artifact.name}: no reference for inputs {names}")


def linear_gelu(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """What torch users write for it."""
    return functional.gelu(functional.linear(a, b, bias))


def linear_residual(a: torch.Tensor, b: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """What torch users write for it."""
    return torch.addmm(residual, a, b.T, alpha=0.5)


def by_torch(kernel: Kernel, inputs: Sequence[torch.Tensor]) -> dict[str, Call]:
    """The same computation by torch, in every way worth a comparison."""
    out = TORCH[kernel.artifact.outputs[0].dtype]
    a, b, *rest = as_rows(kernel, inputs)
    if rest:
        (other,) = rest
        layer = {"bias": linear_gelu, "residual": linear_residual}[kind_of(kernel)[3]]
        compiled: Any = torch.compile(layer)  # pyright: ignore[reportUnknownMemberType]
        return {"torch.compile": lambda: compiled(a, b, other), "torch eager": lambda: layer(a, b, other)}
    if a.dtype is torch.int8:
        return {"torch._int_mm": lambda: torch._int_mm(a, b.T)}  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
    if a.element_size() == 1:
        one = torch.ones((), device=DEVICE)
        scaled: Any = torch._scaled_mm  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
        return {
            "_scaled_mm": lambda: scaled(a, b.T, one, one, out_dtype=out),
            "_scaled_mm fast": lambda: scaled(a, b.T, one, one, out_dtype=out, use_fast_accum=True),
        }
    if out is a.dtype and a.ndim == 3:
        c = torch.empty((*a.shape[:2], b.shape[1]), dtype=out, device=DEVICE)
        return {"torch.bmm": lambda: torch.bmm(a, b.mT, out=c)}
    if out is a.dtype:
        c = torch.empty((a.shape[0], b.shape[0]), dtype=out, device=DEVICE)
        return {"torch.mm": lambda: torch.mm(a, b.T, out=c)}
    return {"torch.mm": lambda: torch.mm(a, b.T, out_dtype=out)}


def check(kernel: Kernel) -> list[str]:
    """What is wrong: inexact on integers, writes beyond the end, or an error over twice torch's."""
    problems: list[str] = []
    out = TORCH[kernel.artifact.outputs[0].dtype]
    plain = len(kernel.artifact.inputs) == 2
    for wanted in EXACT_SHAPES:
        shape = fitted(kernel, wanted)
        *rows, n, _ = shape
        inputs = inputs_of(kernel, shape, integers=True)
        guarded = torch.full((math.prod(rows) + 1, n), -77, dtype=out, device=DEVICE)
        result = guarded[:-1].view(*rows, n)
        kernel(*inputs, out=result)
        exact = exact_result(kernel, inputs)
        same = result == exact.to(out) if plain else (result - exact).abs() <= 0.02 * exact.abs() + 1e-2
        if not bool(same.all()):
            problems.append(f"{named(shape)}: {(~same).sum().item()} elements differ")
        if not bool((guarded[-1] == -77).all()):
            problems.append(f"{named(shape)}: wrote beyond the end")
    inputs = inputs_of(kernel, fitted(kernel, ERROR_SHAPE), integers=False)
    exact = exact_result(kernel, inputs)

    def error(result: torch.Tensor) -> float:
        difference: Any = result.double() - exact
        return float((difference.square().mean() / exact.square().mean()).sqrt())

    ours, theirs = error(kernel(*inputs)), error(list(by_torch(kernel, inputs).values())[-1]())
    print(f"{kernel.artifact.name:28s} error {ours:.2e}, torch {theirs:.2e}")
    if ours > 2 * theirs:
        problems.append("more than twice the error of torch")
    return problems


def measure(kernels: dict[str, Kernel], seconds: float, hot: bool, shapes: Sequence[Shape]) -> list[Row]:
    """TFLOP/s (for integers Tera-operations/s) of every kernel and of torch, shape by shape."""
    flush = torch.empty(256 << 20, dtype=torch.uint8, device=DEVICE)
    first = next(iter(kernels.values()))
    rows: list[Row] = []
    ratios: dict[str, list[float]] = {name: [] for name in kernels}
    for wanted in shapes:
        shape = fitted(first, wanted)
        inputs = inputs_of(first, shape, integers=False)
        calls = by_torch(first, inputs)
        theirs = list(calls)
        for name, kernel in kernels.items():
            c = torch.empty(shape[:-1], dtype=TORCH[kernel.artifact.outputs[0].dtype], device=DEVICE)
            calls[name] = lambda kernel=kernel, inputs=inputs, c=c: kernel.raw(*inputs, c)
        times = in_turns(calls, seconds * len(calls), None if hot else flush.zero_)
        best = min(times[name] for name in theirs)
        for name, milliseconds in times.items():
            speed, ratio = 2e-9 * math.prod(shape) / milliseconds, best / milliseconds
            if name in ratios:
                ratios[name].append(ratio)
            rows.append({"kind": kind_of(first), "shape": shape, "contestant": name, "tflops": speed, "ratio": ratio})
            print(
                f"{named(shape)}  {name:28s} {milliseconds * 1e3:9.1f} us {speed:7.1f} TFLOP/s {ratio:6.3f}", flush=True
            )
    for name, found in ratios.items():
        mean = math.exp(statistics.mean(map(math.log, found)))
        rows.append({"kind": kind_of(first), "contestant": name, "geomean": mean, "least": min(found)})
        print(f"{name:28s} geomean {mean:.3f} of the best of torch, least {min(found):.3f}", flush=True)
    return rows


def in_turns(calls: dict[str, Call], seconds: float, flush: Call | None) -> dict[str, float]:
    """Median milliseconds of one call of each, all called in turns behind ``flush``."""
    for call in calls.values():
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    pairs: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in calls}
    end_at = time.perf_counter() + seconds
    busy = torch.empty(256 << 20, dtype=torch.uint8, device=DEVICE)
    while time.perf_counter() < end_at or len(next(iter(pairs.values()))) < 5:
        for _ in range(_HEAD_START + len(calls)):  # or the first call would be timed from before it is launched
            busy.zero_()
        for name, call in calls.items():
            if flush is not None:
                flush()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            call()
            end.record()
            pairs[name].append((start, end))
        torch.cuda.synchronize()
    return {name: statistics.median(s.elapsed_time(e) for s, e in found) for name, found in pairs.items()}


if __name__ == "__main__":
    main()

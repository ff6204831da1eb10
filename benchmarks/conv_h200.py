"""A spec of convolutions goes in, kernels come out; kernels and an NVIDIA GPU go in, checks and times beside cuDNN come
out.

Needs the compiler to build, and torch and `wavespec.runtime` to run, maybe on another machine:

    python benchmarks/conv_h200.py build FOLDER [--kernel conv2d_nchw] [--layer ...]
    python benchmarks/conv_h200.py run FOLDER [--kernel conv2d_nchw] [--rounds COUNT]
        [--layer N,H,W,C,O,R,S,STRIDE,PADDING,DILATION,GROUPS ...] [--plans]

A kernel is `conv2d_nhwc`, `conv2d_nchw` or `conv2d_grouped`, in bf16, or, with `_f32` behind it, in f32.  Images and
filters are in torch.channels_last but for NCHW.  Stride, padding and dilation are compiled in, all other sizes are
those of the call.  The peer is `torch.nn.functional.conv2d` with `cudnn.benchmark`, in f32 without TF32, unless
`--tf32` allows it.  Both run in turns, with 256 MiB written between calls so that operands come from memory; figures
are medians.  Results are compared on whole numbers, where they have to be equal.  With `--plans` all cases run that a
layer fits, whatever they take by the spec: which one is taken, and which one is the fastest.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as functional
from torch import Tensor

from wavespec.runtime import Kernel, unpack_artifact
from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.size_expr import evaluate

DEVICE = "cuda"
_HEAD_START = 6  # of the CPU over the GPU in a round, in writes of 256 MiB
_CALLS = 5  # of each contestant in a round
Call = Callable[[], Any]


class Layer(NamedTuple):
    """Sizes of the images and filters, and how windows move."""

    n: int
    h: int
    w: int
    c: int
    o: int
    r: int = 3
    s: int = 3
    stride: int = 1
    padding: int = 1
    dilation: int = 1
    groups: int = 1

    @property
    def windows(self) -> tuple[int, int, int]:
        return self.stride, self.padding, self.dilation

    def __str__(self) -> str:
        more = f" / {self.stride}" if self.stride > 1 else ""
        more += f" dilated {self.dilation}" if self.dilation > 1 else ""
        more += f" in {self.groups} groups" if self.groups > 1 else ""
        return f"{self.n} x {self.h} x {self.w} x {self.c} -> {self.o}, {self.r} x {self.s}{more}"


def _pointwise(n: int, size: int, c: int, o: int, stride: int = 1) -> Layer:
    return Layer(n, size, size, c, o, 1, 1, stride, 0)


RESNET_50 = (
    Layer(32, 56, 56, 64, 64),
    Layer(32, 28, 28, 128, 128),
    Layer(32, 14, 14, 256, 256),
    Layer(32, 7, 7, 512, 512),
    Layer(32, 56, 56, 128, 128, stride=2),
    Layer(32, 28, 28, 256, 256, stride=2),
    Layer(32, 14, 14, 512, 512, stride=2),
    _pointwise(32, 56, 64, 64),
    _pointwise(32, 56, 64, 256),
    _pointwise(32, 56, 256, 64),
    _pointwise(32, 56, 256, 128),
    _pointwise(32, 28, 128, 512),
    _pointwise(32, 28, 512, 128),
    _pointwise(32, 28, 512, 256),
    _pointwise(32, 14, 256, 1024),
    _pointwise(32, 14, 1024, 256),
    _pointwise(32, 14, 1024, 512),
    _pointwise(32, 7, 512, 2048),
    _pointwise(32, 7, 2048, 512),
    _pointwise(32, 56, 256, 512, 2),
    _pointwise(32, 28, 512, 1024, 2),
    _pointwise(32, 14, 1024, 2048, 2),
)
DIFFUSION = (
    Layer(8, 64, 64, 320, 320),
    Layer(8, 64, 64, 320, 320, stride=2),
    Layer(8, 32, 32, 640, 640),
    Layer(8, 16, 16, 1280, 1280),
    Layer(8, 8, 8, 1280, 1280),
    Layer(8, 32, 32, 1280, 640),
    _pointwise(8, 64, 640, 320),
    _pointwise(8, 32, 960, 640),
    Layer(1, 128, 128, 512, 512),
    Layer(1, 256, 256, 256, 256),
    Layer(1, 512, 512, 128, 128),
)
GROUPED = tuple(
    Layer(32, size, size, c, c, groups=groups)
    for size, c, groups in (
        (56, 128, 32),
        (28, 256, 32),
        (14, 512, 32),
        (7, 1024, 32),
        (56, 256, 32),
        (14, 512, 8),
        (56, 64, 8),
        (28, 160, 10),
        (14, 400, 25),
    )
)
"""ResNeXt and RegNet."""
SMALL = (
    Layer(3, 13, 11, 128, 136),
    Layer(2, 30, 29, 64, 192),
    Layer(1, 17, 19, 96, 40),
    Layer(2, 9, 9, 48, 24),
    Layer(2, 11, 30, 40, 72),
    Layer(5, 7, 9, 64, 72, 1, 1, padding=0),
    Layer(3, 31, 27, 64, 64, stride=2),
    Layer(5, 9, 7, 64, 136, 1, 1, stride=2, padding=0),
    Layer(2, 40, 21, 128, 64, padding=2, dilation=2),
    Layer(2, 15, 22, 64, 40, 5, 5, padding=2),
)
"""What is right before anything is timed: odd sizes, and all ways of moving."""
SMALL_GROUPED = (
    Layer(3, 13, 11, 128, 64, groups=32),
    Layer(2, 30, 29, 128, 128, groups=2),
    Layer(2, 9, 9, 48, 24, groups=6),
    Layer(5, 7, 9, 64, 128, 1, 1, padding=0, groups=16),
    Layer(3, 31, 27, 256, 256, stride=2, groups=16),
    Layer(2, 40, 21, 128, 64, padding=2, dilation=2, groups=4),
)


class Kind(NamedTuple):
    """A kernel of the specs: what its tensors are."""

    name: str

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.name.endswith("_f32") else torch.bfloat16

    @property
    def is_channels_last(self) -> bool:
        return "nchw" not in self.name

    @property
    def layers(self) -> tuple[Layer, ...]:
        return GROUPED if "grouped" in self.name else (*RESNET_50, *DIFFUSION)

    @property
    def small(self) -> tuple[Layer, ...]:
        return SMALL_GROUPED if "grouped" in self.name else SMALL

    def file(self, folder: Path, windows: tuple[int, int, int]) -> Path:
        return folder / f"{self.name}_{'_'.join(map(str, windows))}.wavespec"


def main() -> None:
    """Build kernels, or check and time those of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile the spec for sm_90, once for each way of moving")
    running = commands.add_parser("run", help="check and time kernels on this machine's GPU")
    for command in (building, running):
        command.add_argument("folder", type=Path)
        command.add_argument("--kernel", type=Kind, default=Kind("conv2d_nhwc"))
        command.add_argument("--layer", type=_layer, nargs="*")
    running.add_argument("--rounds", type=int, default=5)
    running.add_argument("--plans", action="store_true", help="time every case that a layer fits, of conv2d_nhwc")
    running.add_argument("--tf32", action="store_true", help="let cuDNN round factors of f32 to TF32")
    arguments = parser.parse_args()
    kind, layers = arguments.kernel, arguments.layer or arguments.kernel.layers
    if arguments.command == "build":
        build_all(arguments.folder, kind, (*layers, *kind.small))
    else:
        torch.backends.cudnn.allow_tf32 = arguments.tf32
        if arguments.plans:
            compare_plans(arguments.folder, kind, layers, arguments.rounds)
        else:
            run(arguments.folder, kind, layers, arguments.rounds)


def _layer(text: str) -> Layer:
    return Layer(*map(int, text.split(",")))


def build_all(folder: Path, kind: Kind, layers: Sequence[Layer]) -> None:
    """Compile a kernel for every stride, padding and dilation of the layers into ``folder``, one file each."""
    from wavespec.pipeline import build
    from wavespec.runtime import pack_artifact
    from wavespec.schema import load
    from wavespec.schema.language.expressions import Num

    folder.mkdir(parents=True, exist_ok=True)
    spec = load(Path(f"specs/{kind.name}.wave.yaml"))
    for windows in dict.fromkeys(layer.windows for layer in layers):
        params = dict(zip(("STRIDE", "PAD", "DILATION"), map(Num, windows), strict=True))
        path = kind.file(folder, windows)
        path.write_bytes(pack_artifact(build(spec.model_copy(update={"params": {**spec.params, **params}}), "sm_90")))
        print(path, flush=True)


def run(folder: Path, kind: Kind, layers: Sequence[Layer], rounds: int) -> None:
    """Print what is wrong, and a row for each layer."""
    torch.backends.cudnn.benchmark = True
    version = torch.backends.cudnn.version()
    print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, torch {torch.__version__}, cuDNN {version}\n")
    ways = dict.fromkeys(layer.windows for layer in (*layers, *kind.small))
    files = {way: kind.file(folder, way) for way in ways}
    kernels = {way: Kernel(unpack_artifact(file.read_bytes())) for way, file in files.items() if file.exists()}
    small = [layer for layer in kind.small if layer.windows in kernels]
    wrong = [str(layer) for layer in small if not is_exact(kernels[layer.windows], kind, layer)]
    print(f"{len(small)} small layers on whole numbers: {'WRONG: ' + '; '.join(wrong) if wrong else 'exact'}\n")
    print(f"| {kind.name} | cuDNN µs | µs | TFLOP/s | of cuDNN |\n|---|---:|---:|---:|---:|")
    ratios = [row(kernels[layer.windows], kind, layer, rounds) for layer in layers]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"\nGeometric mean {mean:.2f} of cuDNN; least {min(ratios):.2f}.")


def compare_plans(folder: Path, kind: Kind, layers: Sequence[Layer], rounds: int) -> None:
    """Print of each layer what the case that is taken takes, and the fastest ones by their numbers."""
    over: list[float] = []
    for layer in layers:
        artifact = unpack_artifact(kind.file(folder, layer.windows).read_bytes())
        sizes = _sizes(layer)
        fitting = [index for index in range(len(artifact.cases)) if _fits(artifact, index, sizes)]
        taken = next(index for index in fitting if _fits(artifact, index, sizes, as_chosen=True))
        x, w = inputs_of(kind, layer, integers=False)
        y = torch.empty_like(by_torch(x, w, kind, layer), memory_format=torch.contiguous_format)
        kernels = [Kernel(artifact.cases[index].kernel) for index in fitting]
        times = in_turns([partial(kernel.raw, x, w, y) for kernel in kernels], rounds)
        found = dict(zip(fitting, times, strict=True))
        best = sorted(found, key=lambda index: found[index])[:4]
        over.append(found[taken] / found[best[0]])
        shown = ", ".join(f"{index}: {found[index]:.1f}" for index in best)
        print(f"| {layer} | {taken}: {found[taken]:.1f} | {shown} | {over[-1]:.3f} |", flush=True)
    mean = math.exp(statistics.fmean(map(math.log, over)))
    print(f"\nGeometric mean {mean:.3f} of the fastest, at most {max(over):.2f}.")


def _sizes(layer: Layer) -> dict[str, int]:
    """All dims of `conv2d_nhwc`, as without room beside pixels."""
    reach = layer.dilation * (layer.r - 1) + 1
    height, width = ((size + 2 * layer.padding - reach) // layer.stride + 1 for size in (layer.h, layer.w))
    depth = layer.r * layer.s * layer.c
    own = {"OH": height, "OW": width, "P": width, "L": layer.c, "M": layer.n * height * width, "K": depth}
    return {**dict(zip("NHWCORS", layer[:7], strict=True)), **own}


def _fits(artifact: KernelArtifact, index: int, sizes: dict[str, int], *, as_chosen: bool = False) -> bool:
    """Whether a case is for these sizes; ``as_chosen``: and the choice that it is one of takes it."""
    asked = [one for one in artifact.cases[index].conditions if as_chosen or not one.text.endswith("is the least")]
    return all(evaluate(one.condition, sizes) for one in asked)


def inputs_of(kind: Kind, layer: Layer, *, integers: bool) -> tuple[Tensor, Tensor]:
    """Images and filters as the kernel takes them."""
    channels = layer.c // layer.groups
    shapes = (layer.n, layer.c, layer.h, layer.w), (layer.o, channels, layer.r, layer.s)
    if kind.is_channels_last:
        shapes = (layer.n, layer.h, layer.w, layer.c), (layer.o, layer.r, layer.s, channels)
    if integers:
        x, w = (torch.randint(-3, 4, shape, device=DEVICE) for shape in shapes)
    else:
        x, w = (torch.randn(shape, device=DEVICE) for shape in shapes)
    return x.to(kind.dtype), w.to(kind.dtype)


def by_torch(x: Tensor, w: Tensor, kind: Kind, layer: Layer) -> Tensor:
    """The same by torch; permuted tensors are channels_last without a copy."""
    if not kind.is_channels_last:
        return functional.conv2d(x, w, None, *layer.windows, layer.groups)
    images, filters = x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2)
    return functional.conv2d(images, filters, None, *layer.windows, layer.groups).permute(0, 2, 3, 1)


def is_exact(kernel: Kernel, kind: Kind, layer: Layer) -> bool:
    """Whether whole numbers come out as in f64, with nothing written beyond the end."""
    x, w = inputs_of(kind, layer, integers=True)
    exact = by_torch(x.cpu().double(), w.cpu().double(), kind, layer).to(kind.dtype).to(DEVICE)
    guarded = torch.full((exact.numel() + 4096,), -77, dtype=kind.dtype, device=DEVICE)
    y = guarded[: exact.numel()].view(exact.shape)
    kernel.raw(x, w, y)
    return torch.equal(y, exact) and bool((guarded[exact.numel() :] == -77).all())


def row(kernel: Kernel, kind: Kind, layer: Layer, rounds: int) -> float:
    """Print the figures of a layer, checked on whole numbers against f64; how much faster than cuDNN it is."""
    x, w = inputs_of(kind, layer, integers=True)
    exact = by_torch(x.double(), w.double(), kind, layer).to(kind.dtype)  # cuDNN's by Winograd's products are not
    y = torch.empty_like(exact, memory_format=torch.contiguous_format)
    kernel.raw(x, w, y)
    note = "" if torch.equal(y, exact) else " DIFFERS"
    x, w = inputs_of(kind, layer, integers=False)
    theirs, ours = in_turns((lambda: by_torch(x, w, kind, layer), lambda: kernel.raw(x, w, y)), rounds)
    speed = 2 * y.numel() * layer.r * layer.s * layer.c / layer.groups / ours / 1e6
    print(f"| {layer} | {theirs:.1f} | {ours:.1f} | {speed:.0f} | {theirs / ours:.2f}{note} |", flush=True)
    return theirs / ours


def in_turns(calls: Sequence[Call], rounds: int) -> list[float]:
    """Median microseconds of one call of each, all called in turns."""
    flush = torch.empty(256 << 20, dtype=torch.uint8, device=DEVICE)
    for call in calls:
        for _ in range(3):
            call()
    events: list[list[tuple[torch.cuda.Event, torch.cuda.Event]]] = [[] for _ in calls]
    for _ in range(rounds):
        for _ in range(_HEAD_START):
            flush.zero_()
        for _ in range(_CALLS):
            for call, pairs in zip(calls, events, strict=True):
                flush.zero_()
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record()
                call()
                end.record()
                pairs.append((start, end))
        torch.cuda.synchronize()
    return [statistics.median(1e3 * start.elapsed_time(end) for start, end in pairs) for pairs in events]


if __name__ == "__main__":
    main()

"""The convolutions of ``specs/`` on this CPU in; checked results, and times beside ``torch.nn.functional.conv2d``, out.

    python benchmarks/conv_cpu.py [--seconds 2] [--threads N] [--running] [--kinds KIND ...] [--write [FILE]]

The layers of ResNet-50 for one image and for eight, depth-wise ones of MobileNet, and those of ResNeXt-50 with 32
groups.  Calls take turns in one process, on the same tensors, with another of torch's operators between any two;
results exist before.  Weights are as a module has them: torch puts them in order in every call, and so do these
kernels.  ``--running``: one thread, whose time is counted while it runs, for a machine that others use, too.
``--write``: the table into a file, ``benchmarks/results/conv_cpu.md`` by itself.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional
from cpu_calls import in_turn
from gemm_cpu import ROOT, TORCH, cpu_model, load_average

import wavespec as ws
from wavespec.pipeline import best_variant
from wavespec.schema import loads
from wavespec.schema.language.expressions import Num

LAYERS = (
    (56, 64, 64, 3, 1), (28, 128, 128, 3, 1), (14, 256, 256, 3, 1), (7, 512, 512, 3, 1), (56, 128, 128, 3, 2),
    (56, 64, 256, 1, 1), (56, 256, 64, 1, 1), (28, 512, 128, 1, 1), (14, 1024, 256, 1, 1), (7, 2048, 512, 1, 1),
)  # fmt: skip
"""Height and width, channels in and out, taps in a row, stride."""
DEPTHWISE = (
    (112, 32, 32, 3, 1),
    (56, 128, 128, 3, 1),
    (28, 256, 256, 3, 1),
    (14, 512, 512, 3, 1),
    (7, 1024, 1024, 3, 1),
)
GROUPED = (
    (56, 128, 128, 3, 1),
    (56, 256, 256, 3, 2),
    (28, 256, 256, 3, 1),
    (14, 512, 512, 3, 1),
    (7, 1024, 1024, 3, 1),
)
GROUPS = 32
KINDS = {
    "NHWC": {"bf16": "conv2d_nhwc", "f32": "conv2d_nhwc_f32"},
    "NCHW": {"bf16": "conv2d_nchw", "f32": "conv2d_nchw_f32"},
    "depth-wise, NHWC": {"bf16": "conv2d_depthwise", "f32": "conv2d_depthwise"},
    "32 groups, NHWC": {"bf16": "conv2d_grouped", "f32": "conv2d_grouped_f32"},
}
HEAD = "| layout | dtype | images | filters | us | torch | ratio | us, median | torch | ratio |"


@dataclass(frozen=True, slots=True)
class Layer:
    """One convolution, ours and torch's: functions of nothing that compute the same, and the sizes."""

    kind: str
    dtype: str
    images: str
    filters: str
    ours: Callable[[], Any]
    torchs: Callable[[], Any]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="time per layer")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--write", nargs="?", type=Path, const=ROOT / "benchmarks/results/conv_cpu.md")
    parser.add_argument("--running", action="store_true", help="one thread, while it runs")
    arguments = parser.parse_args()
    torch.set_num_threads(1 if arguments.running else arguments.threads)
    clock = time.thread_time if arguments.running else time.perf_counter
    lines = [
        "# Convolutions on the CPU beside torch", "",
        f"Command: `python benchmarks/conv_cpu.py {shlex.join(sys.argv[1:])}`", "",
        f"{cpu_model()}; {torch.get_num_threads()} threads; torch {torch.__version__}; variant "
        f"{best_variant('cpu').variant}; load average before: {load_average()}.", "",
        "Microseconds of the fastest call and of the median one; `ratio` is torch's time over ours.", "",
        HEAD,
        "|---|---|---|---|" + "---:|" * (HEAD.count("|") - 5),
    ]  # fmt: skip
    print("\n".join(lines), flush=True)
    for layer in layers(arguments.kinds):
        lines.append(row(layer, arguments.seconds, clock))
        print(lines[-1], flush=True)
    if arguments.write:
        arguments.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


def layers(kinds: list[str]) -> Iterator[Layer]:
    """Every layer, for one image and for eight."""
    layers_of = dict(zip(KINDS, (LAYERS, LAYERS, DEPTHWISE, GROUPED), strict=True))
    for kind in kinds:
        for dtype, name in KINDS[kind].items():
            for count in (1, 8):
                for sizes in layers_of[kind]:
                    yield layer_of(kind, dtype, name, count, sizes)


def layer_of(kind: str, dtype: str, name: str, count: int, sizes: tuple[int, int, int, int, int]) -> Layer:
    """A layer with random numbers; the first result of both is compared."""
    size, channels, outputs, taps, stride = sizes
    groups = {"depth-wise, NHWC": channels, "32 groups, NHWC": GROUPS}.get(kind, 1)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, channels, size, size, generator=generator).to(TORCH[dtype])
    shape = (outputs, channels // groups, taps, taps)
    w = (torch.randn(shape, generator=generator) / (shape[1] * taps * taps) ** 0.5).to(TORCH[dtype])
    given = x, w
    if kind != "NCHW":
        x, w = (tensor.to(memory_format=torch.channels_last) for tensor in (x, w))
        given = x.permute(0, 2, 3, 1), w[:, 0] if groups == channels else w.permute(0, 2, 3, 1)
    run = kernel(name, dtype, stride, taps // 2)
    out = run(*given)
    check(out if kind == "NCHW" else out.permute(0, 3, 1, 2), x, w, stride, groups)
    return Layer(
        kind, dtype, f"{count} x {size} x {size} x {channels}", f"{outputs}, {taps} x {taps}, stride {stride}",
        lambda: run(*given, out=out),
        lambda: functional.conv2d(x, w, stride=stride, padding=taps // 2, groups=groups),
    )  # fmt: skip


@cache
def kernel(name: str, dtype: str, stride: int, padding: int) -> Callable[..., torch.Tensor]:
    """The kernel of a spec with these windows, in one element type."""
    text = (ROOT / f"specs/{name}.wave.yaml").read_text(encoding="utf-8").replace("[bf16, f16, f32]", f"[{dtype}]")
    spec = loads(text, f"{name}.wave.yaml", ROOT / "specs")
    params = {**spec.params, "STRIDE": Num(stride), "PAD": Num(padding)}
    return ws.compile(spec.model_copy(update={"params": params}))


def check(out: torch.Tensor, x: torch.Tensor, w: torch.Tensor, stride: int, groups: int) -> None:
    """At most twice the error (root mean square) of torch's own result, beside a few units of the last place."""
    padding = w.shape[-1] // 2
    exact = functional.conv2d(x.double(), w.double(), stride=stride, padding=padding, groups=groups)
    theirs = functional.conv2d(x, w, stride=stride, padding=padding, groups=groups)
    error, allowed = ((one.double() - exact).square().mean().sqrt() for one in (out, theirs))
    assert error <= 2 * allowed, f"error {error}, torch's {allowed}"


def row(layer: Layer, seconds: float, clock: Callable[[], float]) -> str:
    """One row of the table."""
    ours, torchs = in_turn([layer.ours, layer.torchs], seconds, clock)
    cells = [layer.kind, layer.dtype, layer.images, layer.filters]
    for mine, other in ((ours[0], torchs[0]), (ours[len(ours) // 2], torchs[len(torchs) // 2])):
        cells += [f"{mine * 1e6:.0f}", f"{other * 1e6:.0f}", f"{other / mine:.2f}"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()

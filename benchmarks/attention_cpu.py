"""Attention and convolution on this CPU in; checked results and times beside torch out.

    OMP_WAIT_POLICY=passive python benchmarks/attention_cpu.py [--seconds 4] [--write [FILE]] [--only NAME ...]

As in ``gemm_cpu.py``: both run in this process, call by call in turn, on as many threads as torch has and on the same
tensors.  Ours writes into a tensor that exists; torch's functions have no ``out=`` and make their results anew.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from gemm_cpu import ROOT, blas, cpu_model, in_turn, load_average

import wavespec as ws
from wavespec.pipeline import best_variant

HEAD = "| kernel | sizes | wavespec | torch | ratio | wavespec running | torch running | ratio |"
Tensors = Sequence[torch.Tensor]


@dataclass(frozen=True, slots=True)
class Case:
    """One call: of a spec, and of what torch users write.

    ``torchs``: into our layout and type, without a copy where torch's own layout is another.  ``work``: GF.
    """

    spec: str
    sizes: str
    inputs: tuple[torch.Tensor, ...]
    torchs: Callable[[Tensors], torch.Tensor]
    work: float


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="time per case")
    parser.add_argument("--write", nargs="?", const="attention_cpu.md", metavar="FILE", help="in benchmarks/results")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="specs")
    arguments = parser.parse_args()
    lines = [
        "# Attention and convolution on the CPU beside torch", "",
        f"Command: `OMP_WAIT_POLICY=passive python benchmarks/attention_cpu.py {' '.join(sys.argv[1:])}`", "",
        f"{cpu_model()}; {torch.get_num_threads()} threads; torch {torch.__version__} ({blas()}); "
        f"variant {best_variant('cpu').variant}; load average before: {load_average()}.", "",
        "GF/s of both products (attention) or of the multiplications (convolution) at the median and, in brackets, at "
        "the fastest call.  `ratio` is the median over rounds of one call each, in brackets of the fastest calls; "
        "above 1 is faster than torch.  `running`: the same work per second of processor time, times the threads.", "",
        HEAD,
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    print("\n".join(lines), flush=True)
    for case in cases():
        if not arguments.only or case.spec in arguments.only:
            lines.append(row(case, arguments.seconds))
            print(lines[-1], flush=True)
    if arguments.write:
        place = ROOT / "benchmarks/results" / arguments.write
        table = lines.index(HEAD)
        lines[table:table] = [f"![ratio to torch while running]({place.stem}.svg)", ""]
        place.write_text("\n".join(lines) + "\n", encoding="utf-8")


def cases() -> Iterator[Case]:
    for spec, dtype in (("attention_f32", torch.float32), ("attention", torch.bfloat16)):
        for batch, heads, rows, keys, depth in (
            (1, 8, 1024, 1024, 64), (2, 8, 512, 512, 128), (1, 8, 2048, 2048, 64), (4, 8, 197, 197, 64),
        ):  # fmt: skip
            q = torch.randn(batch, heads, rows, depth).to(dtype)
            k, v = (torch.randn(batch, heads, keys, depth).to(dtype) for _ in range(2))
            work = 4 * batch * heads * rows * keys * depth / 1e9
            sizes = f"{batch} x {heads} x {rows} x {keys} x {depth}"
            yield Case(spec, sizes, (q, k, v), lambda t: functional.scaled_dot_product_attention(*t), work)
    for batch, size, channels, filters, window in ((1, 56, 64, 64, 3), (4, 28, 128, 128, 3), (1, 14, 256, 512, 1)):
        x = torch.randn(batch, size, size, channels).bfloat16()
        weight = (torch.randn(filters, window, window, channels) / (window * channels**0.5)).bfloat16()
        work = 2 * batch * (size + 2 - window + 1) ** 2 * window**2 * channels * filters / 1e9
        sizes = f"{batch} x {size} x {size} x {channels}, {filters} x {window} x {window}"
        yield Case("conv2d_nhwc", sizes, (x, weight), channels_last_conv2d, work)


def channels_last_conv2d(tensors: Tensors) -> torch.Tensor:
    """torch's convolution, padded by a pixel, of tensors whose channels are neighbours in memory, as they are here."""
    return functional.conv2d(*(tensor.permute(0, 3, 1, 2) for tensor in tensors), padding=1).permute(0, 2, 3, 1)


def row(case: Case, seconds: float) -> str:
    """One row of the table."""
    kernel = ws.compile(ws.load(ROOT / f"specs/{case.spec}.wave.yaml"))
    out = kernel(*case.inputs)
    assert isinstance(out, torch.Tensor)
    check(case, out)
    ours, torchs = in_turn([lambda: kernel(*case.inputs, out=out), lambda: case.torchs(case.inputs)], seconds)
    (median, most), (torch_median, torch_most) = (times.rate(case.work) for times in (ours, torchs))
    running, torch_running = (times.rate_while_running(case.work) for times in (ours, torchs))
    return (
        f"| {case.spec} | {case.sizes} | {median:.0f} ({most:.0f}) | {torch_median:.0f} ({torch_most:.0f}) "
        f"| {ours.times_faster(torchs):.2f} ({most / torch_most:.2f}) "
        f"| {running:.0f} | {torch_running:.0f} | {running / torch_running:.2f} |"
    )


def check(case: Case, out: torch.Tensor) -> None:
    """At most twice the error (root mean square) of torch in the same types, and no less than rounding the result."""
    exact = case.torchs([tensor.double() for tensor in case.inputs])
    error, torchs, rounding = (
        (result.double() - exact).square().mean().sqrt()
        for result in (out, case.torchs(case.inputs), exact.to(out.dtype))
    )
    assert error <= 2 * max(torchs, rounding), f"{case.spec} {case.sizes}: error {error}, torch {torchs}"


if __name__ == "__main__":
    main()

"""`wavespec run` and `wavespec bench`: a spec and sizes in; is the kernel right, and how fast is it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wavespec.cli import failures
from wavespec.cli.inputs import chosen_sizes, chosen_target, sizes_in_words
from wavespec.cli.progress import progress
from wavespec.diagnostics import WavespecError

if TYPE_CHECKING:
    from wavespec.runtime.kernel import Kernel
    from wavespec.schema import KernelSpec

Spec = Annotated[Path, typer.Argument(metavar="SPEC", help="The spec.")]
Dims = Annotated[
    list[str] | None,
    typer.Option(
        "--dim", metavar="NAME=SIZE", help="Size of a dim (repeatable).  [default: the workloads of the spec]"
    ),
]
Target = Annotated[str, typer.Option(help="The machine.")]
Seed = Annotated[int, typer.Option(help="Seed of the random inputs.")]
Repeats = Annotated[int, typer.Option(min=1, max=100_000, help="Calls to take the median of.")]
Json = Annotated[bool, typer.Option("--json", help="Write the result as JSON to stdout.")]


class NoDevice(WavespecError, code="no-device"):
    """The machine that a kernel was asked to run on is not here."""

    def __init__(self, target: str, hint: str = "'wavespec build' compiles for it without the device.") -> None:
        super().__init__("--target", f"torch sees no device that runs {target}.", hints=[hint])


def run(
    spec: Spec,
    dim: Dims = None,
    target: Target = "cpu",
    seed: Seed = 0,
    repeats: Repeats = 10,
    json: Json = False,
) -> None:
    """Build a spec, run it on random tensors, and compare the result with the reference."""
    failures.MODE.json = json
    kernel_spec, runs = _asked(spec, dim, target)
    kernel, device = _built(kernel_spec, target)
    rows: list[dict[str, Any]] = []
    for sizes in runs:
        with progress(f"running {kernel_spec.name} with {sizes_in_words(sizes)}"):
            row = _measured(kernel_spec, kernel, sizes, seed, repeats, device, with_torch=False)
        rows.append(row)
        if not json:
            _print_run(kernel_spec.name, target, row)
    _finish(kernel_spec, target, rows, json)


def bench(
    spec: Spec,
    dim: Dims = None,
    target: Target = "cpu",
    seed: Seed = 0,
    repeats: Repeats = 30,
    json: Json = False,
) -> None:
    """Time a spec beside torch computing the same in the same process."""
    failures.MODE.json = json
    kernel_spec, runs = _asked(spec, dim, target)
    kernel, device = _built(kernel_spec, target)
    width = max(len(sizes_in_words(sizes)) for sizes in runs)
    if not json:
        print(f"{'sizes':<{width}}  {'wavespec':>22}  {'torch':>22}  {'speed-up':>8}  {'error':>6}")
    rows: list[dict[str, Any]] = []
    for sizes in runs:
        with progress(f"timing {kernel_spec.name} with {sizes_in_words(sizes)}"):
            row = _measured(kernel_spec, kernel, sizes, seed, repeats, device, with_torch=True)
        rows.append(row)
        if not json:
            mine, torchs = (_speed(row[f"{who}seconds"], row[f"{who}gflops"]) for who in ("", "torch_"))
            ratio = "wrong" if not row["ok"] else f"{row['error_ratio']:.2f}"
            print(f"{sizes_in_words(sizes):<{width}}  {mine:>22}  {torchs:>22}  {row['speed_up']:>7.2f}x  {ratio:>6}")
    _finish(kernel_spec, target, rows, json)


def _asked(path: Path, dims: list[str] | None, target: str) -> tuple[KernelSpec, tuple[dict[str, int], ...]]:
    """The spec and the sizes of every run; wrong options are found before anything is built."""
    from wavespec.schema import load

    chosen_target(target)
    spec = load(path)
    return spec, chosen_sizes(spec, dims or [])


def _built(spec: KernelSpec, target: str) -> tuple[Kernel, str]:
    """The kernel, and the torch device it runs on."""
    with progress(f"building {spec.name} for {target}"):
        import torch

        from wavespec.pipeline import compile

        kernel = compile(spec, target)
    device = "cpu" if kernel.artifact.backend == "cpu" else "cuda"
    has_vendor = bool(torch.version.hip) == (kernel.artifact.backend == "hip")
    if device == "cuda" and not (torch.cuda.is_available() and has_vendor):
        raise NoDevice(target)
    return kernel, device


def _measured(
    spec: KernelSpec,
    kernel: Kernel,
    sizes: dict[str, int],
    seed: int,
    repeats: int,
    device: str,
    *,
    with_torch: bool,
) -> dict[str, Any]:
    import torch

    from wavespec.cli.measure import accuracy, floating_point_operations, median_seconds, random_inputs
    from wavespec.sim.reference import reference

    inputs = random_inputs(spec, sizes, seed, device)
    found = accuracy(spec, inputs, kernel(*inputs))
    calls = [lambda: kernel(*inputs)]
    if with_torch:
        calls.append(lambda: reference(spec, *inputs, compute=None))
    seconds = median_seconds(calls, device, repeats)
    operations = floating_point_operations(spec, sizes)
    row: dict[str, Any] = {
        "ok": found.ok,
        "sizes": sizes,
        "error": _finite(found.error),
        "torch_error": found.torch_error,
        "error_ratio": _finite(found.ratio),
        "seconds": seconds[0],
        "gflops": operations / seconds[0] / 1e9,
        "threads": torch.get_num_threads() if device == "cpu" else None,
    }
    if with_torch:
        row |= {
            "torch_seconds": seconds[1],
            "torch_gflops": operations / seconds[1] / 1e9,
            "speed_up": seconds[1] / seconds[0],
        }
    return row


def _finish(spec: KernelSpec, target: str, rows: list[dict[str, Any]], json: bool) -> None:
    ok = all(row["ok"] for row in rows)
    if json:
        failures.write_json({"ok": ok, "kernel": spec.name, "target": target, "results": rows})
    if not ok:
        raise typer.Exit(failures.FAILED)


def _print_run(name: str, target: str, row: dict[str, Any]) -> None:
    from wavespec.tune.judge import ALLOWED_RATIO

    ratio = "not finite" if row["error_ratio"] is None else f"{row['error_ratio']:.2f} x torch's"
    error = "not finite" if row["error"] is None else f"{row['error']:.3g}"
    print(f"{name} on {target}, {sizes_in_words(row['sizes'])}: {'ok' if row['ok'] else 'WRONG'}")
    print(f"  largest error  {error}, {ratio} {row['torch_error']:.3g} (allowed: {ALLOWED_RATIO:g} x)")
    print(f"  median time    {_speed(row['seconds'], row['gflops'])}")


def _speed(seconds: float, gflops: float) -> str:
    time = f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"
    return f"{time}, {gflops:.1f} GFLOP/s"


def _finite(number: float) -> float | None:
    """JSON has no infinity."""
    return number if number - number == 0 else None

"""Specs without a tile, as users write them, in; checks against f64 and times beside torch on a GPU, out.

Needs the compiler to build, and torch and `wavespec.runtime` to run, maybe on another machine:

    python -m benchmarks.planned_h200 build FOLDER [--target sm_90] [--only NAME ...]
    python -m benchmarks.planned_h200 run FOLDER [--only NAME ...] [--seconds S]

The specs are those of ``benchmarks/specs/planned``.  Calls take turns with torch and what reads the bytes of inputs
and writes those of results, with 256 MiB written in between; figures are medians, errors the largest against f64, ours
and torch's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

import torch
from planned_trials import ON_GPU, TRIALS, Shapes, Trial, double, errors_of, text_of
from rows import gpu_times
from streams import stream

from benchmarks.every_speed import moved
from wavespec.runtime import Kernel, pack_artifact, unpack_artifact


def main() -> None:
    """Build kernels, or check and time those of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile the kernels")
    building.add_argument("folder", type=Path)
    building.add_argument("--target", default="sm_90")
    running = commands.add_parser("run", help="check and time the kernels of a folder")
    running.add_argument("folder", type=Path)
    running.add_argument("--seconds", type=float, default=0.02, help="for each size")
    for command in (building, running):
        command.add_argument("--only", nargs="*", default=list(ON_GPU), help="kernels by name")
    arguments = parser.parse_args()
    if arguments.command == "build":
        build_all(arguments.folder, arguments.target, arguments.only)
    else:
        run(arguments.folder, arguments.only, arguments.seconds)


def build_all(folder: Path, target: str, names: Sequence[str]) -> None:
    """Compile the cases that the sizes take, one file for each kernel."""
    from benchmarks.every_speed import with_cases_of
    from wavespec.diagnostics import WavespecError
    from wavespec.pipeline import build
    from wavespec.schema import loads
    from wavespec.schema.resolve import complete_sizes

    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        spec = loads(text_of(name))
        inputs = [one for one in spec.tensors.values() if one.role != "output"]
        sizes = [
            complete_sizes(
                spec,
                {
                    str(dim): size
                    for one, shape in zip(inputs, shapes, strict=True)
                    for dim, size in zip(one.shape, shape, strict=True)
                },
            )
            for shapes in ON_GPU[name]
        ]
        try:
            artifact = build(with_cases_of(spec, target, sizes), target)
        except WavespecError as error:
            print(f"{name}: {error}", flush=True)
            continue
        (folder / f"{name}.wavespec").write_bytes(pack_artifact(artifact))
        print(name, flush=True)


def run(folder: Path, names: Sequence[str], seconds: float) -> None:
    """Print a row for each kernel and size."""
    torch.set_default_device("cuda")
    torch.backends.cudnn.allow_tf32 = False
    print("| kernel | sizes | us | torch | ratio | stream | error | torch's |\n|---|---|---:|---:|---:|---:|---:|---:|")
    for name in names:
        path = folder / f"{name}.wavespec"
        if path.exists():
            kernel = Kernel(unpack_artifact(path.read_bytes()))
            for shapes in ON_GPU[name]:
                try:
                    print(f"| {name} | {row_of(kernel, TRIALS[name], shapes, seconds)} |", flush=True)
                except (RuntimeError, AssertionError) as error:
                    print(f"| {name} | {shapes} | {type(error).__name__}: {str(error)[:200]} |", flush=True)


def row_of(kernel: Kernel, trial: Trial, shapes: Shapes, seconds: float) -> str:
    """The figures of one size."""
    torch.manual_seed(7)  # pyright: ignore[reportUnknownMemberType]
    inputs = [trial.make(shape, place) for place, shape in enumerate(shapes)]
    ours = kernel(*(one.clone() for one in inputs))
    theirs = trial.torch(*(one.clone() for one in inputs))
    errors = errors_of(ours, theirs, trial.torch(*map(double, inputs)))
    results = ours if isinstance(ours, tuple) else (ours,)
    least = stream(*moved(inputs, results))
    times = gpu_times(
        {"ours": lambda: kernel(*inputs), "torch": lambda: trial.torch(*inputs), "stream": least}, seconds
    )
    shown = "; ".join(" x ".join(map(str, shape)) for shape in shapes)
    ratio = times["torch"] / times["ours"]
    figures = f"{times['ours']:.1f} | {times['torch']:.1f} | {ratio:.2f} | {times['stream']:.1f}"
    return f"{shown} | {figures} | {errors[0]:.1e} | {errors[1]:.1e}"


if __name__ == "__main__":
    main()

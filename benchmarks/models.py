"""Kernels of today's models, as specs without tiles, in; checks and times beside torch out.

Needs the compiler to build, and torch and `wavespec.runtime` to run, maybe on another machine:

    python -m benchmarks.models build FOLDER [--target sm_90] [--only NAME ...]
    python -m benchmarks.models run FOLDER [--device cuda] [--only NAME ...] [--seconds S] [--compile]

The specs of ``benchmarks/specs/models`` are written as by a user who knows the documents alone: what is computed, and
nothing of tiles.  `build` compiles the cases that the sizes of ``model_contests.py`` take, `run` ends with 1 where a
row fails: a kernel that raises, is wrong, or was asked for by name and not built.  Both are called in turns on
the same tensors, on a GPU with 256 MiB written in between, medians; on a CPU one thread each, by the time of the
thread, the fastest call.  Results are compared with f64: the error is at most twice torch's; integers are equal.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))

import torch
from model_contests import CONTESTS, Contest, Sizes
from torch import Tensor

from wavespec.runtime import Kernel, KernelArtifact, pack_artifact, unpack_artifact
from wavespec.runtime.size_expr import evaluate

Call = Callable[[], object]
SPECS = Path(__file__).parent / "specs" / "models"
_TYPES = {
    **{"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16},
    **{"f8e4m3fn": torch.float8_e4m3fn, "i64": torch.int64, "i32": torch.int32, "i8": torch.int8, "u8": torch.uint8},
    "bool": torch.bool,
}
_FLUSHED_BYTES = 256 << 20
_LEAST_CALLS = 5


def main() -> int:
    """Build kernels, or check and time those of a folder; 1 where a row of these fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile the kernels of the table")
    building.add_argument("folder", type=Path)
    building.add_argument("--target", default="cpu")
    running = commands.add_parser("run", help="check and time kernels on this machine")
    running.add_argument("folder", type=Path)
    running.add_argument("--device", default="cpu")
    running.add_argument("--seconds", type=float, default=0.1, help="for each size")
    running.add_argument("--compile", action="store_true", help="time what torch.compile makes of torch's, too")
    for command in (building, running):
        command.add_argument("--only", nargs="*", help="kernels by name")
    arguments = parser.parse_args()
    if arguments.command == "build":
        build_all(arguments.folder, arguments.target, arguments.only or list(CONTESTS))
        return 0
    return 1 if run(arguments) else 0


def build_all(folder: Path, target: str, names: Sequence[str]) -> None:
    """Compile the cases that the sizes of the table take, one file for each kernel."""
    from wavespec.diagnostics import WavespecError
    from wavespec.pipeline import build
    from wavespec.schema import load
    from wavespec.schema.cases import case_for_sizes, cases_for_target
    from wavespec.schema.resolve import complete_sizes, override_of

    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        contest, began = CONTESTS[name], time.perf_counter()
        path = folder / f"{name}.wavespec"
        path.unlink(missing_ok=True)
        try:
            spec = load(SPECS / f"{name}.wave.yaml")
            override, cases = override_of(spec, target), cases_for_target(spec, target)
            sizes = [
                complete_sizes(spec, {**one, **_whole(contest)}) for one in sizes_of(contest, target.startswith("cpu"))
            ]
            found = [case_for_sizes(cases, one) for one in sizes]
            taken = [one.case for one in found]
            if override is not None:
                kept = tuple(one for one in override.cases if any(one is case for case in taken))
                spec = spec.model_copy(
                    update={"targets": {**spec.targets, target: override.model_copy(update={"cases": kept})}}
                )
            path.write_bytes(pack_artifact(build(spec, target)))
            print(
                f"{name} {time.perf_counter() - began:.1f} s", *(_told(one.when) for one in found), sep="; ", flush=True
            )
        except WavespecError as error:
            print(f"{name}: {error}", flush=True)


def _told(when: Sequence[object]) -> str:
    return ", ".join(map(str, when)) or "all sizes"


def sizes_of(contest: Contest, is_cpu: bool) -> Sequence[Sizes]:
    return contest.cpu if is_cpu else contest.gpu


def _whole(contest: Contest) -> dict[str, int]:
    return {name: number for name, number in contest.scalars.items() if isinstance(number, int)}


def run(arguments: argparse.Namespace) -> int:
    """Print a row for each kernel and size; how many failed comes out."""
    torch.set_default_device(arguments.device)
    torch.set_num_threads(1 if arguments.device == "cpu" else torch.get_num_threads())
    torch.backends.cudnn.allow_tf32 = False
    print(
        "| kernel | sizes | wavespec µs | torch µs | compiled µs | of torch | of compiled |\n"
        "|---|---|---:|---:|---:|---:|---:|"
    )
    ratios, failed = list[float](), 0
    for name in arguments.only or CONTESTS:
        path = arguments.folder / f"{name}.wavespec"
        if not path.exists():
            if arguments.only:
                print(f"| {name} | | | | | | | not built", flush=True)
                failed += 1
            continue
        kernel = Kernel(unpack_artifact(path.read_bytes()))
        for sizes in sizes_of(CONTESTS[name], arguments.device == "cpu"):
            try:
                ratio, is_right = _row(kernel, name, sizes, arguments)
                ratios.append(ratio)
                failed += not is_right
            except Exception as error:  # a row that fails must not stop the rest
                failed += 1
                print(f"| {name} | {_shown(sizes)} | | | | | | {type(error).__name__}: {str(error)[:300]}", flush=True)
    mean = f"geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.2f}, " if ratios else ""
    print(f"\n{len(ratios)} rows, {mean}{failed} failed")
    return failed


def _shown(sizes: Sizes) -> str:
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


def _row(kernel: Kernel, name: str, sizes: Sizes, arguments: argparse.Namespace) -> tuple[float, bool]:
    """How many times as fast as torch, and whether all results are right."""
    contest = CONTESTS[name]
    case = _Case(kernel, contest, sizes, arguments.device)
    wrong = " ".join(case.mistakes())
    calls: dict[str, Call] = {"wavespec": case.ours, "torch": case.theirs}
    if arguments.compile:
        torch.compiler.reset()
        compiled: Any = torch.compile(contest.torch, dynamic=False)  # pyright: ignore[reportUnknownMemberType]
        calls["compiled"] = lambda: compiled(*case.inputs)
    times = (gpu_times if arguments.device == "cuda" else thread_times)(calls, arguments.seconds)
    mine = times["wavespec"]
    ratio = times["torch"] / mine
    last = (
        f"{times['compiled']:.1f} | {ratio:.2f} | {times['compiled'] / mine:.2f}"
        if arguments.compile
        else f" | {ratio:.2f} | "
    )
    print(f"| {name} | {_shown(sizes)} | {mine:.1f} | {times['torch']:.1f} | {last} | {wrong}", flush=True)
    return ratio, not wrong


@dataclass(slots=True)
class _Case:
    """Inputs of a call, and what both make of them."""

    kernel: Kernel
    contest: Contest
    sizes: Sizes
    device: str
    inputs: list[Tensor]

    def __init__(self, kernel: Kernel, contest: Contest, sizes: Sizes, device: str) -> None:
        self.kernel, self.contest, self.device = kernel, contest, device
        self.sizes = _complete(kernel.artifact, {**sizes, **_whole(contest)})
        torch.manual_seed(7)  # pyright: ignore[reportUnknownMemberType]
        self.inputs = [self._made(one.name, one.shape(self.sizes), _TYPES[one.dtype]) for one in kernel.artifact.inputs]

    def _made(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        if maker := self.contest.makers.get(name):
            return maker(shape, self.sizes).to(dtype).to(self.device)
        if dtype is torch.bool:
            return (torch.rand(shape) < 0.8).to(self.device)
        return torch.randn(shape, device=self.device).to(dtype)

    def ours(self) -> object:
        return self.kernel(*self.inputs, **self.contest.scalars)

    def theirs(self) -> object:
        return self.contest.torch(*self.inputs)

    def mistakes(self) -> Iterator[str]:
        """Sentences about results that are wrong, of copies, which calls may change."""
        mine = _tensors(self.kernel(*(one.clone() for one in self.inputs), **self.contest.scalars))
        torchs = _tensors(self.contest.torch(*(one.clone() for one in self.inputs)))
        precise = _tensors(self.contest.torch(*(_doubled(one) for one in self.inputs)))
        for place, (one, other, exact) in enumerate(zip(mine, torchs, precise, strict=True)):
            if one.shape != exact.shape:
                yield f"result {place} is {tuple(one.shape)}, not {tuple(exact.shape)}"
            elif not one.dtype.is_floating_point:
                wrong, theirs = (int((found != exact.to(one.dtype)).sum()) for found in (one, other))
                allowed = 2 * theirs if self.contest.from_f32 else 0
                if wrong > allowed:
                    yield f"result {place}: {wrong} of {one.numel()} integers differ, {theirs} of torch's"
            else:
                yield from _error(place, one, other, exact)


def _error(place: int, one: Tensor, other: Tensor, exact: Tensor) -> Iterator[str]:
    epsilon = torch.finfo(one.dtype).eps
    one, other = one.double(), other.to(one.dtype).double()
    finite = exact.isfinite() & other.isfinite()
    if not torch.equal(one.isfinite(), finite):
        count = int((one.isfinite() != finite).sum())
        yield f"result {place}: {count} elements are finite where torch's are not, or the other way round"
    one, other, exact = one[finite], other[finite], exact[finite]
    if one.numel():
        allowed = 2 * max((other - exact).abs().max().item(), epsilon * exact.abs().max().item())
        error = (one - exact).abs().max().nan_to_num(math.inf).item()
        if not error <= allowed:
            yield f"result {place}: error {error:.3g}, twice torch's is {allowed:.3g}"


def _doubled(x: Tensor) -> Tensor:
    return x.double() if x.is_floating_point() else x.clone()


def _tensors(found: Any) -> tuple[Tensor, ...]:
    return (found,) if isinstance(found, Tensor) else found


def _complete(artifact: KernelArtifact, sizes: Sizes) -> dict[str, int]:
    full = {**sizes, **{dim.name: dim.size for dim in artifact.dims if dim.size is not None}}
    for dim in artifact.dims:
        if dim.equals is not None:
            full[dim.name] = evaluate(dim.equals, full)
    return full


def gpu_times(calls: dict[str, Call], seconds: float) -> dict[str, float]:
    """Median microseconds of each, called in turns with the caches overwritten in between."""
    flush = torch.empty(_FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    end_at = time.perf_counter() + seconds
    while time.perf_counter() < end_at or len(found["torch"]) < _LEAST_CALLS:
        for name, call in calls.items():
            flush.zero_()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            end.synchronize()
            found[name].append(begin.elapsed_time(end) * 1e3)
    return {name: statistics.median(each) for name, each in found.items()}


def thread_times(calls: dict[str, Call], seconds: float) -> dict[str, float]:
    """The fewest microseconds of the thread for each, called in turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    end_at = time.perf_counter() + seconds
    while time.perf_counter() < end_at or len(found["torch"]) < _LEAST_CALLS:
        for name, call in calls.items():
            start = time.thread_time()
            call()
            found[name].append(time.thread_time() - start)
    return {name: min(each) * 1e6 for name, each in found.items()}


if __name__ == "__main__":
    sys.exit(main())

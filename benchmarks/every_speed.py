"""Every kernel of ``specs/`` in; its times beside torch's, at sizes of models that no plan was chosen for, out.

Needs the compiler to build, and torch, `wavespec.runtime` and `tests/kernels.py` to run, maybe on another machine:

    python -m benchmarks.every_speed build FOLDER [--target sm_90] [--variant NAME] [--only NAME ...] [--without-plan]
    python -m benchmarks.every_speed run FOLDER [--device cuda] [--running] [--only NAME ...] [--seconds S] [--below R]

Sizes, and what torch has for a kernel, are those of `speed_contests`.  Both make their results anew and are called in
turns on the same tensors, on a GPU with 256 MiB written in between; figures are medians.  ``--stream`` adds what reads
the bytes of all inputs and writes those of the results, and does nothing else.  ``--running``: one thread of
a CPU, whose time is counted while it runs, for a machine that others use, too.  Results are compared with f64: the
error is at most twice torch's.
"Without plan": of each spec what is computed alone, with the plan that the compiler makes of it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parent))

import torch
from rows import cpu_times, gpu_times
from streams import stream
from torch import Tensor

from benchmarks.every_kernel import completed
from benchmarks.speed_contests import CONTESTS, Contest, double
from tests.kernels import TORCH, Draw, Sizes, check_output, numbers, row_of, tensors_of
from wavespec.runtime import Kernel, KernelArtifact, pack_artifact, unpack_artifact
from wavespec.runtime.artifact import PACKED

if TYPE_CHECKING:
    from wavespec.schema import KernelSpec

_LEAST_SECONDS = 0.03


def main() -> None:
    """Build kernels, or time those of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile the kernels of the table")
    building.add_argument("folder", type=Path)
    building.add_argument("--target", default="cpu")
    building.add_argument("--variant", help="of CPUs: this one alone, not all")
    building.add_argument("--without-plan", action="store_true", help="leave tiles and schedules to the compiler")
    running = commands.add_parser("run", help="check and time kernels on this machine")
    running.add_argument("folder", type=Path)
    running.add_argument("--device", default="cpu")
    running.add_argument("--running", action="store_true", help="one thread of a CPU, while it runs")
    running.add_argument("--seconds", type=float, default=_LEAST_SECONDS, help="for each size")
    running.add_argument("--most-work", type=float, default=math.inf, help="products of all extents that are left out")
    running.add_argument(
        "--stream", action="store_true", help="of a GPU: time what reads and writes as many bytes, too"
    )
    running.add_argument("--below", type=float, default=math.inf, help="print the rows whose ratio is less")
    for command in (building, running):
        command.add_argument("--only", nargs="*", default=list(CONTESTS), help="kernels by name")
    arguments = parser.parse_args()
    if arguments.command == "build":
        build_all(arguments)
    else:
        run(arguments)


def build_all(arguments: argparse.Namespace) -> None:
    """Compile what the sizes of the table take into the folder, one file each; without a plan: without what their specs
    say of tiles."""
    from tests.bare import planned_anew
    from tests.kernels import subjects
    from wavespec.pipeline import build
    from wavespec.schema.language.expressions import Num
    from wavespec.targets import machines

    folder, target = arguments.folder, arguments.target
    only = next((one for one in machines(target) if one.variant == arguments.variant), None)
    folder.mkdir(parents=True, exist_ok=True)
    found = {subject.name: subject for subject in subjects(target)}
    for name in arguments.only:
        contest = CONTESTS[name]
        subject = found.get(contest.of or name)
        if subject is None:
            continue
        params = {word: Num(number) for word, number in contest.params.items()}
        spec = subject.spec.model_copy(update={"params": {**subject.spec.params, **params}})
        spec = with_cases_of(planned_anew(spec) if arguments.without_plan else spec, target, contest.sizes)
        artifact = build(spec, target, only=only, cubins=target != "cpu")
        (folder / f"{subject.file}-{name}.wavespec").write_bytes(pack_artifact(artifact))
        print(name, flush=True)


def with_cases_of(spec: KernelSpec, target: str, sizes: Sequence[Sizes]) -> KernelSpec:
    """Without the cases of the target that calls of these sizes do not take."""
    from wavespec.schema.cases import case_for_sizes, cases_for_target
    from wavespec.schema.resolve import complete_sizes, override_of

    override = override_of(spec, target)
    if override is None:
        return spec
    cases = cases_for_target(spec, target)
    taken = [case_for_sizes(cases, complete_sizes(spec, one)).case for one in sizes]
    kept = tuple(one for one in override.cases if any(one is case for case in taken))
    changed = override.model_copy(update={"cases": kept})
    return spec.model_copy(update={"targets": {**spec.targets, target: changed}})


def run(arguments: argparse.Namespace) -> None:
    """Print a row for each kernel and size, and the geometric mean and the least ratio of each kernel."""
    if arguments.device != "cpu":  # each call of torch would ask for it
        torch.set_default_device(arguments.device)
    if arguments.running:
        torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # torch's default would not be f32
    last = (" stream µs |", "---:|") if arguments.stream else ("", "")
    print(
        f"| kernel | sizes | wavespec µs | torch µs | ratio |{last[0]}\n|---|---|---:|---:|---:|{last[1]}", flush=True
    )
    means: list[str] = []
    for path in sorted(arguments.folder.glob("*.wavespec")):
        file, _, name = path.stem.partition("-")
        if name not in arguments.only:
            continue
        kernel = Kernel(unpack_artifact(path.read_bytes()))
        ratios = [ratio for ratio in _rows(kernel, file, name, arguments) if ratio]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            means.append(f"| {name} | {len(ratios)} | {mean:.2f} | {min(ratios):.2f} |")
    print("\n| kernel | sizes | mean | least |\n|---|---:|---:|---:|")
    print("\n".join(means))


def _rows(kernel: Kernel, file: str, name: str, arguments: argparse.Namespace) -> Iterator[float | None]:
    """The ratios; none where torch has nothing of the size."""
    contest, artifact = CONTESTS[name], kernel.artifact
    for sizes in contest.sizes:
        if math.prod(sizes.values()) > arguments.most_work:
            continue
        inputs = inputs_of(artifact, file, name, sizes)
        calls: dict[str, Callable[[], object]] = {"wavespec": lambda inputs=inputs: kernel(*inputs)}
        found = ratio = theirs = None
        wrong = ""
        try:
            found = contest.torch(*inputs)
            calls["torch"] = lambda inputs=inputs: contest.torch(*inputs)
        except (RuntimeError, ValueError) as error:  # it has no kernel for some sizes, or no memory: the row says so
            wrong = f" torch: {str(error).splitlines()[0][:90]}"
        wrong = what_is_wrong(kernel, file, name, contest, inputs, found) or wrong
        if arguments.stream:
            calls["stream"] = stream(*moved(inputs, tensors_of(kernel(*inputs))))
        times = _times(calls, arguments)
        mine = times["wavespec"]
        if "torch" in times:
            theirs = times["torch"]
            ratio = theirs / mine
        shown = " x ".join(f"{size}" for size in sizes.values())
        if wrong or ratio is None or ratio < arguments.below:
            other = " | " if theirs is None or ratio is None else f"{theirs:.1f} | {ratio:.2f}"
            least = f" {times['stream']:.1f} |" if "stream" in times else ""
            print(f"| {name} | {shown} | {mine:.1f} | {other} |{least}{wrong}", flush=True)
        yield ratio


def _times(calls: dict[str, Callable[[], object]], arguments: argparse.Namespace) -> dict[str, float]:
    if arguments.device == "cuda":
        return gpu_times(calls, arguments.seconds)
    return cpu_times(calls, arguments.seconds, time.thread_time if arguments.running else time.perf_counter)


def moved(inputs: Sequence[Tensor], results: Sequence[Tensor]) -> tuple[int, int]:
    """Bytes of inputs and of results: what a call reads and writes that needs all of the ones and makes the others."""
    of_inputs, of_results = (sum(one.numel() * one.element_size() for one in some) for some in (inputs, results))
    return of_inputs, of_results


def inputs_of(artifact: KernelArtifact, file: str, name: str, sizes: Sizes) -> list[Tensor]:
    """On the device that is used by default."""
    full, row = completed(artifact, sizes), row_of(file, CONTESTS[name].of or name)
    random = torch.Generator(torch.get_default_device())
    random.manual_seed(math.prod(sizes.values()))
    return [
        row.special.get(one.name, numbers)(
            Draw(one.shape(full), TORCH[one.dtype], full, random, whole=False, is_packed=one.dtype in PACKED)
        )
        for one in artifact.inputs
    ]


def what_is_wrong(kernel: Kernel, file: str, name: str, contest: Contest, inputs: Sequence[Tensor], found: Any) -> str:
    """What is wrong with the results, if anything is; ``found``: torch's, if it has some."""
    if not contest.is_checked:
        return ""
    ours = tensors_of(kernel(*inputs))
    exact = tensors_of((contest.exact or double(contest.torch))(*inputs))
    theirs = exact if contest.exact is not None or found is None else tensors_of(found)
    for one, mine, right, other in zip(kernel.artifact.outputs, ours, exact, theirs, strict=True):
        try:
            check_output(row_of(file, contest.of or name), one.name, mine, right, other.to(mine.dtype), whole=False)
        except AssertionError as error:
            return f" {error}"
    return ""


if __name__ == "__main__":
    main()

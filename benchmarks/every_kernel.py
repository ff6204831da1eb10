"""Every case of every kernel for sm_90, run on a GPU and compared with torch in f64.

Needs the compiler to build, and torch, `wavespec.runtime` and `tests/kernels.py` to run, maybe on another machine:

    python -m benchmarks.every_kernel build FOLDER [NAME ...]
    python -m benchmarks.every_kernel run FOLDER [--only TEXT] [--seconds S] [--table FILE] [--json FILE]
    python -m benchmarks.every_kernel run FOLDER --sanitizer memcheck

Every kernel runs in a process of its own, at the sizes of its row in `tests/kernels.py` and at an aligned and an
unaligned size for each of its cases.  A result is right where it is equal on whole numbers, or as close to f64 as
torch is; the same in repeated calls; with nothing written around the outputs or into the inputs.  Under a tool of
`compute-sanitizer`, which makes kernels ten to a hundred times as slow, each case runs at its smallest size, and no
launch begins before others end, which racecheck cannot follow.  Nor does it know signals between the workgroups of a
cluster: it reports what these lay down for each other ("block rank" in its text).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tests.kernels import TORCH, Row, Sizes, Subject, check_output, make_inputs, tensors_of
from wavespec.runtime import Kernel, KernelArtifact, pack_artifact, unpack_artifact
from wavespec.runtime.size_expr import evaluate
from wavespec.sim.packed import unpacked

if TYPE_CHECKING:
    from wavespec.schema import KernelSpec

TARGET, DEVICE = "sm_90", "cuda"
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
EXTENTS = (
    *(1, 2, 5, 8, 16, 24, 40, 64, 72, 100, 128, 129, 136, 256, 512, 1000, 1024, 1530, 2048, 2056, 3072, 4096, 4100),
    *(5120, 6144, 8184, 8192, 10240, 12288, 16392, 20480, 24576, 32000, 32001, 50257, 65536, 131071, 131072),
)
"""Of which sizes for a case are tried."""
_ALIGNED = 64
_TRIES = 20_000
_MOST_ELEMENTS, _MOST_WORK = 1 << 28, 1 << 38
"""Of all tensors together, and the product of all dims: what a machine does in a moment."""
_REPEATS = 5
_GUARD_ELEMENTS = 4096
_GUARD = 77
_SUMMARY = re.compile(r"=+ (?:\w+ )+SUMMARY: (\d+) ")
_STORED = '''\
"""Results that were computed where the kernel was built."""

from pathlib import Path

import torch

STORED = torch.load(Path(__file__).with_suffix(".pt"))


def exact_0(*inputs):
    return tuple(one.to(inputs[0].device) for one in STORED[0])


def rounded_0(*inputs):
    return tuple(one.to(inputs[0].device) for one in STORED[1])
'''


def main() -> int:
    """Build all kernels, or run those of a folder; exit code 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile everything in specs/")
    building.add_argument("folder", type=Path)
    building.add_argument("names", nargs="*", help="kernels, or families; all by default")
    running = commands.add_parser("run", help="run the kernels of a folder on this machine's GPU")
    running.add_argument("folder", type=Path)
    running.add_argument("--only", default="", help="kernels whose name contains this")
    running.add_argument("--seconds", type=float, default=120.0, help="for each kernel")
    running.add_argument("--table", type=Path, help="write the results as a table of Markdown")
    running.add_argument("--json", type=Path, help="write the results with all their sizes; go on where it ends")
    running.add_argument("--jobs", type=int, default=1, help="processes at a time")
    running.add_argument("--sanitizer", choices=SANITIZERS, help="run under this tool of compute-sanitizer")
    one = commands.add_parser("one", help="run one kernel in this process")
    one.add_argument("folder", type=Path)
    one.add_argument("name")
    one.add_argument("--sanitized", action="store_true", help="each case at its smallest size, launches in turn")
    arguments = parser.parse_args()
    if arguments.command == "build":
        return build_all(arguments.folder, arguments.names)
    if arguments.command == "one":
        return run_one(arguments.folder, arguments.name, sanitized=arguments.sanitized)
    return run_all(arguments)


def build_all(folder: Path, names: Sequence[str]) -> int:
    """Compile the kernels; a folder per kernel with its code, sizes and reference."""
    from tests.kernels import subjects
    from wavespec.diagnostics import WavespecError
    from wavespec.ops.repeat import ReferenceTooLong
    from wavespec.pipeline import build

    failed = 0
    for subject in subjects(TARGET):
        if names and subject.file not in names and subject.name not in names:
            continue
        place = folder / subject.name
        place.mkdir(parents=True, exist_ok=True)
        start = time.perf_counter()
        try:
            artifact = build(subject.spec, TARGET, cubins=True)
        except WavespecError as error:
            failed += 1
            print(f"{subject.name}: {error}", flush=True)
            continue
        (place / "kernel.z").write_bytes(zlib.compress(pack_artifact(artifact)))
        runs: list[Sizes] = []
        wanted = [completed(artifact, sizes) for sizes in _row_sizes(subject.row)]
        for sizes in (*wanted, *sizes_for_cases(artifact, known=wanted[: len(subject.row.small)])):
            try:
                code = _reference(subject.spec, sizes)
            except (RuntimeError, ReferenceTooLong):  # it is no reasonable number of calls of torch without the data
                code = _stored_reference(subject, sizes, place / f"reference{len(runs)}.pt")
            (place / f"reference{len(runs)}.py").write_text(code, encoding="utf-8")
            runs.append(sizes)
        plan = {"file": subject.file, "name": subject.name, "runs": [dict(sizes) for sizes in runs]}
        (place / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        seconds = time.perf_counter() - start
        print(f"{subject.name}: {len(artifact.members)} cases, {len(runs)} sizes, {seconds:.1f} s", flush=True)
    bytes_in_all = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{bytes_in_all / 1e6:.1f} MB")
    return 1 if failed else 0


def _row_sizes(row: Row) -> list[Sizes]:
    return [*row.small, *row.on_cpu, *row.normal, *row.on_gpu]


def sizes_for_cases(artifact: KernelArtifact, known: Sequence[Sizes]) -> list[Sizes]:
    """An aligned and an unaligned size for each member of a kernel, as small as there are; some may have none."""
    names = [dim.name for dim in artifact.dims]
    least = {name: min((sizes[name] for sizes in known if sizes.get(name)), default=1) for name in names}
    free = [dim for dim in artifact.dims if dim.size is None and dim.equals is None]
    random, found = Random(0), dict[tuple[int, bool], tuple[int, Sizes]]()
    for _ in range(_TRIES):
        drawn = {dim.name: _rounded(random.choice(EXTENTS), dim.multiple_of) for dim in free}
        for dim in random.sample(free, random.randrange(len(free))):
            drawn[dim.name] = max(least[dim.name], 1)
        sizes = completed(artifact, drawn)
        if any(sizes[dim.name] < 1 or sizes[dim.name] % dim.multiple_of for dim in artifact.dims):
            continue
        work = prod(sizes.values())
        elements = sum(prod(parameter.shape(sizes)) for parameter in artifact.tensors)
        if elements > _MOST_ELEMENTS or work > _MOST_WORK:
            continue
        member = _case(artifact, sizes)
        aligned = all(size % _ALIGNED == 0 for size in drawn.values() if size > 16)
        before = found.get((member, aligned))
        if (before is None or work < before[0]) and _promised(artifact.members[member], sizes):
            found[member, aligned] = work, sizes
    return [found[key][1] for key in sorted(found)]


def completed(artifact: KernelArtifact, sizes: Sizes) -> Sizes:
    """With the sizes that the kernel fixes, and those that follow from others."""
    full = {**sizes, **{dim.name: dim.size for dim in artifact.dims if dim.size is not None}}
    for dim in artifact.dims:
        if dim.equals is not None:
            full[dim.name] = evaluate(dim.equals, full)
    return full


def _case(artifact: KernelArtifact, sizes: Sizes) -> int:
    """Which one a call of contiguous tensors takes that names no scalar; those that choose one have a default then."""
    scalars = {one.name: int(one.default) for one in artifact.scalars if one.shapes and one.default is not None}
    return artifact.member_for({**sizes, **scalars, **artifact.dense(sizes)})


def _rounded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _promised(artifact: KernelArtifact, sizes: Mapping[str, int]) -> bool:
    try:
        return all(evaluate(one.condition, sizes) for one in artifact.assumptions)
    except ZeroDivisionError:
        return False


def _reference(spec: KernelSpec, sizes: Sizes) -> str:
    from wavespec.tune.reference_code import reference_code

    return reference_code(spec, [sizes])


def _stored_reference(subject: Subject, sizes: Sizes, file: Path) -> str:
    """The results themselves go into a file; they are for whole numbers where the kernel is exact for these."""
    from wavespec.sim.reference import reference

    inputs = subject.inputs(sizes)
    exact, theirs = (tensors_of(reference(subject.spec, *inputs, compute=one)) for one in (torch.float64, None))
    torch.save([[one.to(torch.float32) for one in exact], list(theirs)], file)
    return _STORED


def run_all(arguments: argparse.Namespace) -> int:
    """Run each kernel in a process, and write down what became of it."""
    machine = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, torch {torch.__version__}"
    print(machine, flush=True)
    results: list[dict[str, Any]] = []
    if arguments.json and arguments.json.exists():
        results = json.loads(arguments.json.read_text(encoding="utf-8"))["kernels"]
    done = {result["kernel"] for result in results}
    plans = [plan for plan in sorted(arguments.folder.glob("*/plan.json")) if arguments.only in plan.parent.name]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for result in pool.map(partial(_in_process, arguments), [one for one in plans if one.parent.name not in done]):
            results.append(result)
            found = "; ".join(result["problems"]) or "right"
            cases = f"{result['cases']:>8s} cases, {len(result['runs'])} sizes"
            print(f"{result['kernel']:32s} {cases}: {found}", flush=True)
            if arguments.json:
                text = json.dumps({"machine": machine, "kernels": results}, indent=1)
                arguments.json.write_text(text, encoding="utf-8")
            if arguments.table:
                arguments.table.write_text(_table(machine, results), encoding="utf-8")
    wrong = [result["kernel"] for result in results if result["problems"]]
    print(f"{len(results) - len(wrong)} of {len(results)} kernels are right")
    return 1 if wrong else 0


def _in_process(arguments: argparse.Namespace, plan: Path) -> dict[str, Any]:
    """What became of one kernel, run in a process of its own."""
    name = plan.parent.name
    command = [sys.executable, "-m", "benchmarks.every_kernel", "one", str(arguments.folder), name]
    if arguments.sanitizer:
        head = ["compute-sanitizer", "--tool", arguments.sanitizer, "--kernel-name", f"kns={name}"]
        command = [*head, *command, "--sanitized"]
    start = time.perf_counter()
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=arguments.seconds)
        lines, problem = process.stdout.splitlines(), process.stderr.strip().splitlines()[-1:]
        stopped = [f"exit code {process.returncode}: {' '.join(problem)}"] if process.returncode else []
        summaries = [(line, int(found[1])) for line in lines if (found := _SUMMARY.match(line))]
        stopped += [line for line, errors in summaries if errors]
        if arguments.sanitizer and not summaries:
            stopped.append(f"{arguments.sanitizer} found no kernel")
    except subprocess.TimeoutExpired as expired:
        lines = (expired.stdout or b"").decode().splitlines()
        stopped = [f"took more than {arguments.seconds:.0f} s"]
    runs = [json.loads(line) for line in lines if line.startswith("{")]
    asked = len(json.loads(plan.read_text(encoding="utf-8"))["runs"])
    problems = [f"{run['sizes']}: {run['problem']}" for run in runs if run["problem"]] + stopped
    if not problems and len(runs) != asked and not (arguments.sanitizer and runs):
        problems = [f"{len(runs)} of {asked} sizes ran"]
    cases = f"{len({run['case'] for run in runs})} of {max((run['cases'] for run in runs), default=0)}"
    seconds = time.perf_counter() - start
    return {"kernel": name, "cases": cases, "runs": runs, "problems": problems, "seconds": seconds}


def _table(machine: str, results: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "# Every kernel on a GPU",
        "",
        f"`python -m benchmarks.every_kernel build FOLDER`, then `run FOLDER` on one {machine}.",
        "Right: equal on whole numbers, or at most twice torch's error against f64; bit-equal in "
        f"{_REPEATS} calls; nothing written around the outputs or into the inputs.",
        "",
        "| kernel | cases run | sizes | largest error over torch's | result |",
        "|---|---:|---:|---:|---|",
    ]
    for result in results:
        ratios = [run["ratio"] for run in result["runs"] if run["ratio"] is not None]
        worst = f"{max(ratios):.2f}" if ratios else "exact"
        problems = "; ".join(result["problems"]).replace("|", "\\|")[:200] or "right"
        lines.append(f"| {result['kernel']} | {result['cases']} | {len(result['runs'])} | {worst} | {problems} |")
    return "\n".join(lines) + "\n"


def run_one(folder: Path, name: str, *, sanitized: bool = False) -> int:
    """Run one kernel at all its sizes, or each of its cases at the smallest alone; a line of JSON for each."""
    torch.backends.cuda.matmul.allow_tf32 = False
    place = folder / name
    plan = json.loads((place / "plan.json").read_text(encoding="utf-8"))
    artifact = unpack_artifact(zlib.decompress((place / "kernel.z").read_bytes()))
    kernel = Kernel(_in_turn(artifact) if sanitized else artifact)
    row = Subject(plan["file"], name).row
    cases = [_case(kernel.artifact, sizes) for sizes in plan["runs"]]
    work = [(not prod(sizes.values()), prod(sizes.values())) for sizes in plan["runs"]]  # what is empty comes last
    least = {min((one for one in range(len(cases)) if cases[one] == case), key=work.__getitem__) for case in set(cases)}
    for number, sizes in enumerate(plan["runs"]):
        if sanitized and number not in least:
            continue
        report: dict[str, Any] = {
            "sizes": sizes,
            "case": cases[number],
            "cases": len(kernel.artifact.members),
            "ratio": None,
            "problem": "",
        }
        try:
            report["ratio"] = _run(kernel, row, sizes, _functions(place / f"reference{number}.py"))
        except (AssertionError, ValueError, TypeError) as error:  # a fault of the machine ends the process
            report["problem"] = f"{type(error).__name__}: {error}"
        print(json.dumps(report), flush=True)
    return 0


def _in_turn(artifact: KernelArtifact) -> KernelArtifact:
    """The kernel, whose launches begin when those in front of them have ended."""
    cases = tuple(replace(case, kernel=_in_turn(case.kernel)) for case in artifact.cases)
    return replace(artifact, waits=False, cases=cases, steps=tuple(_in_turn(step) for step in artifact.steps))


def _functions(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run(kernel: Kernel, row: Row, sizes: Sizes, reference: Any) -> float | None:
    """Asserts that the kernel is right; returns its error over torch's, of the worst output, none for whole numbers."""
    artifact, ratio = kernel.artifact, None
    parameters = [(one.name, one.dtype, one.shape(sizes)) for one in artifact.inputs]
    both = row.exact and _is_judged(row, sizes) and not hasattr(reference, "STORED")
    for whole in (True, False) if both else (row.exact,):
        given = make_inputs(row, parameters, sizes, whole=whole)
        inputs, guards = _guarded([(tuple(one.shape), one.dtype) for one in given])
        outputs, around = _guarded([(one.shape(sizes), TORCH[one.dtype]) for one in artifact.outputs])
        _fill(inputs, given)
        exact, theirs = tensors_of(reference.exact_0(*inputs)), tensors_of(reference.rounded_0(*inputs))
        updated = [tensor for one, tensor in zip(artifact.inputs, inputs, strict=True) if one.updated]
        results, first = (*updated, *outputs), list[Tensor]()
        for _ in range(_REPEATS):
            _fill(inputs, given)
            kernel(*inputs, out=outputs or None)
            first = first or [_bits(result).clone() for result in results]
            assert all(torch.equal(a, _bits(b)) for a, b in zip(first, results, strict=True)), "calls differ"
        torch.cuda.synchronize()
        assert all(bool((guard.view(torch.uint8) == _GUARD).all()) for guard in (*guards, *around)), (
            "something was written outside of a tensor"
        )
        for one, tensor, values in zip(artifact.inputs, inputs, given, strict=True):
            assert one.updated or torch.equal(_bits(tensor), _bits(values.to(DEVICE))), "an input was written"
        written = (*artifact.updated, *artifact.outputs)
        for one, held, right, own in zip(written, results, exact, theirs, strict=True):
            result = unpacked(held, one.dtype)
            check_output(row, one.name, result, right, own, whole=whole)
            if result.numel() and result.dtype.is_floating_point and not (whole and row.exact):
                ratio = max(ratio or 0.0, _ratio(result, right, own))
    return ratio


def _fill(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for tensor, one in zip(tensors, values, strict=True):
        _bits(tensor).copy_(_bits(one))


def _is_judged(row: Row, sizes: Sizes) -> bool:
    """Whether a kernel that is exact is run on normal numbers too: where there are enough of them to judge by."""
    return sizes in row.normal or prod(sizes.values()) >= 1 << 22


def _ratio(output: Tensor, right: Tensor, own: Tensor) -> float:
    finite = right.isfinite() & own.isfinite()
    if not bool(finite.any()):
        return 0.0
    error, theirs = ((one.double() - right)[finite].abs().max().item() for one in (output, own))
    least = torch.finfo(output.dtype).eps * right[finite].abs().max().item()
    return error / max(theirs, least) if error else 0.0


def _bits(tensor: Tensor) -> Tensor:
    """So that NaN equals itself."""
    flat = tensor.contiguous().reshape(-1)
    return flat if flat.dtype is torch.bool else flat.view(torch.uint8)


def _guarded(tensors: Sequence[tuple[tuple[int, ...], torch.dtype]]) -> tuple[tuple[Tensor, ...], list[Tensor]]:
    """Tensors with room around each that nobody may write to, and those rooms."""
    inner: list[Tensor] = []
    guards: list[Tensor] = []
    for shape, dtype in tensors:
        elements, width = prod(shape), dtype.itemsize
        padded = -(-elements * width // 16) * 16  # the end is where the last element is, or up to 15 bytes behind it
        room = torch.full((2 * _GUARD_ELEMENTS + padded,), _GUARD, dtype=torch.uint8, device=DEVICE)
        end = _GUARD_ELEMENTS + elements * width
        inner.append(room[_GUARD_ELEMENTS:end].view(dtype).view(shape))
        guards += [room[:_GUARD_ELEMENTS], room[end:]]
    return tuple(inner), guards


if __name__ == "__main__":
    sys.exit(main())

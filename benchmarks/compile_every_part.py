"""Cases of all kernels go in, for each machine; processor seconds of lowering and of the compiler behind it come out.

    python -m benchmarks.compile_every_part [FOLDER ...] [--targets cpu,sm_90] [--lines 8000] [--rows 20]

One part after the other in one process, nothing cached: percentiles of each machine, then the slowest parts.  A part is
a kernel of a case, for a machine that has the case.  With ``--lines`` those that have less are lowered alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import NamedTuple

from wavespec.cases_on_machines import machines_of
from wavespec.emit.targets import module_to_binaries
from wavespec.generate import kernels_in, load_spec
from wavespec.pipeline import emit
from wavespec.schema import KernelSpec
from wavespec.schema.cases import cases_for_target
from wavespec.schema.resolve import targets_of
from wavespec.targets.machine import Machine, machines

SPECS = Path(__file__).parents[1] / "specs"


class Part(NamedTuple):
    """``case``: its number, the last of a kernel is for all sizes."""

    kernel: str
    case: int
    machine: str
    lines: int
    lowering: float
    compiler: float | None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[SPECS])
    parser.add_argument("--targets", default="cpu,sm_90,gfx942,gfx950")
    parser.add_argument("--lines", type=int, default=0, help="of the shortest part that is compiled")
    parser.add_argument("--rows", type=int, default=20, help="of the table of the slowest parts")
    arguments = parser.parse_args()
    files = [file for folder in arguments.folders for file in sorted(folder.glob("*.wave.yaml"))]
    parts = [part for file in files for part in timed(file, arguments.targets.split(","), arguments.lines)]
    print("| machine | parts | lowering: median s | most | compiler: median s | 95 % | most | in all s |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for machine in dict.fromkeys(part.machine for part in parts):
        lowering = sorted(part.lowering for part in parts if part.machine == machine)
        compiler = sorted(part.compiler for part in parts if part.machine == machine and part.compiler is not None)
        compiler = compiler or [0.0]
        cells = [statistics.median(lowering), lowering[-1], statistics.median(compiler)]
        cells += [compiler[int(0.95 * (len(compiler) - 1))], compiler[-1], sum(lowering) + sum(compiler)]
        print(f"| {machine} | {len(lowering)} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")
    print("\n| kernel | case | machine | lines of MLIR | lowering s | compiler s |\n|---|---:|---|---:|---:|---:|")
    for part in sorted(parts, key=lambda part: -part.lowering - (part.compiler or 0))[: arguments.rows]:
        compiled = "" if part.compiler is None else f"{part.compiler:.2f}"
        print(f"| {' | '.join(map(str, part[:4]))} | {part.lowering:.2f} | {compiled} |")


def timed(file: Path, targets: list[str], least: int = 0) -> list[Part]:
    """The parts of the kernels of a file; those of less than so many lines are not compiled."""
    found: list[Part] = []
    for spec in (one.spec for one in kernels_in(load_spec(file))):
        for target in (target for target in targets if target in targets_of(spec)):
            for number, case in enumerate(cases_for_target(spec, target)):
                for machine in machines_of(case, machines(target)):
                    found += [part_of(kernel, number, machine, least) for kernel in case.kernels]
    return found


def part_of(spec: KernelSpec, case: int, machine: Machine, least: int) -> Part:
    start = time.process_time()
    module = emit(spec, machine)
    lowered, lines = time.process_time(), module.text.count("\n")
    if lines < least:
        return Part(spec.name, case, machine.variant, lines, lowered - start, None)
    module_to_binaries(module)
    return Part(spec.name, case, machine.variant, lines, lowered - start, time.process_time() - lowered)


if __name__ == "__main__":
    main()

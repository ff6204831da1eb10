"""Cases of all kernels go in, for each machine; processor seconds of lowering and of the compiler behind it come out.

    python -m benchmarks.compile_every_part [--targets cpu,sm_90] [--rows 20] > benchmarks/results/compile_every_part.md

One part after the other in one process, nothing cached: percentiles of each machine, then the slowest parts.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import NamedTuple

from wavespec.emit.targets import module_to_binaries
from wavespec.generate import kernels_in, load_spec
from wavespec.pipeline import emit
from wavespec.schema.cases import cases_for_target
from wavespec.schema.resolve import targets_of
from wavespec.targets.machine import machines

SPECS = Path(__file__).parents[1] / "specs"


class Part(NamedTuple):
    """``case``: its number, the last of a kernel is for all sizes."""

    kernel: str
    case: int
    machine: str
    lines: int
    lowering: float
    compiler: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--targets", default="cpu,sm_90,gfx942,gfx950")
    parser.add_argument("--rows", type=int, default=20, help="of the table of the slowest parts")
    arguments = parser.parse_args()
    parts = [part for file in sorted(SPECS.glob("*.wave.yaml")) for part in timed(file, arguments.targets.split(","))]
    print("| machine | parts | lowering: median s | most | compiler: median s | 95 % | most | in all s |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for machine in dict.fromkeys(part.machine for part in parts):
        lowering = sorted(part.lowering for part in parts if part.machine == machine)
        compiler = sorted(part.compiler for part in parts if part.machine == machine)
        cells = [statistics.median(lowering), lowering[-1], statistics.median(compiler)]
        cells += [compiler[int(0.95 * (len(compiler) - 1))], compiler[-1], sum(lowering) + sum(compiler)]
        print(f"| {machine} | {len(lowering)} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")
    print("\n| kernel | case | machine | lines of MLIR | lowering s | compiler s |\n|---|---:|---|---:|---:|---:|")
    for part in sorted(parts, key=lambda part: -part.lowering - part.compiler)[: arguments.rows]:
        print(f"| {' | '.join(map(str, part[:4]))} | {part.lowering:.2f} | {part.compiler:.2f} |")


def timed(file: Path, targets: list[str]) -> list[Part]:
    """The parts of the kernels of a file."""
    found: list[Part] = []
    for spec in (one.spec for one in kernels_in(load_spec(file))):
        for target in (target for target in targets if target in targets_of(spec)):
            for number, case in enumerate(cases_for_target(spec, target)):
                for machine in machines(target):
                    start = time.process_time()
                    module = emit(case.spec, machine)
                    lowered = time.process_time()
                    module_to_binaries(module)
                    seconds = lowered - start, time.process_time() - lowered
                    found.append(Part(spec.name, number, machine.variant, module.text.count("\n"), *seconds))
    return found


if __name__ == "__main__":
    main()

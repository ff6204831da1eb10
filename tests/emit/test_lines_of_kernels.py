"""MLIR of kernels for CPUs, written out for one lane: as long as what a spec says calls for, not as its tiles are."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavespec.cases_on_machines import machines_of
from wavespec.generate import kernels_in, load_spec
from wavespec.pipeline import Variants, lower
from wavespec.schema.cases import cases_for_target
from wavespec.schema.resolve import targets_of
from wavespec.targets.machine import machines

ROOT = Path(__file__).parents[2]
FILES = [*sorted(ROOT.glob("specs/*.wave.yaml")), *sorted(ROOT.glob("benchmarks/specs/models/*.wave.yaml"))]
MACHINES = [machine for machine in machines("cpu") if machine.variant in ("x86_64_v3", "x86_64_amx")]
"""The narrowest registers, of which there are most in a tile, and the largest instructions."""
AT_ONCE, EACH, MOST = 8_000, 700, 26_000
"""Lines that any kernel may have, for each operation of the spec, and in all: some four seconds of a compiler, on one
core.  The longest have nine tenths of it; what reads across the rows that it writes had 35,000."""


@pytest.mark.always
@pytest.mark.rare
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.removesuffix(".wave.yaml"))
def test_lines_grow_with_operations_alone(file: Path) -> None:
    """Of the case for all sizes and of the first one, and of all kernels that they launch."""
    for spec in (one.spec for one in kernels_in(load_spec(file))):
        if "cpu" not in targets_of(spec):
            continue
        cases = cases_for_target(spec, "cpu")
        for case in {id(case): case for case in (cases[0], cases[-1])}.values():
            for kernel in case.kernels:
                variants = Variants(kernel, "cpu")
                for machine in machines_of(case, MACHINES):
                    operations = sum(1 for _ in lower(kernel, machine, after="spec-to-tile").walk())
                    lines = variants.emit(machine).text.count("\n")
                    assert lines <= min(MOST, AT_ONCE + EACH * operations), f"{kernel.name} for {machine.variant}"

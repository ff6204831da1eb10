"""How much text kernels of the project become: compilers behind take their time by the line."""

from __future__ import annotations

import pytest

from tests.specs import KERNELS
from wavespec.pipeline import emit
from wavespec.schema import load
from wavespec.targets.machine import machines

_MOST_LINES = 50_000
"""Of one kernel: 45 thousand take about 16 seconds of one core on the slowest way, matrix tiles of a CPU."""
_LONG = ("attention_decode", "attention_extend")
"""Those that had the most lines of all: 267 and 59 thousand."""


@pytest.mark.parametrize("name", _LONG)
def test_long_kernels_on_cpus_stay_within_the_lines_that_compile_in_time(name: str) -> None:
    (path,) = (path for path in KERNELS if path.name == f"{name}.wave.yaml")
    spec = load(path)
    lines = {machine.variant: emit(spec, machine).text.count("\n") for machine in machines("cpu")}
    assert max(lines.values()) <= _MOST_LINES, lines

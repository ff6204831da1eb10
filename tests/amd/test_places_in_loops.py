"""Loops whose steps overlap while the places of their tiles depend on data, executed by an emulator: exactly right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.amd.amd_gemms import require_emulator
from tests.amd.emulated import Case
from tests.kernels import subjects
from tests.sim.test_places_in_loops import varied
from wavespec.schema import KernelSpec, loads

require_emulator()
pytestmark = pytest.mark.amd


@dataclass(frozen=True, slots=True)
class Varied(Case):
    """With another text."""

    text: str = ""

    @property
    def spec(self) -> KernelSpec:
        return loads(self.text)


@pytest.mark.rare
@pytest.mark.parametrize(
    "schedule", [{"stages": 2}, {"stages": 3, "workgroups": {"persistent": True, "count": 3}}], ids=str
)
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_rows_of_groups(target: str, schedule: dict[str, Any]) -> None:
    subject = next(one for one in subjects(target) if one.file == "grouped_gemm")
    case = Varied(subject, target, 0, text=varied("grouped_gemm", target, schedule).text)
    for sizes in map(subject.complete, subject.row.small):
        inputs = subject.inputs(sizes)
        subject.check(inputs, case.run(sizes, inputs), sizes)

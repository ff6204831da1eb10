"""Plans for many queries, whose rows are read into registers and whose values are turned, as machine code of CDNA."""

from __future__ import annotations

import pytest

from tests.amd.amd_gemms import figures, require_emulator
from tests.amd.emulated import Case
from tests.kernels import subjects

require_emulator()
pytestmark = pytest.mark.amd

SUBJECTS = {subject.name: subject for subject in subjects("gfx942", "gfx950")}
SIZES = {"B": 1, "H": 2, "M": 70, "N": 139}


@pytest.mark.parametrize(("target", "head"), [("gfx942", 56), pytest.param("gfx950", 120, marks=pytest.mark.rare)])
@pytest.mark.parametrize(
    "name", ["attention_gqa", "attention_alibi", "attention_masked_causal", "attention_padded"], ids=str
)
def test_edges_of_queries_and_keys(name: str, target: str, head: int) -> None:
    subject = SUBJECTS[name]
    groups = {"G": 1} if name == "attention_gqa" else {}
    sizes = subject.complete({**SIZES, **groups, "D": head, "E": head})
    case = Case(subject, target, subject.case(target, sizes))
    assert case.number < 2, "a plan for many queries"
    inputs = subject.inputs(sizes)
    subject.check(inputs, case.run(sizes, inputs), sizes)
    assert (figures(case)["vgpr_spill"], figures(case)["scratch_bytes_per_lane"]) == (0, 0)

"""Numbers of 64 bits as places and as bounds, in machine code executed by an emulator: offsets of buffers are modulo
2³², and what all lanes share passes through scalar registers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.amd.amd_gemms import require_emulator
from tests.amd.emulated import emulated
from tests.ops.outside import ROWS, Outside, cases
from tests.ops.wide_bounds import BOUNDS, Bounds

require_emulator()
pytestmark = [pytest.mark.amd, pytest.mark.rare]


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("case", cases(), ids=str)
def test_what_is_outside_reads_as_zero_and_is_not_written(case: Outside, target: str) -> None:
    case = replace(case, target=target)
    for rows in ROWS:
        inputs = case.inputs(rows)
        assert torch.equal(emulated(case, case.sizes, inputs)["y"], case.expected(inputs))


@pytest.mark.parametrize("word", BOUNDS)
def test_bounds_and_conditions_are_not_cut(word: str) -> None:
    case = Bounds(word)
    assert torch.equal(emulated(case, case.sizes, case.inputs)["y"], case.expected)

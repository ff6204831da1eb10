"""Short searches whose kernels run on an NVIDIA GPU itself, besides its simulator and the CPU: all are right."""

from __future__ import annotations

import pytest
import torch

from tests.fuzz.machines_here import is_here
from tests.fuzz.search import search
from tests.fuzz.search_variations import search_variations
from wavespec.targets.machine import machines

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.skipif(not any(map(is_here, machines("sm_90"))), reason="the CUDA device is no sm_90"),
]


def test_random_specs_are_computed_right() -> None:
    outcomes = search(2030, lambda number: number < 12)
    assert outcomes.failures == []
    assert outcomes.counts["right"] >= 8, str(outcomes)


def test_valid_variations_are_computed_right() -> None:
    summary = search_variations(2030, lambda number: number < 16, processes=8)
    assert summary.findings == []
    assert summary.on_gpus >= 4, str(summary)

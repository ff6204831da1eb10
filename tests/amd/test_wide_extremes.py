"""Places of extremes among elements of 64 bits as machine code, executed by an emulator of the instruction set."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tests.amd.amd_gemms import figures, loaded, require_emulator
from tests.kernels import tensor_to_array
from tests.ops.extremes import Extremes
from wavespec.schema import KernelSpec
from wavespec.sim.reference import reference

require_emulator()
pytestmark = pytest.mark.amd


@dataclass(frozen=True, slots=True)
class Subject:
    """Places of extremes on a machine."""

    extremes: Extremes
    dtype: str
    target: str = "gfx942"
    tile: tuple[int, int, int] = (1, 1, 1)

    @property
    def spec(self) -> KernelSpec:
        return self.extremes.spec


@pytest.mark.parametrize("dtype", ["f64", "i64"])
@pytest.mark.parametrize(("count", "largest"), [(0, False), (3, True)], ids=["argmin", "topk"])
def test_both_words_of_a_rank_decide(count: int, largest: bool, dtype: str) -> None:
    subject = Subject(Extremes(count, largest, dtype=dtype, wave=(1, 64)), dtype)
    x = subject.extremes.x((3, 70))
    x[1, ::2] = 2**53 + 2
    if dtype == "f64":
        x[2, 30], x[2, 40], x[0, 3] = float("nan"), float("nan"), -0.0
    elements, places = reference(subject.spec, x)
    memory = importlib.import_module("gfx_emulator").Memory()
    arrays = [
        tensor_to_array(x, dtype),
        *(np.full(right.shape, 77, right.numpy().dtype) for right in (elements, places)),
    ]
    addresses = [memory.add(array, name) for array, name in zip(arrays, ("x", "elements", "places"), strict=True)]
    loaded(subject)[0].run((1, 1, 1), [*addresses, *x.shape], mem=memory)
    for address, right in zip(addresses[1:], (elements, places), strict=True):
        found = torch.from_numpy(np.array(memory.get(address)))
        torch.testing.assert_close(found, right, rtol=0, atol=0, equal_nan=True)
    assert (figures(subject)["vgpr_spill"], figures(subject)["scratch_bytes_per_lane"]) == (0, 0)

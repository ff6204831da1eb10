"""Element types of 8 bits and less as results of machine code, executed by an emulator of the instruction set."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import numpy as np
import pytest

from tests.amd.amd_gemms import figures, loaded, require_emulator
from tests.ops.small_results import hard_numbers, right_bytes, small_results
from wavespec.schema import KernelSpec

require_emulator()
pytestmark = pytest.mark.amd


@dataclass(frozen=True, slots=True)
class Subject:
    """Results of one type on a machine."""

    dtype: str
    target: str = "gfx942"
    tile: tuple[int, int, int] = (1, 1, 1)

    @property
    def spec(self) -> KernelSpec:
        return small_results(self.dtype)


@pytest.mark.parametrize("dtype", ["f8e4m3fn", "f8e5m2fnuz", "f8e8m0fnu", "f6e3m2fn", "f4e2m1fn", "i4"])
def test_results_are_rounded_to_the_nearest_code(dtype: str) -> None:
    subject, x = Subject(dtype), hard_numbers(dtype)
    right = right_bytes(x, dtype)
    memory = importlib.import_module("gfx_emulator").Memory()
    arrays = {"x": x.numpy(), "y": np.full_like(right, 77), "z": np.full_like(right[None], 77)}
    addresses = [memory.add(array, name) for name, array in arrays.items()]
    loaded(subject)[0].run((-(-x.shape[0] // 8), 1, 1), [*addresses, *x.shape], mem=memory)
    np.testing.assert_array_equal(memory.get(addresses[1]), right)
    np.testing.assert_array_equal(memory.get(addresses[2])[0], right)
    assert (figures(subject)["vgpr_spill"], figures(subject)["scratch_bytes_per_lane"]) == (0, 0)

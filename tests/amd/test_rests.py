"""`fmod`, `remainder` and `floor_divide`, executed by an emulator of the instruction set: exact, whatever the exponents."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tests.amd.amd_gemms import Gemm, loaded, require_emulator
from tests.ops.rests import RESTS, SPEC, assert_exact, operands

require_emulator()
pytestmark = pytest.mark.amd


@dataclass(frozen=True, slots=True)
class Rests(Gemm):
    @property
    def text(self) -> str:
        return SPEC


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_rests_are_exact_however_large_the_quotient(target: str) -> None:
    (x, y), memory = operands(8), importlib.import_module("gfx_emulator").Memory()
    arrays = {"x": x.numpy(), "y": y.numpy(), **{word: np.zeros((8, 64), np.float32) for word in RESTS}}
    addresses = [memory.add(array, name) for name, array in arrays.items()]
    loaded(Rests(target=target))[0].run((2, 1, 1), [*addresses, 8], mem=memory)
    found = (torch.tensor(np.asarray(memory.get(address))) for address in addresses[2:])
    assert_exact(dict(zip(RESTS, found, strict=True)), x, y)

"""Products of every class of instructions for aarch64, run by an emulator: at edges of tiles, of one row, of none."""

from __future__ import annotations

from functools import cache
from typing import Final

import pytest
import torch

from tests.aarch64.emulated import emulated_launcher, needs_emulator
from tests.cpu.test_gemms import TORCH, product, whole_numbers
from tests.kernels import check_error
from tests.lower.gemms import Gemm
from wavespec.pipeline import build
from wavespec.runtime.kernel import Kernel
from wavespec.targets.machine import variants

pytestmark = [pytest.mark.rare, needs_emulator]

MACHINES = {machine.variant: machine for machine in variants("cpu") if machine.architecture == "aarch64"}
CLASSES: Final = {
    "smmla": ("aarch64_v8_6", "i8", (48, 32, 32)),
    "smmla of four rows": ("aarch64_v8_6", "i8", (32, 32, 32)),
    "bfmmla": ("aarch64_v8_6", "bf16", (48, 32, 32)),
    "bfdot along k": ("aarch64_v8_6", "bf16", (32, 24, 32)),
    "sdot": ("aarch64_v8_2", "i8", (48, 32, 32)),
    "sdot along k": ("aarch64_v8_2", "i8", (32, 24, 32)),
    "fmla": ("aarch64_v8", "f32", (48, 32, 32)),
    "smlal": ("aarch64_v8", "i8", (48, 32, 32)),
}
of_every_class = pytest.mark.parametrize("named", CLASSES)


@pytest.fixture(autouse=True)
def emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavespec.runtime.kernel.make_launcher", emulated_launcher)


@cache
def kernel(named: str) -> Kernel:
    variant, dtype, tile = CLASSES[named]
    spec = Gemm(dtype=dtype, tile=tile, wave=(None, None)).spec
    return Kernel(build(spec, "cpu", only=MACHINES[variant]))


@of_every_class
def test_whole_numbers_are_exact(named: str) -> None:
    dtype = CLASSES[named][1]
    for sizes in ((50, 37, 48), (1, 1, 16), (1, 33, 80), (7, 16, 32), (49, 3, 16), (5, 3, 0)):
        a, b = whole_numbers(dtype, *sizes)
        assert torch.equal(kernel(named)(a, b).double(), product(a, b)), sizes


@of_every_class
def test_other_numbers_are_as_close_as_those_of_torch(named: str) -> None:
    dtype = CLASSES[named][1]
    if dtype == "i8":
        a, b = (torch.randint(-128, 128, (rows, 1040), dtype=torch.int8) for rows in (29, 31))
        assert torch.equal(kernel(named)(a, b).double(), product(a, b))
        return
    random = torch.Generator().manual_seed(0)
    a, b = (torch.randn(rows, 1040, generator=random).to(TORCH[dtype]) for rows in (29, 31))
    check_error("c", kernel(named)(a, b), product(a, b), a.float() @ b.float().T)

"""Reductions as machine code, executed by an emulator of the instruction set."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import numpy as np
import pytest

from tests.amd.amd_gemms import loaded, require_emulator
from tests.ops.rows import Rows
from wavespec.ir.dtype import DTYPES
from wavespec.schema import KernelSpec
from wavespec.sim.elements import numpy_dtype

require_emulator()
pytestmark = pytest.mark.amd

TARGETS = ["gfx942", "gfx950"]
SUMS = Rows()


@dataclass(frozen=True, slots=True)
class Subject:
    """A reduction on a machine."""

    target: str
    rows: Rows = SUMS
    dtype: str = "f32"
    tile: tuple[int, int, int] = (1, 1, 1)

    @property
    def spec(self) -> KernelSpec:
        return self.rows.spec

    def run(self, x: np.ndarray, shape: tuple[int, ...], workgroups: int) -> np.ndarray:
        """One workgroup for each ``y`` that it takes, in the type of ``x``."""
        emulator = importlib.import_module("gfx_emulator")
        memory = emulator.Memory()
        out = np.full(shape, 77, x.dtype)
        addresses = [memory.add(array, name) for name, array in (("x", x), ("y", out))]
        loaded(self)[0].run((workgroups, 1, 1), [*addresses, *x.shape], mem=memory)
        return np.asarray(memory.get(addresses[1]))


@pytest.mark.parametrize("dtype", ["f64", "f16", "i64", "i32"])
def test_lanes_exchange_elements_of_any_size(dtype: str) -> None:
    x = np.random.default_rng(0).integers(-2, 3, (5, 130)).astype(numpy_dtype(DTYPES[dtype]))
    got = Subject("gfx942", rows=Rows(dtype=dtype)).run(x, (5,), 2)
    np.testing.assert_array_equal(got, x.sum(1))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("rows", "workgroups"),
    [(SUMS, 2), (Rows(tile=(2, 512), wave=(1, 128)), 3), (Rows(dim="M", tile=(8, 256), wave=(8, 256)), 3)],
    ids=["lanes", "waves", "columns"],
)
def test_sums_are_exact(target: str, rows: Rows, workgroups: int) -> None:
    shape = (5, 700)
    x = np.random.default_rng(0).integers(-9, 10, shape).astype(np.float32)
    axis = "MN".index(rows.dim)
    got = Subject(target, rows=rows).run(x, (shape[1 - axis],), workgroups)
    np.testing.assert_array_equal(got, x.sum(axis))

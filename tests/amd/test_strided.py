"""Tensors of any strides as machine code, executed by an emulator of the instruction set."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import numpy as np
import pytest

from tests.amd.amd_gemms import built, loaded, require_emulator
from tests.amd.emulated import with_scalars
from tests.rungs import often
from tests.strided.views import VIEWS, Arrays, Views
from wavespec.ir.dtype import DTYPES
from wavespec.ir.strided import ALIGNED_BYTES
from wavespec.runtime.launch_plan import make_plan
from wavespec.schema import KernelSpec
from wavespec.sim.elements import Array, poisoned

require_emulator()
pytestmark = pytest.mark.amd

TARGETS = ("gfx942", "gfx950")


@dataclass(frozen=True, slots=True)
class Case:
    """The kernel that a call takes."""

    views: Views
    target: str
    dtype: str = ""
    tile: tuple[int, int, int] = (1, 1, 1)

    @property
    def spec(self) -> KernelSpec:
        return self.views.case(self.target, self.views.arrays()).spec

    def run(self, arrays: Arrays) -> Arrays:
        """What the tensors hold behind the call; the emulator raises at a race or an access beyond what a view spans."""
        plan = make_plan(built(self), self.views.sizes(arrays) | self.views.numbers(arrays))
        plan = with_scalars(plan, self.views.spec, {})
        memory, tensors = importlib.import_module("gfx_emulator").Memory(), self.views.spec.tensors
        order = sorted(tensors, key=lambda name: tensors[name].role == "output")
        places = {name: _places(arrays[name], is_strided=tensors[name].is_strided) for name in order}
        addresses: dict[str, int] = {}
        for name, place in places.items():
            flat = poisoned(DTYPES[tensors[name].dtype], int(place.max()) + 1)
            flat[place] = arrays[name]
            addresses[name] = memory.add(flat, name)
        loaded(self)[0].run(plan.grid, [*addresses.values(), *plan.constants], mem=memory)
        flat = {name: np.asarray(memory.get(address)) for name, address in addresses.items()}
        for name, place in places.items():
            beside = np.delete(flat[name], place)
            assert np.array_equal(beside, poisoned(DTYPES[tensors[name].dtype], len(beside)), equal_nan=True), name
        return {name: flat[name][place] for name, place in places.items()}


def _places(array: Array, *, is_strided: bool) -> Array:
    """Where the elements are behind the address that the kernel gets."""
    if not is_strided:
        return np.arange(array.size).reshape(array.shape)
    places = np.full(array.shape, array.ctypes.data % ALIGNED_BYTES // array.itemsize)
    for index, stride in zip(np.indices(array.shape), array.strides, strict=True):
        places += index * (stride // array.itemsize)
    return places


@pytest.mark.parametrize(
    "views", often(VIEWS, lambda views: not views.name.startswith("fused")), ids=lambda views: views.name
)
@pytest.mark.parametrize("target", often(TARGETS, ["gfx942"]))
def test_views_are_read_and_written_where_they_are(target: str, views: Views) -> None:
    arrays = views.arrays()
    views.check(arrays, Case(views, target).run(arrays))

"""Every elementwise function, executed by an emulator of the instruction set: as near as torch, exact on whole numbers."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
import torch

from tests.amd.amd_gemms import Gemm, loaded, require_emulator
from tests.ops.epilogues import PLACES, epilogue, every_function, words_for
from wavespec.schema import KernelSpec
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.sim.reference import reference

require_emulator()
pytestmark = [pytest.mark.amd, pytest.mark.rare]

SIZES = {"M": 33, "N": 35, "K": 2}
NUMPY = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "bool": np.uint8}


@dataclass(frozen=True, slots=True)
class Functions(Gemm):
    """Those that take an element type, some of them."""

    of: str = "f32"
    part: int = 0

    @property
    def words(self) -> list[str]:
        return words_for(self.of)[self.part :: 3]

    @property
    def spec(self) -> KernelSpec:
        return every_function(self.words, self.of, tile=(32, 32, 32), wave=(32, 32), operands="bf16")

    @property
    def text(self) -> str:
        return dump_yaml(self.spec)


def inputs(spec: KernelSpec, of: str) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    shapes = {name: [SIZES[dim] for dim in tensor.shape] for name, tensor in spec.tensors.items()}
    whole = of in ("i32", "bool")
    made = {
        name: (random.integers(-3, 4, shapes[name]) if whole else random.standard_normal(shapes[name])).astype(
            ml_dtypes.bfloat16
        )
        for name in "ab"
    }
    other = random.integers(1, 5, shapes["other"]) if whole else 2 * random.standard_normal(shapes["other"])
    other = random.integers(0, 2, shapes["other"]) if of == "bool" else other
    return {**made, "other": other.astype(NUMPY[of]), "flag": random.integers(0, 2, shapes["flag"]).astype(np.uint8)}


CASES = [("gfx942", of) for of in ("f32", "f16", "i32", "bool")] + [("gfx950", "f32")]


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize(("target", "of"), CASES)
def test_every_function_is_as_near_as_torch(target: str, of: str, part: int) -> None:
    functions = Functions(target=target, of=of, part=part)
    spec, emulator = functions.spec, importlib.import_module("gfx_emulator")
    arrays, memory = inputs(spec, of), emulator.Memory()
    outputs = {
        name: np.full([SIZES[dim] for dim in tensor.shape], 77, NUMPY[tensor.dtype])
        for name, tensor in spec.tensors.items()
        if tensor.role == "output"
    }
    addresses = [memory.add(array, name) for name, array in (*arrays.items(), *outputs.items())]
    loaded(functions)[0].run((2, 2, 1), [*addresses, *SIZES.values()], mem=memory)
    tensors = [
        torch.tensor(array.astype(np.float32)).bfloat16() if array.dtype == ml_dtypes.bfloat16 else torch.tensor(array)
        for array in arrays.values()
    ]
    tensors = [x.bool() if spec.tensors[name].dtype == "bool" else x for name, x in zip(arrays, tensors, strict=True)]
    exact, torchs = reference(spec, *tensors), reference(spec, *tensors, compute=None)
    for name, address, right, theirs in zip(outputs, addresses[len(arrays) :], exact, torchs, strict=True):
        found = torch.tensor(np.asarray(memory.get(address)))
        if not theirs.is_floating_point():
            assert torch.equal(found.to(theirs.dtype), theirs), name
            continue
        finite = theirs.isfinite()
        assert torch.equal(found.isfinite(), finite), name
        error, other = ((x.double() - right)[finite].abs().max() for x in (found, theirs))
        assert error <= 2 * max(other, 2.0**-24 * right[finite].abs().max()), (name, error, other)


@dataclass(frozen=True, slots=True)
class Places(Gemm):
    """An epilogue of what depends on where an element is."""

    @property
    def spec(self) -> KernelSpec:
        return epilogue(*PLACES, tile=(64, 64, 32), wave=(32, 32), operands="bf16")


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_elements_know_their_place_and_their_bits(target: str) -> None:
    places, emulator, random = Places(target=target), importlib.import_module("gfx_emulator"), np.random.default_rng(0)
    memory, sizes = emulator.Memory(), (70, 77, 5)
    a, b = (random.integers(-2, 3, (rows, sizes[2])).astype(ml_dtypes.bfloat16) for rows in sizes[:2])
    out = np.full(sizes[:2], 77, np.float32)
    addresses = [memory.add(array, name) for name, array in (("a", a), ("b", b), ("c", out))]
    loaded(places)[0].run((2, 2, 1), [*addresses, *sizes], mem=memory)
    tensors = [torch.tensor(array.astype(np.float32)).bfloat16() for array in (a, b)]
    expected = reference(places.spec, *tensors, compute=torch.float32)
    assert torch.equal(torch.tensor(np.asarray(memory.get(addresses[-1]))), expected)

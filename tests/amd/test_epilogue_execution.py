"""What follows the sums of a GEMM, executed by an emulator of the instruction set: bias, residual, GELU, bf16 results."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

from tests.amd.amd_gemms import Gemm, figures, loaded, opcodes, require_emulator
from wavespec.schema import KernelSpec, load, spec_for_target
from wavespec.schema.language.expressions import Num
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.sim.reference import reference

require_emulator()
pytestmark = pytest.mark.amd

SPECS = Path(__file__).parents[2] / "specs"
TILE = 64
SIZES = ((64, 64, 32), (70, 77, 40), (1, 3, 8), (5, 66, 0))


@dataclass(frozen=True, slots=True)
class Linear(Gemm):
    """One of the specs, in tiles of 64 x 64 by 32."""

    name: str = "linear_gelu"

    @property
    def spec(self) -> KernelSpec:
        given = spec_for_target(load(SPECS / f"{self.name}.wave.yaml"), self.target)
        tiles = {"BLOCK_M": TILE, "BLOCK_N": TILE, "BLOCK_K": 32}
        params = {**given.params, **{name: Num(size) for name, size in tiles.items()}}
        return given.model_copy(update={"params": params, "schedule": None})

    @property
    def text(self) -> str:
        return dump_yaml(self.spec)


def results(
    linear: Linear, sizes: tuple[int, int, int], *, whole: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the emulator, f64 and torch in the spec's own types compute from whole or normal numbers."""
    spec, emulator = linear.spec, importlib.import_module("gfx_emulator")
    random = np.random.default_rng(sum(sizes))
    extents = dict(zip("MNK", sizes, strict=True))
    shapes = {name: [extents[dim] for dim in tensor.shape] for name, tensor in spec.tensors.items()}
    arrays = {
        name: (random.integers(-2, 3, shape) if whole else random.standard_normal(shape)).astype(ml_dtypes.bfloat16)
        for name, shape in shapes.items()
        if name != "c"
    }
    memory = emulator.Memory()
    out = np.full(shapes["c"], -7777, ml_dtypes.bfloat16)
    addresses = [memory.add(array, name) for name, array in (*arrays.items(), ("c", out))]
    grid = (-(-sizes[0] // TILE), -(-sizes[1] // TILE), 1)
    loaded(linear)[0].run(grid, [*addresses, *sizes], mem=memory)
    inputs = [torch.tensor(array.astype(np.float32)).bfloat16() for array in arrays.values()]
    got = torch.tensor(np.asarray(memory.get(addresses[-1])).astype(np.float64))
    return got, reference(spec, *inputs), reference(spec, *inputs, compute=None).double()


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_whole_numbers_are_exact(target: str, size: tuple[int, int, int]) -> None:
    for name in ("matmul", "linear_residual"):
        got, exact, _ = results(Linear(target=target, name=name), size, whole=True)
        assert torch.equal(got, exact.bfloat16().double()), name


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_gelu_errs_at_most_twice_as_much_as_torch(target: str) -> None:
    for size in SIZES[:3]:
        got, exact, torchs = results(Linear(target=target), size, whole=False)
        assert (got - exact).abs().max() <= 2 * (torchs - exact).abs().max(), size


def test_nothing_is_spilled_and_powers_are_one_instruction() -> None:
    linear = Linear()
    found = figures(linear)
    assert (found["vgpr_spill"], found["scratch_bytes_per_lane"]) == (0, 0)
    elements = TILE * TILE // (4 * 64)
    assert sum(name.startswith("v_exp_f32") for name in opcodes(linear)) == elements
    assert not any(name.startswith("v_ldexp") for name in opcodes(linear))

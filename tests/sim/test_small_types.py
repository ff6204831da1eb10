"""Every code of the element types of 8 bits and less: in the simulator of lanes, in the reference, packed and unpacked."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.kernels import tensor_to_elements
from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.ops import small_results as results
from tests.ops.small_types import OUTPUTS, TYPES, check, every_code, expected, small_types
from wavespec.ir.dtype import DTYPES
from wavespec.pipeline import lower
from wavespec.runtime.artifact import PACKED
from wavespec.runtime.checks import DTYPES as TORCH
from wavespec.schema.language.dtypes import PACKED as GROUPS
from wavespec.sim.packed import packed, unpacked, unpacked_codes
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("dtype", TYPES)
def test_every_code_is_its_number(dtype: str, machine: Machine) -> None:
    x, right = every_code(dtype), expected(every_code(dtype), dtype)
    array = tensor_to_elements(x, dtype)
    sizes = dict(zip("MN", array.shape, strict=True))
    report = simulate(lower(small_types(dtype), machine), machine, {"x": array, "y": array}, sizes)
    assert report.ok, report.render()
    for name in OUTPUTS:
        check(report.tensors[name], right[name])


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("dtype", results.TYPES)
def test_results_are_rounded_to_the_nearest_code(dtype: str, machine: Machine) -> None:
    x = results.hard_numbers(dtype)
    sizes = dict(zip("MN", x.shape, strict=True))
    report = simulate(lower(results.small_results(dtype), machine), machine, {"x": x.numpy()}, sizes)
    assert report.ok, report.render()
    right, bits = results.right_codes(x, dtype), 2 ** DTYPES[dtype].bits - 1
    y, z = (report.tensors[name].view(np.uint8) & bits for name in "yz")
    np.testing.assert_array_equal(y, right)
    np.testing.assert_array_equal(z[0], right)


@pytest.mark.parametrize("compute", [torch.float64, None])
@pytest.mark.parametrize("dtype", results.TYPES)
def test_the_reference_rounds_to_the_nearest_code(dtype: str, compute: torch.dtype | None) -> None:
    x = results.hard_numbers(dtype)
    right = torch.from_numpy(results.right_bytes(x, dtype))
    numbers = unpacked(right, dtype) if dtype in PACKED else right.view(TORCH[dtype]).float()
    y, z = reference(results.small_results(dtype), x, compute=compute)
    check(y.float().numpy(), numbers.float().numpy())
    check(z.float()[0].numpy(), numbers.float().numpy())


def test_whole_numbers_keep_their_lowest_bits() -> None:
    x, spec = torch.arange(-96, 96).float().view(-1, 24), results.small_results("i4")
    report = simulate(lower(spec, AMD), AMD, {"x": x.numpy()}, dict(zip("MN", x.shape, strict=True)))
    right = (x.int() + 8) % 16 - 8
    np.testing.assert_array_equal(reference(spec, x)[0].numpy(), right.numpy())
    np.testing.assert_array_equal(report.tensors["y"].astype(int), right.numpy())


@pytest.mark.parametrize("compute", [torch.float64, None])
@pytest.mark.parametrize("dtype", TYPES)
def test_the_reference_knows_every_code(dtype: str, compute: torch.dtype | None) -> None:
    x = every_code(dtype)
    for name, result in zip(OUTPUTS, reference(small_types(dtype), x, x, compute=compute), strict=True):
        check(result.float().numpy(), expected(x, dtype)[name])


@pytest.mark.parametrize("dtype", PACKED)
def test_packing_is_the_inverse_of_unpacking(dtype: str) -> None:
    x = every_code(dtype).view(torch.uint8)
    assert torch.equal(packed(unpacked_codes(x, dtype), dtype), x)


def test_all_layers_share_bytes_alike() -> None:
    assert {name: dtype.packed for name, dtype in DTYPES.items() if dtype.is_packed} == PACKED
    assert {name: elements for name, (elements, _) in PACKED.items()} == GROUPS

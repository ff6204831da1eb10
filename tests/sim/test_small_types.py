"""Every code of the element types of 8 bits and less: in the simulator of lanes, in the reference, packed and unpacked."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import tensor_to_elements
from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.ops.small_types import OUTPUTS, TYPES, check, every_code, expected, small_types
from wavespec.ir.dtype import DTYPES
from wavespec.pipeline import lower
from wavespec.runtime.artifact import PACKED
from wavespec.schema.dtypes import PACKED as GROUPS
from wavespec.sim.packed import packed, unpacked_codes
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

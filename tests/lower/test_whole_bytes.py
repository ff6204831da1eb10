"""Results whose elements share bytes: what a lane stores of them are whole bytes, or the write is refused."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import elements_to_tensor, tensor_to_elements
from tests.lower.gemms import AMD, CPU, NVIDIA
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

TEXT = """apiVersion: wavespec/v1
kind: Kernel
name: narrow
dims: {M: {}, N: {multiple_of: 4}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, N], dtype: f4e2m1fn, role: output}
constraints:
  - {workgroup: M, tile: 8, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
graph:
  - part: {read: x}
  - small: f4e2m1fn(part)
  - {write: small, to: y}
"""


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
def test_every_store_is_of_whole_bytes(machine: Machine) -> None:
    stores = [op for op in lower(loads(TEXT), machine).walk() if op.name == "store"]
    assert stores
    assert all(op.operands[0].vector.elements % 2 == 0 and op["offset"].divisor % 2 == 0 for op in stores)


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
def test_rows_of_odd_numbers_of_bytes_are_copied_byte_by_byte(machine: Machine) -> None:
    text = (
        TEXT.replace("multiple_of: 4", "multiple_of: 2").replace("f32}", "f4e2m1fn}").replace("f4e2m1fn(part)", "part")
    )
    kernel = lower(loads(text.replace("  - small: part\n", "").replace("write: small", "write: part")), machine)
    x = torch.arange(5 * 33, dtype=torch.uint8).reshape(5, 33).view(torch.float4_e2m1fn_x2)
    report = simulate(kernel, machine, {"x": tensor_to_elements(x, "f4e2m1fn")}, {"M": 5, "N": 66})
    assert report.ok, report.render()
    assert elements_to_tensor(report.tensors["y"], "f4e2m1fn").view(torch.uint8).equal(x.view(torch.uint8))


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
def test_a_row_that_is_turned_round_is_refused(machine: Machine) -> None:
    spec = loads(TEXT.replace("to: y}", "to: y, at: {N: size(N) - 1 - N}}"), "narrow.wave.yaml")
    with pytest.raises(WavespecError) as caught:
        lower(spec, machine)
    assert (
        str(caught.value)
        == """\
narrow.wave.yaml:14:5: error[part-of-byte]: 'y' has 2 elements of f4e2m1fn in a byte, but a lane has single ones of them to write.
    |
 14 |   - {write: small, to: y, at: {N: size(N) - 1 - N}}
    |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    = note: For TARGET.
    = hint: Let neighbours along 'N' be neighbours in the value: a tile of 2 or more along it, and a place that counts in its last dim \
without a factor.""".replace("TARGET", machine.target)
    )

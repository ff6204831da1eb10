"""Many numbers that few divide, on CPUs: products by reciprocals where the quotients are rounded to 16 bits."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import array_to_tensor, tensor_to_array
from wavespec.ir.kernel import Kernel
from wavespec.ir.thread_ops import ELEMENTWISE
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

CPU = machines("cpu")[0]
ROWS = """\
apiVersion: wavespec/v1
kind: Kernel
name: normalized
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: f32}
  scale: {shape: [M], dtype: f32}
  y: {shape: [M, N], dtype: bf16, role: output}
graph:
  - part: {read: x}
  - divisor: {read: scale}
  - quotient: part / divisor
  - result: bf16(quotient)
  - {write: result, to: y}
"""


def vectors(kernel: Kernel, function: str) -> set[int]:
    """How many elements are divided at once."""
    return {op.result.vector.elements for op in kernel.walk() if op.is_(ELEMENTWISE) and op["function"] == function}


def test_a_row_has_one_division() -> None:
    assert vectors(lower(loads(ROWS), CPU), "div") == {1}


@pytest.mark.parametrize(
    "edit", [("dtype: bf16", "dtype: f32"), ("scale: {shape: [M]", "scale: {shape: [M, N]")], ids=["f32", "as many"]
)
def test_exact_quotients_and_those_by_as_many_numbers_stay(edit: tuple[str, str]) -> None:
    spec = ROWS.replace(*edit)
    spec = spec.replace("bf16(quotient)", "quotient + 0") if edit[1].endswith("f32") else spec
    assert max(vectors(lower(loads(spec), CPU), "div")) > 1


def test_numbers_of_any_size_have_their_quotients() -> None:
    """Those of divisors below 2^-128, too, whose reciprocals no f32 has."""
    spec = loads(ROWS)
    scale = torch.tensor([3.0, 2.0**-149, 2.0**-130, 2.0**127, -7.5, torch.inf, 0.0, torch.nan])
    x = scale[:, None] * torch.tensor([1.0, 3.0, -0.25, 40.0, 0.0])
    x[5:] = torch.tensor([1.0, -1.0, 0.0, torch.inf, torch.nan])
    arrays = {"x": tensor_to_array(x, "f32"), "scale": tensor_to_array(scale, "f32")}
    report = simulate(lower(spec, CPU), CPU, arrays, complete_sizes(spec, {"M": 8, "N": 5}))
    assert report.ok, report.render()
    found = array_to_tensor(report.tensors["y"], "bf16")
    exact = (x / scale[:, None]).bfloat16()
    assert torch.equal(found.nan_to_num(5), exact.nan_to_num(5))

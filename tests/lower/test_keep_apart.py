"""Where workgroups share out columns, rows that values name are combined by vectors, one after the other."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from tests.kernels import tensor_to_array
from tests.lower.gemms import AMD, CPU, NVIDIA
from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel as LoweredKernel
from wavespec.ir.thread_ops import ATOMIC, FOR, STORE
from wavespec.pipeline import best_variant, build, lower
from wavespec.runtime.kernel import Kernel
from wavespec.schema import KernelSpec, loads
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

SCATTER = """\
apiVersion: wavespec/v1
kind: Kernel
name: scattered
dims: {V: {}, T: {}, D: {}}
tensors:
  y: {shape: [V, D], dtype: DTYPE, role: inout}
  row: {shape: [T], dtype: i64}
  x: {shape: [T, D], dtype: DTYPE}
constraints:
  - {workgroup: T, tile: 4, axis: 0}
  - {workgroup: D, tile: 32, axis: 1}
  - {wave: T, tile: 1}
graph:
  - into: {read: row}
  - values: {read: x}
  - WRITE
"""


@cache
def spec(dtype: str = "f32", combine: str = "add", write: str = "") -> KernelSpec:
    write = write or f"{{write: values, to: y, at: {{V: into}}, combine: {combine}}}"
    return loads(SCATTER.replace("DTYPE", dtype).replace("WRITE", write), "scattered.wave.yaml")


def has_atomics(kernel: LoweredKernel) -> bool:
    return any(op.is_(ATOMIC) for op in kernel.walk())


def test_workgroups_along_rows_are_one() -> None:
    kernel = lower(spec(), CPU)
    assert not has_atomics(kernel)
    assert kernel.grid[0] is const(1)
    (outer,) = (op for op in kernel.body if op.is_(FOR))
    assert outer["induction"] == "wg0"
    assert all(op["apart"] == (1,) for op in kernel.walk() if op.is_(STORE))


@pytest.mark.parametrize("machine", [NVIDIA, AMD], ids=lambda machine: machine.target)
def test_lanes_that_run_side_by_side_take_atomic_steps(machine: Machine) -> None:
    assert has_atomics(lower(spec(), machine))


def test_elements_that_others_may_name_take_atomic_steps() -> None:
    of_others = "{write: values, to: y, at: {V: into, D: D + 1}, combine: add}"
    assert has_atomics(lower(spec(write=of_others), CPU))


def inputs(dtype: torch.dtype, rows: int, places: int, columns: int) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(rows + columns)
    numbers = [torch.randint(-3, 4, (count, columns), generator=random).to(dtype) for count in (places, rows)]
    return [numbers[0], torch.randint(-1, places + 1, (rows,), generator=random), numbers[1]]


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("dtype", "combine"),
    [("f32", "add"), ("bf16", "add"), ("f16", "add"), ("f64", "max"), ("i32", "min"), ("i32", "xor")],
)
def test_rows_that_come_several_times_count_each_time(dtype: str, combine: str) -> None:
    one = spec(dtype, combine)
    kernel = Kernel(build(one, "cpu", only=best_variant("cpu")))
    types = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}
    for rows, places, columns in ((97, 3, 70), (1, 1, 1), (40, 5, 32), (0, 4, 33)):
        given = inputs(types.get(dtype, torch.int32), rows, places, columns)
        right = reference(one, *[tensor.clone() for tensor in given])
        torch.testing.assert_close(kernel(*given), right.to(given[0].dtype), rtol=0, atol=0)


def test_the_simulator_finds_no_race() -> None:
    one, given = spec(), inputs(torch.float32, 9, 3, 40)
    arrays = {
        name: tensor_to_array(tensor, one.tensors[name].dtype) for name, tensor in zip(one.tensors, given, strict=True)
    }
    report = simulate(lower(one, CPU), CPU, arrays, {"V": 3, "T": 9, "D": 40})
    assert report.ok, report.render()
    right = reference(one, *given)
    np.testing.assert_array_equal(report.tensors["y"], right.float().numpy())

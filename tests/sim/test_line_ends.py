"""Tensors of one dim that end within an access, what lanes write of several types, and windows of neighbours: how wide
accesses are, and what lanes compute."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import array_to_tensor, tensor_to_array
from wavespec.ir.kernel import Kernel
from wavespec.ir.thread_ops import ELEMENTWISE, LOAD, STORE
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

HOPPER = machines("sm_90")[0]
_HEAD = "apiVersion: wavespec/v1\nkind: Kernel\nname: one\ndoc: for tests\n"
MIXED = f"""{_HEAD}
dims: {{N: {{}}}}
tensors:
  x: {{shape: [N], dtype: bf16}}
  y: {{shape: [N], dtype: f32, role: inout}}
graph:
  - new: {{read: x}}
  - old: {{read: y}}
  - result: f32(new) + old
  - {{write: result, to: y}}
"""
NORM = f"""{_HEAD}
dims: {{N: {{}}}}
tensors:
  x: {{shape: [N], dtype: bf16}}
  norm: {{shape: [], dtype: f32, role: output}}
graph:
  - none: {{register: [], dtype: f32, value: 0}}
  - sums:
      iterate: N
      carry: {{total: none}}
      body:
        - part: {{read: x}}
        - square: f32(part) * f32(part)
        - total: {{sum: square, dim: N, init: total}}
  - {{write: sums.total, to: norm}}
"""
TAPS = f"""{_HEAD}
dims: {{M: {{}}, N: {{multiple_of: 8}}, W: {{value: 4}}}}
tensors:
  x: {{shape: [M, N], dtype: bf16}}
  y: {{shape: [M, N], dtype: bf16, role: output}}
graph:
  - taps: {{read: x, dims: [M, N, W], at: {{N: N + W - 3}}}}
  - wide: f32(taps)
  - total: {{sum: wide, dim: W}}
  - result: bf16(total)
  - {{write: result, to: y}}
"""
QUOTIENT = f"""{_HEAD}
dims: {{N: {{}}}}
tensors:
  a: {{shape: [N], dtype: f32}}
  b: {{shape: [N], dtype: f32}}
  c: {{shape: [N], dtype: bf16, role: output}}
graph:
  - left: {{read: a}}
  - right: {{read: b}}
  - ratio: left / right
  - result: bf16(ratio)
  - {{write: result, to: c}}
"""


def lowered(spec: KernelSpec) -> Kernel:
    return lower(spec, HOPPER)


def widths(kernel: Kernel, memory: str) -> set[int]:
    """Elements of each access of a lane."""
    accesses = [op for op in kernel.walk() if op.is_(LOAD, STORE) and op["memory"] == memory]
    return {(op.operands[0] if op.is_(STORE) else op.result).vector.elements for op in accesses}


def functions(kernel: Kernel) -> list[str]:
    return [op["function"] for op in kernel.walk() if op.is_(ELEMENTWISE)]


def simulated(text: str, output: str, sizes: dict[str, int], **given: torch.Tensor) -> torch.Tensor:
    spec = loads(text)
    arrays = {name: tensor_to_array(x, spec.tensors[name].dtype) for name, x in given.items()}
    report = simulate(lowered(spec), HOPPER, arrays, complete_sizes(spec, sizes))
    assert report.ok, report.render()
    return array_to_tensor(report.tensors[output], spec.tensors[output].dtype)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 2047, 2049])
def test_a_tensor_of_one_dim_may_end_within_an_access(n: int) -> None:
    """Nothing behind it is read or written, and nothing in it is left out."""
    x, y = torch.randn(n).bfloat16(), torch.randn(n)
    assert torch.equal(simulated(MIXED, "y", {"N": n}, x=x, y=y.clone()), x.float() + y)


def test_lanes_write_16_bytes_of_the_widest_type_at_once() -> None:
    """Eight elements of f32 would be two accesses, each of half of the sectors that a wave has."""
    kernel = lowered(loads(MIXED))
    assert widths(kernel, "y") == {4}
    assert widths(kernel, "x") == {4}


@pytest.mark.parametrize("n", [131_075, 4_194_305])
def test_parts_of_a_line_are_read_by_widest_accesses_wherever_it_ends(n: int) -> None:
    spec = loads(NORM)
    parts = case_for_sizes(cases_for_target(spec, "sm_90"), {"N": n}).kernels[0]
    assert widths(lowered(parts), "x") == {8}


def test_a_spec_for_which_parts_are_for_all_sizes_has_them_as_a_case() -> None:
    promised = loads(NORM.replace("dims: {N: {}}", "dims: {N: {min: 131072}}"))
    assert [len(case.kernels) for case in cases_for_target(promised, "sm_90")] == [2, 2, 2, 2, 1]


def test_taps_that_a_wider_access_has_are_taken_from_it() -> None:
    """Of eight results a lane reads their own elements at once, and three in front of these."""
    kernel = lowered(loads(TAPS))
    places = [op["offset"] for op in kernel.walk() if op.is_(LOAD) and op["memory"] == "x"]
    assert widths(kernel, "x") == {8, 2, 1}
    assert len({*places}) == len(places), "nothing is read twice"
    x = torch.randint(-9, 9, (3, 264)).bfloat16()
    padded = torch.nn.functional.pad(x.float(), (3, 0))
    expected = torch.stack([padded[:, at : at + 264] for at in range(4)]).sum(0)
    assert torch.equal(simulated(TAPS, "y", {"M": 3, "N": 264}, x=x).float(), expected)


def test_quotients_that_become_16_bits_are_close_and_others_exact() -> None:
    assert "ratio" in functions(lowered(loads(QUOTIENT)))
    exact = QUOTIENT.replace("dtype: bf16", "dtype: f32").replace("bf16(ratio)", "ratio + 0")
    assert "ratio" not in functions(lowered(loads(exact)))
    n = torch.arange(1, 1000).float()
    assert torch.equal(simulated(QUOTIENT, "c", {"N": 999}, a=n * 3, b=n), torch.full((999,), 3.0).bfloat16())

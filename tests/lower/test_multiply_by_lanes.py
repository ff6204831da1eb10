"""Products of small matrices by vectors of results: what is read, in which order it is multiplied, and that it is right."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

from tests.kernels import SPECS, Sizes, Subject, subjects
from tests.sim.cases import lowered_case, run_case
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import DOT, LOAD
from wavespec.lower.choose_instructions import NoMatrixInstruction
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.cases import TargetCase
from wavespec.targets.machine import variants

MACHINES = {machine.variant: machine for machine in variants("cpu")}
PIXELS, TAPS = 7, 9
SMALL: Sizes = {"N": 1, "H": 2, "W": 8, "C": 32, "O": 32, "R": 3, "S": 3, "D": 4}
DIVIDED = """apiVersion: wavespec/v1
kind: Kernel
name: divided
dims: {B: {value: 4}, M: {}, N: {value: 4}, K: {value: 8}}
tensors:
  a: {shape: [M, B, K], dtype: i8}
  b: {shape: [B, N, K], dtype: i8}
  c: {shape: [M, B, N], dtype: i32, role: output}
constraints:
  - {workgroup: M, tile: 8, axis: 0}
  - {tiling: K, tile: 8}
  - {wave: M, tile: 8}
  - {hardware: {mma: lanes}}
graph:
  - zero: {register: [M, B, N], dtype: i32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
  - {write: k_loop.acc, to: c}
"""


def cases(name: str) -> tuple[Subject, list[TargetCase]]:
    (subject,) = (one for one in subjects("cpu") if one.name == name)
    return subject, [case for case in subject.cases("cpu") if case.before]


@cache
def lowered(number: int, variant: str = "x86_64_v4") -> Kernel:
    return lower(cases("conv2d_grouped_f32")[1][number].spec, MACHINES[variant])


def ops(kernel: Kernel) -> tuple[list[Op], list[Op]]:
    """Products, and loads of pixels."""
    every = list(kernel.walk())
    return [op for op in every if op.is_(DOT)], [op for op in every if op.is_(LOAD) and op["memory"] == "x"]


@pytest.mark.parametrize(("number", "channels"), [(0, 4), (1, 8), (2, 16)])
def test_a_vector_of_pixels_is_read_once_and_nothing_is_multiplied_by_zeros(number: int, channels: int) -> None:
    products, pixels = ops(lowered(number))
    assert len(products) == PIXELS * TAPS * channels
    assert {op["runs"] for op in products} == {16 // channels}
    assert len(pixels) == (PIXELS + 2) * 3
    assert {op.result.vector.elements for op in pixels} == {16}


def test_narrow_vectors_are_several() -> None:
    products, pixels = ops(lowered(0, "aarch64_v8"))
    assert {op.result.vector.elements for op in products} == {4}
    assert len(products) == PIXELS * TAPS * 4 * 4
    assert len(pixels) == (PIXELS + 2) * 3 * 4


def test_products_behind_one_another_add_to_other_sums() -> None:
    products, _ = ops(lowered(0))
    apart = [one.result.name != other.operands[2].name for one, other in pairwise(products)]
    assert all(apart)


def test_a_pixel_meets_its_taps_at_once() -> None:
    products, _ = ops(lowered(1))
    keys = [(op.operands[0].name, op["start"]) for op in products]
    assert sum(one != other for one, other in pairwise(keys)) + 1 == len({*keys})


@pytest.mark.always
@pytest.mark.rare
@pytest.mark.parametrize("variant", ["x86_64_v2", "x86_64_v3", "x86_64_v4_bf16", "aarch64_v8_6"])
@pytest.mark.parametrize("name", ["conv2d_grouped", "conv2d_grouped_f32"])
def test_groups_are_right(name: str, variant: str) -> None:
    subject, (case, *_) = cases(name)
    sizes, machine = subject.complete(SMALL), MACHINES[variant]
    inputs = subject.inputs(sizes)
    subject.check(inputs, run_case(subject, case, lowered_case(case, machine), machine, sizes, inputs), sizes)


def test_other_types_are_refused() -> None:
    with pytest.raises(NoMatrixInstruction, match="'lanes' does not multiply i8"):
        lower(loads(DIVIDED, "divided.wave.yaml", SPECS), MACHINES["x86_64_v4"])

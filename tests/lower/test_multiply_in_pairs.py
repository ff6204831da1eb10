"""Sums of products of 16 bits by instructions for pairs: which products meet, how often vectors are made, and that it
is right."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.kernels import SPECS, Sizes, Subject, subjects
from tests.sim.cases import lowered_case, run_case
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import DOT, ELEMENTWISE, TRANSPOSE
from wavespec.pipeline import emit, lower
from wavespec.schema import loads
from wavespec.schema.cases import TargetCase
from wavespec.targets.machine import variants

MACHINES = {machine.variant: machine for machine in variants("cpu")}
PAIRS = MACHINES["x86_64_v4_bf16"]
ROWS, COLUMNS, TAPS = 2, 7, 9
"""Of a wave of the first case, and of its windows."""
SMALL: Sizes = {"N": 1, "H": 5, "W": 6, "C": 32, "R": 3, "S": 3}
SUMMED = """apiVersion: wavespec/v1
kind: Kernel
name: summed
dims: {M: {multiple_of: 16}}
tensors:
  a: {shape: [M], dtype: bf16}
  b: {shape: [M], dtype: bf16}
  c: {shape: [M], dtype: f32}
  d: {shape: [M], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 16, axis: 0}
  - {wave: M, tile: 16}
  - {hardware: {mma: lanes}}
graph:
  - one: {read: a}
  - two: {read: b}
  - start: {read: c}
  - total: f32(one) * f32(two) + start + f32(two) * f32(two)FURTHER
  - {write: total, to: d}
"""


def depthwise() -> tuple[Subject, list[TargetCase]]:
    (subject,) = (one for one in subjects("cpu") if one.name == "conv2d_depthwise")
    return subject, [*subject.cases("cpu")]


def dots(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.walk() if op.is_(DOT)]


def summed(further: str = "") -> Kernel:
    return lower(loads(SUMMED.replace("FURTHER", further), "summed.wave.yaml", SPECS), PAIRS)


def test_a_window_takes_two_thirds_of_the_products_and_columns_share_vectors() -> None:
    kernel = lower(depthwise()[1][0].spec, PAIRS)
    rows_together = 2  # of three
    assert len(dots(kernel)) == ROWS * COLUMNS * TAPS * rows_together // 3
    made = [op for op in kernel.walk() if op.is_(TRANSPOSE)]
    assert len(made) == ((COLUMNS + 2) * ROWS + 3) * rows_together, "of pixels, and of taps"
    assert not any(op.is_(ELEMENTWISE) for op in kernel.walk())


def test_pairs_are_one_shuffle() -> None:
    text = emit(depthwise()[1][0].spec, PAIRS).text
    assert text.count(": vector<16xi16>, vector<16xi16>") == ((COLUMNS + 2) * ROWS + 3) * 2


@pytest.mark.parametrize("variant", ["x86_64_v3", "x86_64_v4", "aarch64_v8"])
def test_machines_without_such_instructions_multiply_one_by_one(variant: str) -> None:
    assert not dots(lower(depthwise()[1][0].spec, MACHINES[variant]))


def test_sums_begin_with_their_other_term() -> None:
    (dot,) = dots(summed())
    assert dot.operands[2].name.startswith("start")
    assert not dots(summed(" + start")), "two of them"


@pytest.mark.parametrize("variant", ["x86_64_v4_bf16", "x86_64_amx", "aarch64_v8_6", "x86_64_v4"])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_windows_are_right(variant: str, number: int) -> None:
    subject, cases = depthwise()
    sizes, machine, case = subject.complete(SMALL), MACHINES[variant], cases[number]
    inputs = subject.inputs(sizes)
    subject.check(inputs, run_case(subject, case, lowered_case(case, machine), machine, sizes, inputs), sizes)


TILES = MACHINES["x86_64_amx"]
"""Has an instruction for pairs, which takes longer than products of f32."""


def test_products_are_made_one_by_one_where_pairs_take_longer() -> None:
    kernel = lower(depthwise()[1][0].spec, TILES)
    found = dots(kernel)
    assert {op["instruction"] for op in found} == {"lanes_bf16_singly"}
    assert len(found) == ROWS * COLUMNS * TAPS
    assert not any(op.is_(ELEMENTWISE, TRANSPOSE) for op in kernel.walk())


def test_a_pixel_is_widened_once_and_meets_its_taps_one_after_another() -> None:
    found = dots(lower(depthwise()[1][0].spec, TILES))
    pixels = [op.operands[0].name for op in found]
    assert len({*pixels}) == (ROWS + 2) * (COLUMNS + 2)
    assert sum(one != other for one, other in pairwise(pixels)) == len({*pixels}) - 1


def test_sums_of_pairs_are_asked_for_by_that_instruction_all_the_same() -> None:
    assert {op["instruction"] for op in dots(lower(depthwise()[1][0].spec, PAIRS))} == {"lanes_bf16"}

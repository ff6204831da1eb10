"""Operands that lanes decode on the way into the asynchronous matrix unit: every case with waves that only copy, in the
simulator, partial tiles included."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.kernels import Subject, subjects, tensor_to_elements
from tests.sim.plan_variations import simulated
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
_STAGED = (5, *[1] * 7, *[5] * 4, *[9] * 6, 30, 30, *[20] * 3, 30, 30, *[40] * 3, *[50] * 4, *[70] * 14, 9)
_WEIGHTS = {**dict(enumerate(_STAGED)), 51: 40, 52: 50, 55: 70, 56: 70, 57: 70}
ROWS = {"linear_i4": _WEIGHTS, "linear_i4_f16": _WEIGHTS}
"""Of each case without kernels before the fewest rows, or a few more, that it is for."""
DECODING = [subject for subject in subjects("sm_90") if subject.name in ROWS]
_OF_LANES = (
    (4096, 8, 32),
    *((2048, 8, 32), (2048, 4, 32), (1536, 8, 16), (1536, 4, 32), (2048, 4, 32), (1536, 4, 32), (1120, 8, 32)),
    *((2048, 8, 32), (2048, 8, 32), (2048, 4, 32), (2048, 4, 32)),
)
"""Of cases whose lanes read weights from the tensor a size of K, waves that share it out, and weights of a load."""
WITH_PRODUCERS = [
    (subject, number)
    for subject in DECODING
    for number, case in enumerate(subject.cases("sm_90"))
    if lower(case.spec, HOPPER, after="assign-tiles").producers and not case.before
]


@pytest.mark.parametrize(("subject", "number"), WITH_PRODUCERS, ids=lambda value: getattr(value, "name", str(value)))
def test_every_case_is_right_without_a_race(subject: Subject, number: int) -> None:
    sizes = {"M": ROWS[subject.name][number], "N": 72, "K": 1024}
    kernel = lower(subject.cases("sm_90")[number].spec, HOPPER)
    inputs = subject.inputs(sizes)
    subject.check(inputs, simulated(subject, kernel, HOPPER, subject.complete(sizes), inputs), sizes)


def test_lanes_read_staged_weights_and_hand_on_sums_without_bank_conflicts() -> None:
    """Neighbouring rows of a swizzled tile would have two lanes ask a bank at once for weights."""
    kernels = (lower(subject.cases("sm_90")[number].spec, HOPPER) for subject, number in WITH_PRODUCERS)
    kernel = next(one for one in kernels if any(memory.over for memory in one.memories) and one.cluster == 1)
    subject, sizes = DECODING[0], {"M": 9, "N": 72, "K": 1024}
    names = (name for name, tensor in subject.spec.tensors.items() if tensor.role == "input")
    inputs = zip(names, subject.inputs(sizes), strict=True)
    arrays = {name: tensor_to_elements(tensor, subject.spec.tensors[name].dtype) for name, tensor in inputs}
    found = simulate(kernel, HOPPER, arrays, subject.complete(sizes)).bank_conflicts
    shown = {name.partition(" (")[0]: ratio for name, ratio in found.items()}
    assert shown["load @w.shared"] == 1
    assert {ratio for name, ratio in shown.items() if name.endswith(".parts")} == {1}


def test_these_are_the_cases() -> None:
    assert [(subject.name, number) for subject, number in WITH_PRODUCERS] == [
        (name, number) for name, rows in ROWS.items() for number in rows if number >= len(_OF_LANES)
    ]


@pytest.mark.parametrize("number", range(len(_OF_LANES)))
@pytest.mark.parametrize("name", ["linear_i4", "linear_i4_f16"])
def test_lanes_read_the_weights_of_few_rows_from_the_tensor(name: str, number: int) -> None:
    subject = next(one for one in DECODING if one.name == name)
    k, waves, elements = _OF_LANES[number]
    sizes = {"M": ROWS[name][number], "N": 64, "K": k}
    kernel = lower(subject.cases("sm_90")[number].spec, HOPPER)
    assert dict(kernel.waves)["wave_K"] == waves
    loads = [op.result.vector for op in kernel.walk() if op.name == "load" and op["memory"] == "w"]
    assert {vector.elements for vector in loads} == {elements}
    inputs = subject.inputs(sizes)
    subject.check(inputs, simulated(subject, kernel, HOPPER, subject.complete(sizes), inputs), sizes)


SHARED = """apiVersion: wavespec/v1
kind: Kernel
name: decoded
dims: {M: {}, N: {multiple_of: 8}, K: {multiple_of: 16}}
tensors:
  a: {shape: [M, K], dtype: A, space: shared}
  b: {shape: [N, K], dtype: B, space: shared}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 128, axis: 0}
  - {workgroup: N, tile: 128, axis: 1}
  - {tiling: K, tile: 64}
  - {wave: M, tile: 64}
  - {wave: N, tile: 128}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - small: {cast: CODED, dtype: bf16}
        - acc: {mma: [LEFT, RIGHT, acc]}
  - {write: k_loop.acc, to: c}
schedule: {stages: 3, waves: {producers: 1}}
"""


@pytest.mark.parametrize(
    ("a", "b", "coded", "factors"),
    [("bf16", "i8", "b_tile", ("a_tile", "small")), ("i8", "bf16", "a_tile", ("small", "b_tile"))],
    ids=["right", "left"],
)
def test_what_waves_share_is_laid_down_before_a_product_takes_the_other_factor_from_registers(
    a: str, b: str, coded: str, factors: tuple[str, str]
) -> None:
    words = {"dtype: A": f"dtype: {a}", "dtype: B": f"dtype: {b}", "CODED": coded}
    words |= dict(zip(("LEFT", "RIGHT"), factors, strict=True))
    text = SHARED
    for old, new in words.items():
        text = text.replace(old, new)
    random = np.random.default_rng(0)
    types = {"bf16": ml_dtypes.bfloat16, "i8": np.int8}
    left, right = (random.integers(-4, 5, (n, 112)).astype(types[t]) for n, t in ((130, a), (136, b)))
    kernel = lower(loads(text, "decoded.wave.yaml"), HOPPER)
    report = simulate(kernel, HOPPER, {"a": left, "b": right}, {"M": 130, "N": 136, "K": 112})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], left.astype(np.float32) @ right.astype(np.float32).T)

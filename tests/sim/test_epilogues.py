"""What follows the sums of a GEMM, simulated on every kind of machine."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from tests.lower.gemms import MACHINES, run
from tests.ops.epilogues import PLACES, epilogue, every_function, words_for
from wavespec.ir.dtype import DTYPES
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec
from wavespec.sim.elements import numpy_dtype
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines

AMX, AVX2 = machines("cpu")[0], machines("cpu")[-1]
CONCURRENT = [machine for machine in MACHINES if machine.concurrent_waves]
SIMULATED = [*CONCURRENT, AMX, AVX2]
TENSORS = """bias: {shape: [N], dtype: bf16}
  scale: {shape: [M], dtype: f32}
  turned: {shape: [N, M], dtype: f32}"""
MIXED = (
    "bias_tile: {read: bias}",
    "bias_f32: {cast: bias_tile, dtype: f32}",
    "scale_tile: {read: scale}",
    "turned_tile: {read: turned}",
    "twice: {mul: [2, scale_tile]}",
    "scaled: {mul: [sums.acc, twice]}",
    "biased: {sub: [bias_f32, scaled]}",
    "added: {add: [biased, turned_tile]}",
    "y: {maximum: [added, -50]}",
)


def tile_of(machine: Machine, operands: str) -> tuple[int, int, int]:
    """One that the machine has an instruction for; where waves take turns, two by two of them."""
    if machine.concurrent_waves:
        return 64, 64, 64
    row = next(row for row in machine.instructions if operands in {kind.name for kind in row.inputs})
    return 2 * row.m, 2 * row.n, 2 * row.k


def spec(*statements: str, machine: Machine, result: str, operands: str = "bf16", tensors: str = "") -> KernelSpec:
    tile = tile_of(machine, operands)
    return epilogue(
        *statements,
        result=result,
        operands=operands,
        tensors=tensors,
        tile=tile,
        wave=(32, tile[1]) if machine.concurrent_waves else tile[:2],
    )


def sizes(machine: Machine, operands: str = "bf16") -> dict[str, int]:
    """Such that waves at every edge are partly outside."""
    m, n, k = tile_of(machine, operands)
    return {"M": m // 2 + 5, "N": n // 2 + 3, "K": k + 1}


@pytest.mark.parametrize("machine", SIMULATED, ids=lambda machine: machine.variant)
def test_broadcasts_along_either_dim_are_exact(machine: Machine) -> None:
    report, expected = run(spec(*MIXED, machine=machine, result="f32", tensors=TENSORS), machine, sizes(machine))
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)


@pytest.mark.parametrize("machine", SIMULATED, ids=lambda machine: machine.variant)
@pytest.mark.parametrize("result", ["bf16", "f16", "f64", "i32"])
def test_results_are_converted_by_rounding_once(machine: Machine, result: str) -> None:
    statement = f"y: {{cast: sums.acc, dtype: {result}}}"
    report, expected = run(spec(statement, machine=machine, result=result), machine, sizes(machine))
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected.astype(numpy_dtype(DTYPES[result])))


@pytest.mark.parametrize("machine", SIMULATED, ids=lambda machine: machine.variant)
def test_whole_numbers_stay_whole(machine: Machine) -> None:
    statements = ("low: {maximum: [sums.acc, -20]}", "high: {minimum: [low, 20]}", "y: {cast: high, dtype: i8}")
    made = spec(*statements, machine=machine, result="i8", operands="i8")
    report, expected = run(made, machine, sizes(machine, "i8"))
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)


@pytest.mark.parametrize("machine", SIMULATED, ids=lambda machine: machine.variant)
def test_small_types_are_rounded_after_each_op(machine: Machine) -> None:
    statements = ("small: {cast: sums.acc, dtype: bf16}", "y: {add: [small, 0.01]}")
    report, expected = run(spec(*statements, machine=machine, result="bf16"), machine, sizes(machine))
    assert report.ok, report.render()
    small = (expected - 0.01).round().astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(report.tensors["c"], (small + np.float32(0.01)).astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("machine", [AMX, AVX2], ids=lambda machine: machine.variant)
def test_sums_over_several_steps_wait_for_their_epilogue(machine: Machine) -> None:
    made = spec("y: {relu: sums.acc}", machine=machine, result="f32")
    for k in (0, 2 * tile_of(machine, "bf16")[2] + 1):
        report, expected = run(made, machine, {**sizes(machine), "K": k})
        assert report.ok, report.render()
        np.testing.assert_array_equal(report.tensors["c"], expected)


@pytest.mark.parametrize("machine", CONCURRENT, ids=lambda machine: machine.variant)
@pytest.mark.parametrize("dtype", ["f32", "i32", "bool"])
@pytest.mark.parametrize("part", range(4))  # a launch does not take outputs for all of them
def test_every_function_computes_the_same_everywhere(machine: Machine, dtype: str, part: int) -> None:
    words = [word for word in words_for(dtype) if "gelu" not in word][part::4]
    made = every_function(words, dtype, tile=(32, 32, 32), wave=(16, 16), operands="bf16")
    shape, random = {"M": 19, "N": 35}, np.random.default_rng(0)
    kind, extents = numpy_dtype(DTYPES[dtype]), (shape["M"], shape["N"])
    inputs = {
        name: random.integers(-3, 4, (shape[dim], 2)).astype(ml_dtypes.bfloat16)
        for name, dim in (("a", "M"), ("b", "N"))
    }
    inputs["other"] = random.integers(0 if dtype == "bool" else 1, 5, extents).astype(kind)
    inputs["flag"] = random.integers(0, 2, extents).astype(np.bool_)
    report = simulate(lower(made, machine), machine, inputs, {**shape, "K": 2})
    assert report.ok, report.render()
    tensors = [
        torch.from_numpy(x.astype(np.float32)).bfloat16() if x.dtype == ml_dtypes.bfloat16 else torch.from_numpy(x)
        for x in inputs.values()
    ]
    for word, expected in zip(words, reference(made, *tensors, compute=None), strict=False):
        np.testing.assert_allclose(report.tensors[f"c_{word}"], expected, rtol=2e-6, err_msg=word)


@pytest.mark.parametrize("machine", SIMULATED, ids=lambda machine: machine.variant)
def test_elements_know_their_place_and_their_bits(machine: Machine) -> None:
    report, expected = run(spec(*PLACES, machine=machine, result="f32"), machine, sizes(machine))
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)

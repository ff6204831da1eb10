"""Arithmetic of 16 bits where a machine has it: the same numbers as by way of f32, without the conversions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lower.gemms import CPU, NVIDIA
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import emit, lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.simt import simulate

TYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}
FORMULAS = {
    "add": "left + right",
    "sub": "left - right",
    "mul": "left * right",
    "neg": "-left * right",
}
_OF_NUMPY = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def spec(formula: str, dtype: str) -> KernelSpec:
    """y[N] of a[N] and b[N]."""
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: packed
dims: {{N: {{}}}}
tensors:
  a: {{shape: [N], dtype: {dtype}}}
  b: {{shape: [N], dtype: {dtype}}}
  y: {{shape: [N], dtype: {dtype}, role: output}}
constraints: [{{workgroup: N, tile: 64, axis: 0}}]
graph: [{{left: {{read: a}}}}, {{right: {{read: b}}}}, {{result: "{formula}"}}, {{write: result, to: y}}]
""",
        "packed.wave.yaml",
    )


def casts(kernel: Kernel) -> int:
    return sum(op.name == "cast" for op in kernel.walk())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("function", FORMULAS)
def test_a_machine_with_instructions_for_it_converts_nothing(function: str, dtype: str) -> None:
    made = spec(FORMULAS[function], dtype)
    assert casts(lower(made, NVIDIA)) == 0 < casts(lower(made, CPU))
    assert f"llvm.f{function} " in emit(made, NVIDIA).text


@pytest.mark.parametrize("dtype", TYPES)
def test_other_functions_are_computed_in_f32(dtype: str) -> None:
    assert casts(lower(spec("left / right", dtype), NVIDIA)) > 0


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("function", _OF_NUMPY)
@given(data=st.data())
def test_it_makes_no_difference_that_f32_is_rounded_to_first(function: str, dtype: str, data: st.DataObject) -> None:
    """Of all finite numbers, also where results are infinite; f64 has all digits that decide."""
    bits = st.lists(st.integers(0, 2**16 - 1), min_size=64, max_size=64)
    a, b = (np.array(data.draw(bits), np.uint16).view(TYPES[dtype]) for _ in range(2))
    a, b = (np.where(np.isfinite(one.astype(np.float64)), one, 1).astype(TYPES[dtype]) for one in (a, b))
    with np.errstate(all="ignore"):
        exact = _OF_NUMPY[function](a.astype(np.float64), b.astype(np.float64))
        by_f32 = _OF_NUMPY[function](a.astype(np.float32), b.astype(np.float32)).astype(TYPES[dtype])
        smallest = {"bf16": 2.0**-126, "f16": 2.0**-24}[dtype]
        judged = (abs(exact) >= smallest) | (exact == 0)  # f32 has smaller ones than f16, not than bf16
        assert np.array_equal(by_f32[judged], exact.astype(TYPES[dtype])[judged], equal_nan=True)


@pytest.mark.parametrize("dtype", TYPES)
def test_kernels_compute_what_f32_does(dtype: str) -> None:
    random = np.random.default_rng(0)
    a, b = (random.normal(size=150).astype(TYPES[dtype]) for _ in range(2))
    report = simulate(lower(spec("left + right", dtype), NVIDIA), NVIDIA, {"a": a, "b": b}, {"N": 150})
    assert report.ok, report.render()
    exact = (a.astype(np.float32) + b.astype(np.float32)).astype(TYPES[dtype])
    assert np.array_equal(report.tensors["y"], exact)

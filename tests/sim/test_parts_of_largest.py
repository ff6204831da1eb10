"""`topk` of parts of a dim: what the kernels of a case find, of any type and start, is what one loop over the dim finds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.kernels import TORCH, tensor_to_array
from tests.sim.cases import lowered_case
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import cases_for_target
from wavespec.sim.kernels_before import simulate_before
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

LEAST = {"f32": "-.inf", "f64": "-.inf", "bf16": "-.inf", "i32": "-2147483648", "u8": "0", "bool": "0"}
MOST = {"f32": ".inf", "f64": ".inf", "bf16": ".inf", "i32": "2147483647", "u8": "255", "bool": "1"}


def spec_of(target: str, dtype: str, *, largest: bool, worst: str = "", places: str = "i64") -> KernelSpec:
    worst = worst or (LEAST if largest else MOST)[dtype]
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: largest
dims: {{M: {{}}, N: {{}}, K: {{value: 3}}}}
tensors:
  x: {{shape: [M, N], dtype: {dtype}}}
  y: {{shape: [M, K], dtype: {dtype}, role: output}}
  at: {{shape: [M, K], dtype: {places}, role: output}}
constraints:
  - {{workgroup: M, tile: 4, axis: 0}}
  - {{wave: M, tile: 2}}
  - {{tiling: N, tile: 32}}
graph:
  - worst: {{register: [M, K], dtype: {dtype}, value: {worst}}}
  - nowhere: {{register: [M, K], dtype: {places}, value: 2147483647}}
  - steps:
      iterate: N
      carry: {{found: worst, places: nowhere}}
      body:
        - part: {{read: x}}
        - found: {{topk: part, dim: N, k: K, largest: {str(largest).lower()}, indices: places, init: [found, places], dtype: {places}}}
  - {{write: steps.found, to: y}}
  - {{write: steps.places, to: at}}
targets:
  {target}:
    cases:
      - when: [M <= 100]
        schedule: {{parts: {{N: 4}}}}
""",
        "largest.wave.yaml",
    )


def check(target: str, spec: KernelSpec, x: torch.Tensor) -> None:
    (case, *_), machine = cases_for_target(spec, target), machines(target)[0]
    kernels = lowered_case(case, machine)
    sizes = {"M": x.shape[0], "N": x.shape[1], "K": 3}
    given = {"x": tensor_to_array(x, spec.tensors["x"].dtype)}
    arrays, reports = simulate_before(case, kernels[:-1], machine, given, sizes, {})
    assert all(one.ok for one in reports), [one.render() for one in reports]
    dims = case.spec.dims
    report = simulate(kernels[-1], machine, arrays, {**{d: o.value for d, o in dims.items() if o.value}, **sizes})
    assert report.ok, report.render()
    for name, right in zip(("y", "at"), reference(spec, x), strict=True):
        found = np.asarray(report.tensors[name])
        np.testing.assert_array_equal(found.astype(np.float64), np.asarray(right.double()), name)


def numbers(dtype: str, rows: int, columns: int) -> torch.Tensor:
    """Small whole numbers, many of them equal."""
    low, high = (0, 2) if dtype == "bool" else (0, 9) if dtype == "u8" else (-4, 5)
    generator = torch.Generator().manual_seed(columns)
    return torch.randint(low, high, (rows, columns), generator=generator).to(TORCH[dtype])


@pytest.mark.parametrize("target", ["cpu", "sm_90", "gfx942"])
@pytest.mark.parametrize("columns", [0, 2, 31, 129, 400])
def test_rows_of_any_length(target: str, columns: int) -> None:
    """Parts that have nothing, or less than is asked for, find what is behind every place."""
    check(target, spec_of(target, "f32", largest=True), numbers("f32", 5, columns))


@pytest.mark.parametrize("dtype", LEAST)
@pytest.mark.parametrize("largest", [True, False])
def test_every_type(dtype: str, largest: bool) -> None:
    places = "i32" if largest else "i64"
    check("sm_90", spec_of("sm_90", dtype, largest=largest, places=places), numbers(dtype, 3, 150))


def test_no_numbers_and_infinities_of_several_parts() -> None:
    inf, nan = float("inf"), float("nan")
    x = torch.full((4, 200), -inf)
    x[0, 150], x[0, 40], x[1, 199] = nan, inf, 1
    x[2] = 0.0
    x[2, 7] = -0.0
    for largest in (True, False):
        check("sm_90", spec_of("sm_90", "f32", largest=largest), x)


def test_what_the_row_starts_from_counts_once() -> None:
    """Only what is above it is found."""
    check("sm_90", spec_of("sm_90", "f32", largest=True, worst="3"), numbers("f32", 4, 300))

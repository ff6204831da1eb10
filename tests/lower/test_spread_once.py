"""A mean and the squares of how far elements are from it are exchanged together, and are what two exchanges find."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import AMD, NVIDIA, lines
from wavespec.ir.kernel import Kernel
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.interleaving import Order
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

ALONE, FITTED = "resident: 2", "fitted: true, registers: 64"
SHARED = f"split: 4, {FITTED}"
ROWS = """apiVersion: wavespec/v1
kind: Kernel
name: rows
dims: {M: {}, N: {multiple_of: 4, max: 1024}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 1, axis: 0}
  - {tiling: N, tile: 1024}
  - {wave: N, tile: 128}
graph:
  - none: {register: [M], dtype: f32, value: 0}
  - first: {read: x, dims: [M], at: {N: 0}}
  - rows:
      iterate: N
      carry: {beyond: none}
      body:
        - part: {read: x}
        - shifted: "part - first"
        - beyond: {mean: shifted, dim: N, init: beyond}
  - middle: "first + rows.beyond"
  - spread:
      iterate: N
      carry: {variance: none}
      body:
        - again: {read: x}
        - distance: "again - middle"
        - squares: "distance * distance"
        - variance: {mean: squares, dim: N, init: variance}
  - scale: "rsqrt(spread.variance + 0.00001)"
  - results:
      iterate: N
      carry: {}
      body:
        - last: {read: x}
        - result: "(last - middle) * scale"
        - {write: result, to: y}
schedule: {workgroups: {resident: 2}}
"""
ANYWHERE = ("multiple_of: 4, max: 1024", "max: 1000")


def rows(workgroups: str, *changes: tuple[str, str], machine: Machine = NVIDIA, after: str = "") -> Kernel:
    text = ROWS
    for before, behind in changes:
        assert before in text
        text = text.replace(before, behind)
    text = text.replace(ALONE, workgroups)
    if "split: 4" in workgroups:
        text = text.replace("max: 1024", "max: 4096").replace("max: 1000", "max: 4000")
    spec = loads(text, "rows.wave.yaml")
    return lower(spec, machine, after=after) if after else lower(spec, machine)


def exchanges(kernel: Kernel) -> int:
    """Barriers for which waves wait that all have laid something down."""
    return sum(op.name in ("barrier", "signal_wait") for op in kernel.walk())


@pytest.mark.parametrize("workgroups", [ALONE, FITTED, SHARED])
def test_rows_are_exchanged_once(workgroups: str) -> None:
    of_two = rows(workgroups, ('"distance * distance"', '"abs(distance)"'))
    assert exchanges(rows(workgroups)) < exchanges(of_two)
    (joined,) = lines(rows(workgroups, after="spread-once"), "join_spreads")
    assert ("signal" in joined) == ("split" in workgroups)


@pytest.mark.parametrize("order", ["forward", "reverse", 0])
@pytest.mark.parametrize(
    ("columns", "start"), [(4, ()), (132, ()), (1000, ()), (1, ANYWHERE), (131, ANYWHERE), (999, ANYWHERE)]
)
@pytest.mark.parametrize("workgroups", [ALONE, FITTED, SHARED, f"persistent: true, count: 1, {SHARED}"])
def test_results_are_those_of_two_exchanges(
    workgroups: str, columns: int, start: tuple[str, str] | tuple[()], order: Order
) -> None:
    """Whatever a part has: nothing of a row, numbers far from 0 or from the others, or what makes no number."""
    x = np.random.default_rng(0).normal(0, 30, (6, columns)).astype(np.float32)
    x[1] += 1e4
    x[2] = 7
    x[3, 0] = 1e6
    x[4, columns // 2] = np.inf
    x[5, columns - 1] = np.nan
    report = simulate(
        rows(workgroups, *([start] if start else [])), NVIDIA, {"x": x}, {"M": 6, "N": columns}, order=order
    )
    assert not report.findings
    y, wide = report.tensors["y"], x[:4].astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    # What elements are less than the first is rounded, and that may be as far from them as the root of the columns says
    error, largest = np.abs(y[:4] - expected).max(1), np.maximum(np.abs(expected).max(1), 1)
    assert (error <= 2.0**-21 * largest).all()
    assert np.isnan(y[4:]).all()


def test_how_far_elements_are_from_the_mean_of_all_is_part_of_a_product() -> None:
    """Nothing but how far they are from that of their wave is kept of elements."""
    kernel = rows(FITTED, after="spread-once")
    (product,) = [op for op in kernel.body if op.get("function") == "fma"]
    assert product.operands[1].name == "scale"
    assert len([op for op in kernel.body if op.get("function") == "sub" and op.result.tile.dims]) == 2


def test_how_far_elements_are_may_be_a_result() -> None:
    kernel = rows(SHARED, ("(last - middle) * scale", "last - middle + scale"), ANYWHERE)
    x = np.random.default_rng(0).normal(3, 1, (2, 2001)).astype(np.float32)
    report = simulate(kernel, NVIDIA, {"x": x}, {"M": 2, "N": 2001})
    wide = x.astype(np.float64)
    expected = wide - wide.mean(1, keepdims=True) + 1 / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(report.tensors["y"], expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(
    "change",
    [
        ("{wave: N, tile: 128}", "{wave: N, tile: 1024}"),  # one wave has all of a row
        ("max: 1024", "max: 2048"),  # steps of a loop
        ("value: 0}", "value: 1}"),  # what a sum starts from counts once
        ("{mean: squares", "{sum: squares"),
        ("{mean: shifted", "{sum: shifted"),
        ('"distance * distance"', '"distance * again"'),
        ("again - middle", "again - rows.beyond"),  # around another number than the mean
    ],
)
def test_what_is_none_of_these_stays_as_it_is(change: tuple[str, str]) -> None:
    assert not lines(rows(ALONE, change, after="spread-once"), "join_spreads")


def test_machines_without_clusters_exchange_twice() -> None:
    plain = ("schedule: {workgroups: {resident: 2}}", "")
    assert not any(op.name == "join_spreads" for op in rows(ALONE, plain, machine=AMD, after="tile-to-thread").walk())


def test_what_is_exchanged_is_part_of_the_text() -> None:
    kernel = rows(SHARED, after="spread-once")
    assert parse_kernel(print_kernel(kernel)) == kernel

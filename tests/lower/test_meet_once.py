"""A largest element and a sum of powers are exchanged together, and are what two exchanges find."""

from __future__ import annotations

from dataclasses import replace

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
  y: {shape: [M], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 1, axis: 0}
  - {tiling: N, tile: 1024}
  - {wave: N, tile: 128}
graph:
  - none: {register: [M], dtype: f32, value: 0}
  - lowest: {register: [M], dtype: f32, value: -.inf}
  - rows:
      iterate: N
      carry: {largest: lowest}
      body:
        - part: {read: x}
        - largest: {max: part, dim: N, init: largest}
  - sums:
      iterate: N
      carry: {total: none}
      body:
        - again: {read: x}
        - power: "exp(again - rows.largest)"
        - total: {sum: power, dim: N, init: total}
  - result: "log(sums.total) + rows.largest"
  - {write: result, to: y}
schedule: {workgroups: {resident: 2}}
"""


def rows(workgroups: str, *changes: tuple[str, str], machine: Machine = NVIDIA, after: str = "") -> Kernel:
    text = ROWS.replace(ALONE, workgroups)
    text = text.replace("max: 1024", "max: 4096") if "split: 4" in workgroups else text
    for before, behind in changes:
        assert before in text
        text = text.replace(before, behind)
    spec = loads(text, "rows.wave.yaml")
    return lower(spec, machine, after=after) if after else lower(spec, machine)


def exchanges(kernel: Kernel) -> int:
    """Barriers for which waves wait that all have laid something down."""
    return sum(op.name in ("barrier", "signal_wait") for op in kernel.walk())


@pytest.mark.parametrize("workgroups", [ALONE, FITTED, SHARED])
def test_rows_are_exchanged_once(workgroups: str) -> None:
    of_two = rows(workgroups, ("exp(again - rows.largest)", "exp(again) - rows.largest"))
    assert exchanges(rows(workgroups)) < exchanges(of_two)
    (joined,) = lines(rows(workgroups, after="meet-once"), "join_powers")
    assert ("signal" in joined) == ("split" in workgroups)


def rows_of_limits(columns: int) -> np.ndarray:
    """Eight rows, with and without finite elements."""
    x = np.random.default_rng(0).normal(0, 30, (8, columns)).astype(np.float32)
    x[1, :128] = -np.inf  # all of a wave
    x[2] = -np.inf
    x[3, columns // 2] = np.inf
    x[4, columns - 1] = np.nan
    x[5] = -3.4e38
    x[7] = np.linspace(-1e4, 1e4, columns)
    return x


@pytest.mark.parametrize("order", ["forward", "reverse", 0])
@pytest.mark.parametrize("columns", [4, 132, 1000, 1024])
@pytest.mark.parametrize("workgroups", [ALONE, FITTED, SHARED, f"persistent: true, count: 1, {SHARED}"])
def test_sums_are_those_of_the_largest_element_of_all(workgroups: str, columns: int, order: Order) -> None:
    """Whatever a part has: no finite element, none at all, or what makes no number of the whole row."""
    x = rows_of_limits(columns)
    x[6] = 3.4e38
    report = simulate(rows(workgroups), NVIDIA, {"x": x}, {"M": 8, "N": columns}, order=order)
    assert not report.findings
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64)
        largest = wide.max(1)
        expected = np.log(np.exp(wide - largest[:, None]).sum(1)) + largest
    np.testing.assert_allclose(report.tensors["y"], expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("workgroups", [ALONE, SHARED])
def test_rows_without_finite_elements_have_no_sum(workgroups: str) -> None:
    kernel = rows(workgroups, ("log(sums.total) + rows.largest", "sums.total"))
    x = np.full((2, 1000), -np.inf, np.float32)
    x[1, 999] = 3
    report = simulate(kernel, NVIDIA, {"x": x}, {"M": 2, "N": 1000})
    np.testing.assert_array_equal(report.tensors["y"], [np.nan, 1])


SOFTMAX = (
    ("y: {shape: [M], dtype", "y: {shape: [M, N], dtype"),
    (
        """  - result: "log(sums.total) + rows.largest"
  - {write: result, to: y}
""",
        """  - results:
      iterate: N
      carry: {}
      body:
        - last: {read: x}
        - result: "exp(last - rows.largest) / sums.total"
        - {write: result, to: y}
""",
    ),
)


def of_one_exchange(workgroups: str, changes: tuple[tuple[str, str], ...], x: np.ndarray) -> np.ndarray:
    """The results for eight rows of a kernel that exchanges once."""
    assert lines(rows(workgroups, *changes, after="meet-once"), "join_powers")
    report = simulate(rows(workgroups, *changes), NVIDIA, {"x": x}, {"M": 8, "N": x.shape[1]})
    assert not report.findings
    return report.tensors["y"]


@pytest.mark.parametrize("columns", [4, 132, 1024])
@pytest.mark.parametrize("workgroups", [ALONE, FITTED, SHARED, f"persistent: true, count: 1, {SHARED}"])
def test_quotients_of_powers_by_their_sum_are_exchanged_once(workgroups: str, columns: int) -> None:
    """Each wave multiplies its powers by one number; parts without finite elements have 0, rows of them no number."""
    x = rows_of_limits(columns)
    x[6, :128] = -3.4e38  # as small as what waves without elements have
    results = of_one_exchange(workgroups, SOFTMAX, x)
    with np.errstate(invalid="ignore"):
        power = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        expected = power / power.sum(1, keepdims=True)
    np.testing.assert_allclose(results, expected, rtol=8e-6, atol=1e-37)


LOG_SOFTMAX = (
    SOFTMAX[0],
    ('result: "log(sums.total) + rows.largest"', "logarithm: {log: sums.total}"),
    (
        """  - {write: result, to: y}
""",
        """  - results:
      iterate: N
      carry: {}
      body:
        - last: {read: x}
        - result: "last - rows.largest - logarithm"
        - {write: result, to: y}
""",
    ),
)


@pytest.mark.parametrize("columns", [4, 132, 1024])
@pytest.mark.parametrize("workgroups", [ALONE, FITTED, SHARED, f"persistent: true, count: 1, {SHARED}"])
def test_what_is_less_than_the_largest_and_a_number_is_exchanged_once(workgroups: str, columns: int) -> None:
    """Each wave knows by how much the largest of all is more than its own; no rounding is larger for it."""
    x = rows_of_limits(columns)
    x[6] += np.float32(1e6)  # far from 0, where a logarithm added to the largest element would be lost
    results = of_one_exchange(workgroups, LOG_SOFTMAX, x)
    with np.errstate(invalid="ignore"):
        less = x.astype(np.float64) - x.max(1, keepdims=True)
        expected = less - np.log(np.exp(less).sum(1, keepdims=True))
    np.testing.assert_allclose(results, expected.astype(np.float32), rtol=3e-7, atol=1e-6)


def test_what_is_less_than_the_largest_stays_where_something_else_needs_it() -> None:
    changes = (
        *LOG_SOFTMAX[:2],
        (LOG_SOFTMAX[2][0], LOG_SOFTMAX[2][1].replace("last - rows.largest - l", "(last - rows.largest) * l")),
    )
    assert not lines(rows(ALONE, *changes, after="meet-once"), "join_powers")


def test_each_of_three_workgroups_counts_once() -> None:
    """Lanes join parts in groups of a power of two, the fourth of which has the part of the third."""
    machine = replace(NVIDIA, clusters={3: 44})
    kernel = rows(f"split: 3, {FITTED}", ("max: 1024", "max: 3072"), machine=machine)
    x = np.random.default_rng(0).normal(0, 3, (2, 3000)).astype(np.float32)
    report = simulate(kernel, machine, {"x": x}, {"M": 2, "N": 3000})
    assert report.ok, report.render()
    expected = np.log(np.exp(x.astype(np.float64)).sum(1))
    np.testing.assert_allclose(report.tensors["y"], expected, rtol=2e-6)


@pytest.mark.parametrize(
    "change",
    [
        ("{wave: N, tile: 128}", "{wave: N, tile: 1024}"),  # one wave has all of a row
        ("max: 1024", "max: 2048"),  # steps of a loop
        ("value: 0}", "value: 1}"),  # what a sum starts from counts once
        ("value: -.inf}", "value: 0}"),
        ("{max: part", "{min: part"),
        ("exp(again - rows.largest)", "exp(rows.largest - again)"),
    ],
)
def test_what_is_none_of_these_stays_as_it_is(change: tuple[str, str]) -> None:
    assert not lines(rows(ALONE, change, after="meet-once"), "join_powers")


def test_machines_without_clusters_exchange_twice() -> None:
    plain = ("schedule: {workgroups: {resident: 2}}", "")
    assert not lines(rows(ALONE, plain, machine=AMD, after="share-results"), "join_powers")
    assert not any(op.name == "join_powers" for op in rows(ALONE, plain, machine=AMD, after="tile-to-thread").walk())


def test_powers_that_something_else_needs_stay() -> None:
    twice = ("carry: {total: none}", "carry: {total: none, most: lowest}")
    more = ("- total: {sum", "- most: {max: power, dim: N, init: most}\n        - total: {sum")
    used = ("+ rows.largest", "+ rows.largest + sums.most")
    assert not lines(rows(ALONE, twice, more, used, after="meet-once"), "join_powers")


def test_what_is_exchanged_is_part_of_the_text() -> None:
    kernel = rows(SHARED, after="meet-once")
    assert parse_kernel(print_kernel(kernel)) == kernel

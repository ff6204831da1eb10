"""Rows that start anywhere: tiles begin where a wide access may, and what is around the row is nobody's business."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.sim.planted_bugs import Bug, altered, planted
from wavespec.ir.kernel import Op
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.findings import SimulationReport
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

NORM = """apiVersion: wavespec/v1
kind: Kernel
name: norm
dims: {M: {}, N: {max: 500}}
tensors:
  x: {shape: [M, N], dtype: f32}
  weight: {shape: [N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 2, axis: 0}
  - {wave: M, tile: 1}
  - {tiling: N, tile: 512}
  - {wave: N, tile: 256}
graph:
  - none: {register: [M], dtype: f32, value: 0}
  - rows:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - total: {sum: part, dim: N, init: total}
  - results:
      iterate: N
      carry: {}
      body:
        - last: {read: x}
        - factor: {read: weight}
        - result: "last * factor + rows.total"
        - {write: result, to: y}
"""
IN_STEPS = (
    NORM.replace("{max: 500}", "{}")
    .replace("tile: 512", "tile: 256")
    .replace("N, tile: 256}\ngraph", "N, tile: 128}\ngraph")
)


def run(text: str, m: int, n: int, bug: Bug = lambda kernel: kernel) -> tuple[SimulationReport, np.ndarray]:
    random = np.random.default_rng(n)
    x, weight = (random.integers(-9, 10, shape).astype(np.float32) for shape in ((m, n), (n,)))
    kernel = bug(lower(loads(text, "norm.wave.yaml"), NVIDIA))
    report = simulate(kernel, NVIDIA, {"x": x, "weight": weight}, {"M": m, "N": n})
    return report, x * weight + x.sum(1, keepdims=True)


@pytest.mark.parametrize("text", [NORM, IN_STEPS, IN_STEPS + "schedule: {workgroups: {split: 2}}\n"])
@pytest.mark.parametrize(("m", "n"), [(5, 497), (4, 500), (3, 255), (9, 1), (6, 3), (2, 0), (0, 7)])
def test_rows_of_any_length_are_exact(text: str, m: int, n: int) -> None:
    """Heads, tails and both in one access; loops that take a step more; rows without elements."""
    report, expected = run(text, m, n)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], expected)


@pytest.mark.parametrize("text", [NORM, IN_STEPS])
def test_all_but_the_ends_of_a_row_is_accessed_16_bytes_at_a_time(text: str) -> None:
    report, _ = run(text, 4, 497)
    assert report.counts["global store 16 B"] >= 4 * (497 - 6) // 4
    assert report.counts["global store 4 B"] <= 4 * 6
    assert report.counts["global load 16 B"] >= 4 * 497 // 4


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_what_starts_beside_the_rows_is_read_by_aligned_accesses(dtype: str) -> None:
    """A weight begins where an access may, and shifted tiles of it do not: two of 16 bytes have each of theirs, or three of
    8 where elements are smaller than words."""
    text = NORM.replace("weight: {shape: [N], dtype: f32}", f"weight: {{shape: [N], dtype: {dtype}}}")
    kernel = lower(loads(text.replace("last * factor", "last * f32(factor)"), "norm.wave.yaml"), NVIDIA)
    loads_ = [op for op in kernel.walk() if op.name == "load" and op["memory"] == "weight"]
    windows = [op for op in kernel.walk() if op.name == "window"]
    assert {op.result.vector.elements for op in loads_} == {4}
    assert len(loads_) == (2 if dtype == "f32" else 3) * len(windows) > 0


def test_small_elements_beside_large_ones_share_a_shift() -> None:
    text = NORM.replace("x: {shape: [M, N], dtype: f32}", "x: {shape: [M, N], dtype: bf16}").replace(
        "weight: {shape: [N], dtype: f32}", "weight: {shape: [N], dtype: bf16}"
    )
    text = text.replace("- part: {read: x}", '- small: {read: x}\n        - part: "f32(small)"').replace(
        '"last * factor', '"f32(last) * f32(factor)'
    )
    kernel = lower(loads(text, "norm.wave.yaml"), NVIDIA)
    widths = {op.result.vector.elements for op in kernel.walk() if op.name == "load" and op["memory"] == "x"}
    stores = {op.operands[0].vector.elements for op in kernel.walk() if op.name == "store" and op["memory"] == "y"}
    assert (widths, stores) == ({8}, {4, 1})


def test_rows_that_are_aligned_stay_where_they_are() -> None:
    aligned = lower(loads(NORM.replace("{max: 500}", "{max: 500, multiple_of: 4}"), "norm.wave.yaml"), NVIDIA)
    assert not any(op.get("around") for op in aligned.walk())


@pytest.mark.parametrize(
    "text", [NORM.replace("max: 500", "max: 510"), NORM.replace("wave: M, tile: 1", "wave: M, tile: 2")]
)
def test_rows_without_room_in_front_or_beside_others_stay_where_they_are(text: str) -> None:
    assert not any(op.get("around") for op in lower(loads(text, "norm.wave.yaml"), NVIDIA).walk())


@pytest.mark.parametrize("text", [NORM, IN_STEPS])
def test_tiles_that_are_staged_stay_where_they_are(text: str) -> None:
    """What is copied into shared memory begins with an element of the tensor, not in front of it."""
    staged = text.replace("x: {shape: [M, N], dtype: f32", "x: {shape: [M, N], dtype: f32, space: shared")
    report, expected = run(staged, 5, 497)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], expected)


PART = """        - skip:
            if: "start(N) < size(P)"
            carry: {total: total}
            body:
              - part: {read: x}
              - inside: "where(index(N) < P, part, 0)"
              - total: {sum: inside, dim: N, init: total}
        - total: skip.total
"""


@pytest.mark.parametrize("columns", [511, 512, 513, 256])
def test_conditions_on_places_hold_for_the_tiles_as_they_are(columns: int) -> None:
    """A tile that began in front of its place would be left out with elements that count."""
    text = IN_STEPS.replace("N: {}", "N: {}, P: {}").replace("tensors:", "tensors:\n  p: {shape: [P], dtype: f32}")
    whole = """        - part: {read: x}
        - total: {sum: part, dim: N, init: total}
"""
    kernel = lower(loads(text.replace(whole, PART), "norm.wave.yaml"), NVIDIA)
    random = np.random.default_rng(columns)
    x, weight, p = (random.integers(-9, 10, n).astype(np.float32) for n in ((7, 1001), 1001, columns))
    report = simulate(kernel, NVIDIA, {"x": x, "weight": weight, "p": p}, {"M": 7, "N": 1001, "P": columns})
    assert report.ok, report.render()
    expected = x * weight + x[:, :columns].sum(1, keepdims=True)
    np.testing.assert_array_equal(report.tensors["y"], expected)


@pytest.mark.parametrize("machine", [AMD, CPU], ids=["gfx942", "cpu"])
def test_machines_that_access_any_place_have_no_use_for_it(machine: Machine) -> None:
    assert not any(op.get("around") for op in lower(loads(NORM, "norm.wave.yaml"), machine).walk())


def _without_head(op: Op) -> tuple[Op, ...]:
    """Elements in front of a row count."""
    is_head = op.name == "pad" and op["stride"] == -1
    return (op.with_(limit=op["limit"] + 8),) if is_head else (op,)


@pytest.mark.parametrize(
    "bug",
    [
        planted(_without_head),
        altered("pad", "limit", lambda limit: limit + 1, stride=1),
        altered("load", "offset", lambda at: at + 1, around=True),
        altered("store", "offset", lambda at: at - 1),
        altered("window", "start", lambda at: at + 1),
    ],
    ids=["head counted", "tail counted", "loads one further", "stores one in front", "windows one further"],
)
def test_bugs_are_found(bug: Bug) -> None:
    report, expected = run(NORM, 5, 497, bug)
    assert not report.ok or not np.array_equal(report.tensors["y"], expected)

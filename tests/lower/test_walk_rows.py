"""Rows behind a product whose elements something joins, on CPUs: one after another, with the same results."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import CPU, NVIDIA
from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Kernel, Op
from wavespec.pipeline import emit, lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import cases_for_target
from wavespec.sim.elements import numpy_dtype
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines

pytestmark = pytest.mark.usefixtures("tiles_count")

AMX, AVX2 = (next(m for m in machines("cpu") if m.variant == f"x86_64_{name}") for name in ("amx", "v3"))
BF16 = numpy_dtype(DTYPES["bf16"])

_TEXT = """\
apiVersion: wavespec/v1
kind: Kernel
name: route
dims: {T: {}, D: {}, X: {value: 64}, K: {value: 3}, E: {max: 16}}
tensors:
  x: {shape: [T, D], dtype: bf16}
  router: {shape: [X, D], dtype: bf16}
  bias: {shape: [X], dtype: f32}
  table: {shape: [X, E], dtype: f32}
  chosen: {shape: [T, K], dtype: f32, role: output}
  experts: {shape: [T, K], dtype: i32, role: output}
  rows: {shape: [T, E], dtype: f32, role: output}
graph:
  - zero: {register: [T, X], dtype: f32, value: 0}
  - sums:
      iterate: D
      carry: {acc: zero}
      body:
        - x_tile: {read: x}
        - router_tile: {read: router}
        - acc: {mma: [x_tile, router_tile, acc]}
  - offset: {read: bias}
  - biased: sums.acc + offset
  - found: {topk: biased, dim: X, k: K, indices: places, dtype: i32}
  - those: {take: sums.acc, at: {X: places}, dims: [T, K]}
  - place: {argmax: biased, dim: X, dtype: i32}
  - row: {read: table, at: {X: place}, dims: [T, E]}
  - {write: those, to: chosen}
  - {write: places, to: experts}
  - {write: row, to: rows}
"""


def route(*changes: tuple[str, str]) -> KernelSpec:
    """The kernel for any sizes of a spec without tiles."""
    text = _TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return cases_for_target(loads(text, "route.wave.yaml"), "cpu")[-1].spec


def walks(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.walk() if op.name == "iterate" and op["induction"] == "row_T"]


def test_what_is_behind_a_product_has_one_row_of_each_wave() -> None:
    kernel = lower(route(), AVX2, after="walk-rows")
    (loop,) = walks(kernel)
    assert loop is kernel.body[-1]
    assert [memory.name for memory in kernel.memories if memory.space == "private"] == ["sums_acc.rows"]
    waves = kernel.waves_along("T")
    tiles = [value.tile for op in loop.body.ops for value in op.results]
    assert waves > 1
    assert {tile.extent("T") for tile in tiles if "T" in tile.dims} == {waves}


@pytest.mark.parametrize("machine", [AVX2, CPU, AMX], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("tokens", [1, 5, 41])
def test_results_are_exact_whatever_the_last_wave_has(machine: Machine, tokens: int) -> None:
    random, d, e = np.random.default_rng(0), 7, 5
    x, router, bias = (random.integers(-2, 3, shape) for shape in ((tokens, d), (64, d), (64,)))
    table = random.integers(-9, 9, (64, e)).astype(np.float32)
    inputs = {"x": x.astype(BF16), "router": router.astype(BF16), "bias": bias.astype(np.float32), "table": table}
    sizes = {"T": tokens, "D": d, "X": 64, "K": 3, "E": e}
    report = simulate(lower(route(), machine), machine, inputs, sizes)
    assert report.ok, report.render()
    scores = x @ router.T
    best = np.argsort(-(scores + bias), axis=1, kind="stable")[:, :3]  # of equal ones the first
    np.testing.assert_array_equal(report.tensors["experts"], best)
    np.testing.assert_array_equal(report.tensors["chosen"], np.take_along_axis(scores, best, 1))
    np.testing.assert_array_equal(report.tensors["rows"], table[best[:, 0]])


def test_code_does_not_grow_with_the_rows_of_an_instruction() -> None:
    """256 experts were 33,000 lines for AVX-512, and more than 60,000 for AMX, which was refused."""
    wide = route(("X: {value: 64}", "X: {value: 256}"), ("K: {value: 3}", "K: {value: 8}"))
    for machine in machines("cpu"):
        assert emit(wide, machine).text.count("\n") < 13_000


JOINED = """\
  - offset: {read: bias}
  - biased: sums.acc + offset
  - found: {topk: biased, dim: X, k: K, indices: places, dtype: i32}
  - those: {take: sums.acc, at: {X: places}, dims: [T, K]}
  - place: {argmax: biased, dim: X, dtype: i32}
  - row: {read: table, at: {X: place}, dims: [T, E]}
  - {write: those, to: chosen}
  - {write: places, to: experts}
  - {write: row, to: rows}
"""
OUTPUTS = """\
  bias: {shape: [X], dtype: f32}
  table: {shape: [X, E], dtype: f32}
  chosen: {shape: [T, K], dtype: f32, role: output}
  experts: {shape: [T, K], dtype: i32, role: output}
  rows: {shape: [T, E], dtype: f32, role: output}
"""
DIMS = (", K: {value: 3}, E: {max: 16}", "")


def test_rows_whose_elements_nothing_joins_stay_in_registers() -> None:
    out = (OUTPUTS, "  y: {shape: [T, X], dtype: f32, role: output}\n")
    kernel = lower(route((JOINED, "  - y_tile: sums.acc * 2\n  - {write: y_tile, to: y}\n"), out, DIMS), AVX2)
    assert "sums_acc.rows" not in {memory.name for memory in kernel.memories}


def test_rows_that_are_joined_with_each_other_stay_together() -> None:
    out = (OUTPUTS, "  y: {shape: [X], dtype: f32, role: output}\n  z: {shape: [T], dtype: f32, role: output}\n")
    body = "  - y_tile: {max: sums.acc, dim: T}\n  - z_tile: {max: sums.acc, dim: X}\n"
    body += "  - {write: y_tile, to: y}\n  - {write: z_tile, to: z}\n"
    spec = route((JOINED, body), out, DIMS, ("T: {}", "T: {value: 24}"))
    assert not walks(lower(spec, AVX2, after="walk-rows"))


def test_lanes_of_a_gpu_have_rows_at_once() -> None:
    assert not walks(lower(cases_for_target(loads(_TEXT), "sm_90")[-1].spec, NVIDIA))


def test_sums_lie_as_rows_do_where_results_are_numbers_of_rows() -> None:
    """With columns of sums side by side, laying down rows was a line for each element."""
    out = (OUTPUTS, "  y: {shape: [T], dtype: i32, role: output}\n")
    body = "  - place: {argmax: sums.acc, dim: X, dtype: i32}\n  - {write: place, to: y}\n"
    spec = route((JOINED, body), out, DIMS)
    (product,) = (op for op in lower(spec, AMX, after="walk-rows").walk() if op.name == "mma")
    assert ":swapped" not in product["instruction"]
    assert emit(spec, AMX).text.count("\n") < 5_000

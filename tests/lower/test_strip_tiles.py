"""Wide tiles of products on CPUs: strip by strip, with the results, and the registers, of one instruction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.gemms import CPU, NVIDIA
from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Kernel, Op
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.elements import numpy_dtype
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines

pytestmark = pytest.mark.usefixtures("tiles_count")

BF16_PAIRS, AVX2 = (next(m for m in machines("cpu") if m.variant == f"x86_64_{name}") for name in ("v4_bf16", "v3"))
TILE = 64
BF16 = numpy_dtype(DTYPES["bf16"])

_TEXT = """\
apiVersion: wavespec/v1
kind: Kernel
name: below_largest
dims: {M: {}, N: {}, K: {max: 32}, D: {max: 32}}
tensors:
  a: {shape: [M, K], dtype: bf16, space: shared}
  b: {shape: [N, K], dtype: bf16, space: shared}
  v: {shape: [N, D], dtype: bf16, space: shared}
  c: {shape: [M, D], dtype: f32, role: output}
  s: {shape: [M], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 192, axis: 0}
  - {wave: M, tile: 96}
  - {tiling: N, tile: 64}
  - {tiling: K, tile: 32}
  - {tiling: D, tile: 32}
  - {hardware: {mma: auto}}
graph:
  - a_tile: {read: a}
  - nothing: {register: [M, D], dtype: f32, value: 0}
  - none: {register: [M], dtype: f32, value: 0}
  - steps:
      iterate: N
      carry: {acc: nothing, total: none}
      body:
        - b_tile: {read: b}
        - v_tile: {read: v}
        - zero: {register: [M, N], dtype: f32, value: 0}
        - products: {mma: [a_tile, b_tile, zero]}
        - largest: {max: products, dim: N}
        - below: "products - largest"
        - part: {sum: below, dim: N}
        - total: "total + part + largest"
        - weight: {cast: below, dtype: bf16}
        - acc: {mma: [weight, v_tile, acc]}
  - {write: steps.acc, to: c}
  - {write: steps.total, to: s}
"""


def below_largest(*changes: tuple[str, str]) -> KernelSpec:
    """Of every 64 products of a row, how far they lie below the largest: their sum, and their product with ``v``."""
    text = _TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return loads(text, "below_largest.wave.yaml")


def stripped(spec: KernelSpec, machine: Machine) -> Kernel:
    return lower(spec, machine, after="strip-tiles")


def strips(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.walk() if op.name == "iterate" and op["induction"] == "strip_N"]


def test_products_reductions_and_what_follows_them_have_a_loop_each() -> None:
    kernel = stripped(below_largest(), AVX2)
    names = [[op.name for op in loop.body.ops] for loop in strips(kernel)]
    assert names == [
        ["read", "register", "mma", "write"],
        ["read", "join"],
        ["read", "elementwise", "cast", "pad", "write", "join"],
    ]
    assert {op.result.tile.extent("N") for loop in strips(kernel) for op in loop.walk() if "N" in _dims(op)} == {16}
    assert [memory.name for memory in kernel.memories if memory.space == "private"] == ["products.strips"]


def _dims(op: Op) -> tuple[str, ...]:
    return op.results[0].tile.dims if op.results else ()


def test_code_is_as_long_for_many_strips_as_for_two() -> None:
    few, many = (lower(below_largest(("N, tile: 64", f"N, tile: {tile}")), AVX2) for tile in (32, 256))
    assert sum(1 for _ in few.walk()) == sum(1 for _ in many.walk())


@pytest.mark.parametrize(
    ("machine", "m", "n"), [(AVX2, 5, 70), (AVX2, 3, 64), (AVX2, 2, 1), (AVX2, 1, 0), (CPU, 5, 70), (BF16_PAIRS, 5, 70)]
)
def test_results_are_exact_whatever_the_last_tile_has(machine: Machine, m: int, n: int) -> None:
    random, k, d = np.random.default_rng(0), 7, 18
    a, b, v = (random.integers(-2, 3, shape) for shape in ((m, k), (n, k), (n, d)))
    inputs = {name: array.astype(BF16) for name, array in zip("abv", (a, b, v), strict=True)}
    sizes = {"M": m, "N": n, "K": k, "D": d}
    report = simulate(lower(below_largest(), machine), machine, inputs, sizes)
    assert report.ok, report.render()
    c, s = np.zeros((m, d)), np.zeros(m)
    for start in range(0, n, TILE):
        products = a @ b[start : start + TILE].T
        largest = products.max(axis=1)
        c += (products - largest[:, None]) @ v[start : start + TILE]
        s += (products - largest[:, None]).sum(axis=1) + largest
    np.testing.assert_array_equal(report.tensors["c"], c)
    np.testing.assert_array_equal(report.tensors["s"], s)


AT_PLACES = (
    ("K: {max: 32}", "K: {max: 32}, T: {}"),
    ("constraints:", "  p: {shape: [N], dtype: i32}\n  w: {shape: [T], dtype: f32}\nconstraints:"),
    ("- b_tile: {read: b}", "- place: {read: p}\n        - b_tile: {read: b, dims: [N, K], at: {N: place}}"),
    (
        "- largest: {max: products,",
        """- after: "place + 1"
        - offset: {read: w, dims: [N], at: {T: after}}
        - moved: "products + offset"
        - largest: {max: moved,""",
    ),
    ("products - largest", "moved - largest + offset"),
)
"""Rows of b, and something to add, from places that are read and computed along the dim that is cut."""


@pytest.mark.parametrize(("machine", "m", "n"), [(AVX2, 5, 70), (AVX2, 2, 1), (AVX2, 1, 0), (BF16_PAIRS, 5, 70)])
def test_reads_at_places_are_cut_too(machine: Machine, m: int, n: int) -> None:
    spec = below_largest(*AT_PLACES)
    assert strips(stripped(spec, machine))
    random, k, d, t = np.random.default_rng(0), 7, 18, 50
    a, b, v = (random.integers(-2, 3, shape) for shape in ((m, k), (n, k), (n, d)))
    places, w = random.integers(-3, n + 3, n), random.integers(-2, 3, t)
    inputs: dict[str, Any] = {name: array.astype(BF16) for name, array in zip("abv", (a, b, v), strict=True)}
    inputs |= {"p": places.astype(np.int32), "w": w.astype(np.float32)}
    report = simulate(lower(spec, machine), machine, inputs, {"M": m, "N": n, "K": k, "D": d, "T": t})
    assert report.ok, report.render()
    rows = np.array([b[at] if 0 <= at < n else np.zeros(k) for at in places]).reshape(n, k)
    offset = np.array([w[at + 1] if 0 <= at + 1 < t else 0 for at in places])
    c = np.zeros((m, d))
    for start in range(0, n, TILE):
        part = slice(start, start + TILE)
        moved = a @ rows[part].T + offset[part]
        c += (moved - moved.max(axis=1)[:, None] + offset[part]) @ v[part]
    np.testing.assert_array_equal(report.tensors["c"], c)


BY_LENGTHS = (
    (
        "- largest: {max: products,",
        """- squares: "f32(b_tile) * f32(b_tile)"
        - lengths: {sum: squares, dim: K}
        - moved: "products - lengths"
        - largest: {max: moved,""",
    ),
    ("products - largest", "moved - largest"),
)
"""Something to take away for each element along the dim that is cut: a sum along another one."""


@pytest.mark.parametrize(("machine", "m", "n"), [(AVX2, 5, 70), (AVX2, 2, 1), (AVX2, 1, 0), (BF16_PAIRS, 5, 70)])
def test_a_reduction_along_another_dim_is_one_of_each_strip(machine: Machine, m: int, n: int) -> None:
    """It ends no loop: what follows it needs nothing of other strips."""
    spec = below_largest(*BY_LENGTHS)
    assert "lengths.strips" not in {memory.name for memory in stripped(spec, machine).memories}
    random, k, d = np.random.default_rng(0), 7, 18
    a, b, v = (random.integers(-2, 3, shape) for shape in ((m, k), (n, k), (n, d)))
    inputs: dict[str, Any] = {name: array.astype(BF16) for name, array in zip("abv", (a, b, v), strict=True)}
    report = simulate(lower(spec, machine), machine, inputs, {"M": m, "N": n, "K": k, "D": d})
    assert report.ok, report.render()
    c = np.zeros((m, d))
    for start in range(0, n, TILE):
        part = slice(start, start + TILE)
        moved = a @ b[part].T - (b[part] ** 2).sum(axis=1)
        c += (moved - moved.max(axis=1)[:, None]) @ v[part]
    np.testing.assert_array_equal(report.tensors["c"], c)


def test_loops_stay_where_one_instruction_is_as_wide_as_the_tile_or_waves_run_together() -> None:
    assert not strips(stripped(below_largest(("N, tile: 64", "N, tile: 16")), AVX2))
    assert not strips(stripped(below_largest(), NVIDIA))


def test_products_of_several_phases_share_what_they_read() -> None:
    spec = below_largest(
        ("products, dim: N}", "products, dim: N}\n        - early: bf16(products)"),
        ("carry: {acc: nothing,", "carry: {more: nothing, acc: nothing,"),
        ("v_tile, acc]}", "v_tile, acc]}\n        - more: {mma: [early, v_tile, more]}"),
        ("  - {write: steps.acc, to: c}", "  - both: steps.acc + steps.more\n  - {write: both, to: c}"),
    )
    assert strips(stripped(spec, AVX2))
    random, m, n, k, d = np.random.default_rng(0), 5, 70, 7, 18
    a, b, v = (random.integers(-2, 3, shape) for shape in ((m, k), (n, k), (n, d)))
    inputs: dict[str, Any] = {name: array.astype(BF16) for name, array in zip("abv", (a, b, v), strict=True)}
    report = simulate(lower(spec, AVX2), AVX2, inputs, {"M": m, "N": n, "K": k, "D": d})
    assert report.ok, report.render()
    scores, parts = a @ b.T, [slice(start, start + TILE) for start in range(0, n, TILE)]
    c = sum((2 * scores[:, part] - scores[:, part].max(axis=1)[:, None]) @ v[part] for part in parts)
    np.testing.assert_array_equal(report.tensors["c"], c)


def test_a_scan_of_what_is_read_is_in_front_of_the_strips() -> None:
    """Also where arithmetic is between, and strips use all of that."""
    spec = below_largest(
        ("constraints:", "  w: {shape: [N], dtype: f32}\nconstraints:"),
        ("carry: {acc: nothing,", "carry: {before: none_yet, acc: nothing,"),
        ("  - none: {", "  - none_yet: {register: [], dtype: f32, value: 0}\n  - none: {"),
        (
            "- largest: {max: products,",
            """- w_tile: {read: w}
        - twice: w_tile * 2
        - up: {cumsum: twice, dim: N, init: before}
        - before: {sum: twice, dim: N, init: before}
        - moved: products + up + twice
        - largest: {max: moved,""",
        ),
        ("products - largest", "moved - largest"),
    )
    kernel = stripped(spec, AVX2)
    assert strips(kernel) and [op.result.tile.extent("N") for op in kernel.walk() if op.name == "scan"] == [TILE]
    random, m, n, k, d = np.random.default_rng(0), 5, 70, 7, 18
    a, b, v = (random.integers(-2, 3, shape) for shape in ((m, k), (n, k), (n, d)))
    w = random.integers(-2, 3, n)
    inputs: dict[str, Any] = {name: array.astype(BF16) for name, array in zip("abv", (a, b, v), strict=True)}
    inputs["w"] = w.astype(np.float32)
    report = simulate(lower(spec, AVX2), AVX2, inputs, {"M": m, "N": n, "K": k, "D": d})
    assert report.ok, report.render()
    scores, parts = a @ b.T + np.cumsum(2 * w) + 2 * w, [slice(start, start + TILE) for start in range(0, n, TILE)]
    c = sum((scores[:, part] - scores[:, part].max(axis=1)[:, None]) @ v[part] for part in parts)
    np.testing.assert_array_equal(report.tensors["c"], c)

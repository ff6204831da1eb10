"""Tiles that fill registers many times over, on CPUs: strip by strip, with the same results and little code."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA
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

BLOCKS = """\
apiVersion: wavespec/v1
kind: Kernel
name: blocks
dims: {P: {}, I: {value: 128}, G: {}, J: {value: 128}}
tensors:
  w: {shape: [P, I, G, J], dtype: bf16}
  y: {shape: [P, I, G, J], dtype: f32, role: output}
  largest: {shape: [P, G], dtype: f32, role: output}
graph:
  - whole: {read: w}
  - sizes: abs(f32(whole))
  - rows: {max: sizes, dim: J}
  - most: {max: rows, dim: I}
  - below: f32(whole) - most
  - {write: below, to: y}
  - {write: most, to: largest}
"""
"""How far elements of whole blocks lie below the largest of their block, without a word about tiles."""

CHUNKS = """\
apiVersion: wavespec/v1
kind: Kernel
name: chunks
dims: {B: {}, C: {}, L: {value: 64}, U: {equals: L}, D: {max: 128}, E: {max: 128}}
tensors:
  q: {shape: [B, C, L, D], dtype: bf16}
  k: {shape: [B, C, L, D], dtype: bf16}
  v: {shape: [B, C, L, E], dtype: bf16}
  o: {shape: [B, C, L, E], dtype: f32, role: output}
  state: {shape: [B, D, E], dtype: f32, role: output}
graph:
  - none: {register: [B, D, E], dtype: f32, value: 0}
  - chunks:
      repeat: size(C)
      index: c
      carry: {known: none}
      body:
        - q_c: {read: q, dims: [B, L, D], at: {C: c}}
        - k_c: {read: k, dims: [B, L, D], at: {C: c}}
        - k_u: {read: k, dims: [B, U, D], at: {C: c, L: U}}
        - v_c: {read: v, dims: [B, L, E], at: {C: c}}
        - v_u: {read: v, dims: [B, U, E], at: {C: c, L: U}}
        - nothing: {register: [B, L, E], dtype: f32, value: 0}
        - zero: {register: [B, L, U], dtype: f32, value: 0}
        - before: bf16(known)
        - far: {mma: [q_c, before, nothing]}
        - products: {mma: [q_c, k_u, zero]}
        - weights: bf16(where(index(U) <= index(L), products, 0))
        - result: {mma: [weights, v_u, far]}
        - {write: result, to: o, at: {C: c}}
        - later: bf16(f32(k_c) * f32(index(L) % 2))
        - known: {mma: [later, v_c, known]}
  - {write: chunks.known, to: state}
"""
"""A chunk of steps at a time, all of which are in a tile, and the state behind the last one."""


def planned(text: str, target: str = "cpu") -> KernelSpec:
    return cases_for_target(loads(text, "whole.wave.yaml"), target)[-1].spec


def cuts(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.walk() if op.name == "iterate" and op["induction"].startswith("cut_")]


def test_a_reduction_ends_a_loop_and_what_follows_reads_again() -> None:
    loops = cuts(lower(planned(BLOCKS), AVX2, after="cut-tiles"))
    assert [[op.name for op in loop.body.ops] for loop in loops] == [
        ["read", "cast", "elementwise", "reduce", "join"],
        ["read", "cast", "elementwise", "write"],
    ]
    assert {loop["dim"] for loop in loops} == {"I"}  # not along what lies side by side


@pytest.mark.parametrize("machine", [AVX2, CPU, AMX], ids=lambda machine: machine.variant)
def test_whole_blocks_are_exact(machine: Machine) -> None:
    w = np.random.default_rng(0).integers(-99, 100, (2, 128, 3, 128))
    report = simulate(
        lower(planned(BLOCKS), machine), machine, {"w": w.astype(BF16)}, {"P": 2, "I": 128, "G": 3, "J": 128}
    )
    assert report.ok, report.render()
    most = np.abs(w).max(axis=(1, 3))
    np.testing.assert_array_equal(report.tensors["largest"], most)
    np.testing.assert_array_equal(report.tensors["y"], w - most[:, None, :, None])


@pytest.mark.parametrize("machine", [AVX2, AMX, AMD], ids=lambda machine: machine.variant)
def test_products_of_a_step_are_cut_with_what_goes_into_them(machine: Machine) -> None:
    """What strips of strips share with the loop around them is read again: a product of all columns was added to the
    sums of some.  A machine whose lanes compute at once cuts nothing; there operands stay in memory that others have."""
    random, (c, d, e) = np.random.default_rng(0), (2, 5, 7)
    q, k, v = (random.integers(-1, 2, (1, c, 64, size)) for size in (d, d, e))
    inputs = {name: array.astype(BF16) for name, array in zip("qkv", (q, k, v), strict=True)}
    kernel = lower(planned(CHUNKS, machine.target), machine)
    assert bool(cuts(lower(planned(CHUNKS, machine.target), machine, after="cut-tiles"))) == (machine is not AMD)
    report = simulate(kernel, machine, inputs, {"B": 1, "C": c, "L": 64, "U": 64, "D": d, "E": e})
    assert report.ok, report.render()
    known, expected = np.zeros((d, e)), np.zeros((1, c, 64, e))
    for chunk in range(c):
        q_c, k_c, v_c = (one[0, chunk] for one in (q, k, v))
        expected[0, chunk] = np.tril(q_c @ k_c.T) @ v_c + q_c @ known
        known += (k_c * (np.arange(64) % 2)[:, None]).T @ v_c
    np.testing.assert_array_equal(report.tensors["o"], expected)
    np.testing.assert_array_equal(report.tensors["state"][0], known)


def test_code_does_not_grow_with_what_a_value_needs_all_of() -> None:
    """Blocks of 128 x 128 were 57,000 lines for AVX-512, and more than 60,000 for AVX2, which was refused."""
    for machine in machines("cpu"):
        small, large = (
            emit(planned(BLOCKS.replace("I: {value: 128}", f"I: {{value: {rows}}}")), machine).text.count("\n")
            for rows in (128, 512)
        )
        assert small < 2_000
        assert large <= small + 10


def test_chunks_of_steps_build_for_every_cpu() -> None:
    for machine in machines("cpu"):
        assert emit(planned(CHUNKS), machine).text.count("\n") < 20_000


@pytest.mark.parametrize("machine", [AVX2, AMX], ids=lambda machine: machine.variant)
def test_small_scans_stay_whole_while_their_dim_is_cut(machine: Machine) -> None:
    """Gates of a chunk of 64 steps, summed along it, kept all of the products in one block: 38,600 lines for AVX2."""
    text = CHUNKS
    for old, new in {
        "  o: {shape": "  g: {shape: [B, C, L], dtype: f32}\n  o: {shape",
        "        - nothing:": "        - g_c: {read: g, dims: [B, L], at: {C: c}}\n        - s_c: {cumsum: g_c, dim: L}\n        - nothing:",
        "{mma: [weights, v_u, far]}": "{mma: [weights, v_u, far_gated]}",
        "        - products:": "        - far_gated: far * s_c\n        - products:",
    }.items():
        assert old in text
        text = text.replace(old, new, 1)
    assert cuts(lower(planned(text), machine, after="cut-tiles"))
    random, (c, d, e) = np.random.default_rng(0), (2, 128, 7)
    q, k, v = (random.integers(-1, 2, (1, c, 64, size)) for size in (d, d, e))
    g = random.integers(-1, 2, (1, c, 64))
    inputs = {name: array.astype(BF16) for name, array in zip("qkv", (q, k, v), strict=True)}
    inputs["g"] = g.astype(np.float32)
    report = simulate(
        lower(planned(text), machine), machine, inputs, {"B": 1, "C": c, "L": 64, "U": 64, "D": d, "E": e}
    )
    assert report.ok, report.render()
    known = np.zeros((d, e))
    for chunk in range(c):
        q_c, k_c, v_c = (one[0, chunk] for one in (q, k, v))
        expected = np.tril(q_c @ k_c.T) @ v_c + q_c @ known * np.cumsum(g[0, chunk])[:, None]
        np.testing.assert_array_equal(report.tensors["o"][0, chunk], expected)
        known += (k_c * (np.arange(64) % 2)[:, None]).T @ v_c
    np.testing.assert_array_equal(report.tensors["state"][0], known)


RANKS = """\
apiVersion: wavespec/v1
kind: Kernel
name: ranks
dims: {A: {}, X: {value: 64}}
params: {STEP: 64}
tensors:
  groups: {shape: [A], dtype: i32, values: {min: 0, max: 63}}
  first: {shape: [X], dtype: i32}
  place: {shape: [A], dtype: i32, role: output}
  behind: {shape: [X], dtype: i32, role: output}
constraints:
  - {tiling: A, tile: STEP}
  - {tiling: X, tile: 64}
graph:
  - starts: {read: first}
  - far: starts + 1
  - none: {register: [X], dtype: i32, value: 0}
  - ranks:
      iterate: A
      carry: {before: none}
      body:
        - group: {read: groups}
        - mine: i32(group == index(X))
        - rank: {cumsum: mine, dim: A, init: before}
        - before: {sum: mine, dim: A, init: before}
        - places: where(mine == 1, far + rank - 1, -1)
        - here: {max: places, dim: X}
        - {write: here, to: place}
  - {write: ranks.before, to: behind}
"""
"""Where each element of a group goes: how many of the group are before it, as a loop carries, from a place of its own."""


@pytest.mark.parametrize("machine", [AVX2, AMX], ids=lambda machine: machine.variant)
def test_what_a_loop_carries_is_kept_in_memory_where_it_is_little(machine: Machine) -> None:
    """Elements of all groups, with what comes from around the loop; scans go along another dim."""
    kernel = lower(planned(RANKS), machine, after="cut-tiles")
    (loop,) = cuts(kernel)
    kept = {memory.name for memory in kernel.memories if memory.name.endswith(".strips")}
    assert (loop["dim"], kept) == ("X", {"far.strips", "before.strips"})
    random = np.random.default_rng(0)
    inputs = {"groups": random.integers(0, 64, 150, np.int32), "first": random.integers(0, 999, 64, np.int32)}
    report = simulate(lower(planned(RANKS), machine), machine, inputs, {"A": 150, "X": 64})
    assert report.ok, report.render()
    seen, expected = np.zeros(64, int), list[int]()
    for group in inputs["groups"]:
        expected.append(int(inputs["first"][group] + 1 + seen[group]))
        seen[group] += 1
    np.testing.assert_array_equal(report.tensors["place"], expected)
    np.testing.assert_array_equal(report.tensors["behind"], seen)


def test_much_that_a_loop_carries_stays_in_memory_from_step_to_step() -> None:
    changes = {
        "X: {value: 64}}": "X: {value: 64}, Y: {value: 64}}",
        "  - ranks:": "  - many: {register: [Y, X], dtype: i32, value: 0}\n  - ranks:",
        "carry: {before: none}": "carry: {before: none, more: many}",
        "        - {write: here": "        - more: more + before\n        - {write: here",
        "  - {write: ranks.before": "  - sums: {sum: ranks.more, dim: Y}\n  - {write: sums, to: first_sums}\n  - {write: ranks.before",
        "  behind:": "  first_sums: {shape: [X], dtype: i32, role: output}\n  behind:",
    }
    text = RANKS
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new, 1)
    kernel = lower(planned(text), AVX2, after="cut-tiles")
    assert any(loop["dim"] == "X" for loop in cuts(kernel))
    (steps,) = (op for op in kernel.walk() if op.node == "ranks")
    assert not steps.operands
    # What a step takes of the one before it, and not at its own place, is in registers.
    turned = text.replace("more: more + before", 'more: "more_before + before"').replace(
        "        - mine:", '        - more_before: {take: more, at: {Y: "xor(Y, 1)"}}\n        - mine:'
    )
    assert "take: more" in turned
    groups = np.random.default_rng(0).integers(0, 64, 150, np.int32)
    inputs = {"groups": groups, "first": np.arange(64, dtype=np.int32)}
    sizes = {"A": 150, "X": 64, "Y": 64}
    one, other = (simulate(lower(planned(t), AVX2), AVX2, inputs, sizes) for t in (text, turned))
    assert one.ok and other.ok, one.render() + other.render()
    np.testing.assert_array_equal(one.tensors["first_sums"], other.tensors["first_sums"])
    np.testing.assert_array_equal(one.tensors["behind"], np.bincount(groups, minlength=64))


BUTTERFLIES = """\
apiVersion: wavespec/v1
kind: Kernel
name: butterflies
dims: {M: {}, N: {value: 64}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
parts:
  stage:
    inputs: [values, half]
    outputs: [joined]
    body:
      - other: {take: values, at: {N: "xor(N, half)"}}
      - joined: "where(index(N) // half % 2 == 0, values + other, other - values)"
graph:
  - x_tile: {read: x}
  - s1: {part: stage, values: x_tile, half: 32}
  - s2: {part: stage, values: s1.joined, half: 16}
  - s3: {part: stage, values: s2.joined, half: 8}
  - s4: {part: stage, values: s3.joined, half: 4}
  - s5: {part: stage, values: s4.joined, half: 2}
  - s6: {part: stage, values: s5.joined, half: 1}
  - {write: s6.joined, to: y}
"""
"""A transform of Walsh and Hadamard, of rows that are each turned over in themselves."""


def test_what_rows_take_of_themselves_is_cut_with_them() -> None:
    """Whole tiles of 64 rows were 12,300 lines for AVX2."""
    kernel = planned(BUTTERFLIES)
    assert [loop["dim"] for loop in cuts(lower(kernel, AVX2, after="cut-tiles"))] == ["M"]
    assert emit(kernel, AVX2).text.count("\n") < 3_000
    x = np.random.default_rng(0).integers(-9, 10, (70, 64)).astype(np.float32)
    report = simulate(lower(kernel, AVX2), AVX2, {"x": x}, {"M": 70, "N": 64})
    assert report.ok, report.render()
    bits = np.array([[(row & column).bit_count() for column in range(64)] for row in range(64)])
    np.testing.assert_array_equal(report.tensors["y"], x @ (-1.0) ** bits)


def test_few_registers_stay_as_they_are() -> None:
    few = planned(BLOCKS.replace("128}", "16}"))
    assert not cuts(lower(few, AVX2, after="cut-tiles"))


def test_what_is_changed_in_place_stays_whole() -> None:
    """A second read would find what the first loop has written."""
    text = BLOCKS.replace("w: {shape: [P, I, G, J], dtype: bf16}", "w: {shape: [P, I, G, J], dtype: bf16, role: inout}")
    text = text.replace(
        "- {write: below, to: y}", "- {write: below, to: y}\n  - twice: bf16(below)\n  - {write: twice, to: w}"
    )
    assert not cuts(lower(planned(text), CPU, after="cut-tiles"))


def test_lanes_of_a_gpu_have_tiles_at_once() -> None:
    assert not cuts(lower(planned(BLOCKS, "sm_90"), NVIDIA))

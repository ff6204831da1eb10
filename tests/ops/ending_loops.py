"""Kernels with loops that end early, and what they compute in numpy."""

from __future__ import annotations

import numpy as np

from wavespec.sim.elements import Array

FIRST = """apiVersion: wavespec/v1
kind: Kernel
name: first
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: i32}
  y: {shape: [M], dtype: i32, role: output}
constraints:
  - {workgroup: M, tile: 1, axis: 0}
  - {tiling: N, tile: 32}
graph:
  - zero: {register: [M], dtype: i32, value: 0}
  - none: "zero + N"
  - rows:
      iterate: N
      until: place < N
      carry: {place: none}
      body:
        - part: {read: x}
        - found: "where(part == 3, index(N), N)"
        - place: {min: found, dim: N, init: place}
  - {write: rows.place, to: y}
"""
"""The first place of a 3 in each row, N where there is none."""

ROOT = """apiVersion: wavespec/v1
kind: Kernel
name: root
dims: {M: {}, N: {value: 48}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
  steps: {shape: [M], dtype: i32, role: output}
constraints:
  - {workgroup: M, tile: 1, axis: 0}
graph:
  - a: {read: x}
  - one: {register: [M], dtype: i32, value: 1}
  - none: {register: [M], dtype: i32, value: 0}
  - newton:
      repeat: 40
      until: moving == 0
      carry: {root: a, moving: one, count: none}
      body:
        - better: "(root + a / root) / 2"
        - moves: "better < root * 0.999"
        - some: {any: moves, dim: N}
        - moving: i32(some)
        - root: "minimum(better, root)"
        - count: "count + 1"
  - {write: newton.root, to: y}
  - {write: newton.count, to: steps}
"""
"""Square roots of numbers that are at least 1, by Newton's iteration; steps of a row go on while one element moves."""

LIMITED = """apiVersion: wavespec/v1
kind: Kernel
name: limited
dims: {M: {}, N: {}, K: {multiple_of: 8}}
tensors:
  a: {shape: [M, K], dtype: f16, space: SPACE}
  b: {shape: [N, K], dtype: f16, space: SPACE}
  limit: {shape: [], dtype: i32}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 32}
  - {wave: M, tile: 32}
  - {wave: N, tile: 32}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - none: {register: [], dtype: i32, value: 0}
  - most: {read: limit}
  - k_loop:
      iterate: K
      until: count >= most
      carry: {acc: zero, count: none}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
        - count: "count + 1"
  - {write: k_loop.acc, to: c}
schedule: {stages: STAGES}
"""
"""The product of as many tiles of K as a tensor says; the others are 0, so that they change nothing."""

SPARSEMAX = """apiVersion: wavespec/v1
kind: Kernel
name: sparsemax
dims: {M: {}, N: {min: 1}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 1, axis: 0}
  - {tiling: N, tile: 32}
graph:
  - lowest: {register: [M], dtype: f32, value: -.inf}
  - none: {register: [M], dtype: i32, value: 0}
  - zero: {register: [M], dtype: f32, value: 0}
  - more: "none + 1"
  - support:
      repeat: N + 1
      until: change == 0
      carry: {low: lowest, count: none, change: more}
      body:
        - walk:
            iterate: N
            carry: {total: zero, kept: none}
            body:
              - part: {read: x}
              - above: part > low
              - numbers: where(above, part, 0)
              - ones: i32(above)
              - total: {sum: numbers, dim: N, init: total}
              - kept: {sum: ones, dim: N, init: kept}
        - low: (walk.total - 1) / f32(walk.kept)
        - change: walk.kept - count
        - count: "count + change"
  - result:
      iterate: N
      body:
        - again: {read: x}
        - value: relu(again - support.low)
        - {write: value, to: y}
"""
"""The nearest point to a row with elements that are not negative and add up to 1; rows are walked over until the number
of elements above 0 stays (Michelot, 1986)."""


def first_inputs(m: int, n: int) -> tuple[Array, Array]:
    x = np.random.default_rng(m + n).integers(0, 90, (m, n)).astype(np.int32)
    places = [np.flatnonzero(row == 3) for row in x]
    return x, np.array([found[0] if len(found) else n for found in places], np.int32)


def root_inputs(m: int) -> Array:
    x = np.random.default_rng(m).uniform(1, 9, (m, 48)) ** np.arange(m)[:, None]
    return x.astype(np.float32)


def root_steps(x: Array) -> Array:
    """How many steps each row takes, in f32 as the kernel does."""
    counts: list[int] = []
    for row in x:
        root, count, moving = row, 0, True
        while moving and count < 40:
            following = (root + row / root) / np.float32(2)
            moving = bool((following < root * np.float32(0.999)).any())
            root, count = np.minimum(following, root), count + 1
        counts.append(count)
    return np.array(counts, np.int32)


def limited(stages: int, space: str) -> str:
    return LIMITED.replace("STAGES", str(stages)).replace("SPACE", space)


def limited_inputs(m: int, n: int, k: int, limit: int) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(m + n + k)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    a[:, limit * 32 :] = 0
    return a, b, np.array(limit, np.int32)


def sparsemax(x: Array) -> Array:
    """By sorting, as Martins and Astudillo do."""
    ordered = -np.sort(-x.astype(np.float64), 1)
    sums = ordered.cumsum(1)
    count = (1 + np.arange(1, x.shape[1] + 1) * ordered > sums).sum(1)
    low = (np.take_along_axis(sums, count[:, None] - 1, 1) - 1) / count[:, None]
    return np.maximum(x - low, 0)

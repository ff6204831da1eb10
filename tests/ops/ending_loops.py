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

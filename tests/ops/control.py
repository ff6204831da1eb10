"""Kernels with branches and loops between bounds: parameters in, a spec of a triangular product or row sum out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.elements import Array
from wavespec.sim.findings import SimulationReport
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

_BRANCH = """
      carry: {total: none}
      body:
        - some:
            if: start(N) < end(M)
            carry: {total: total}
            body:
              - part: {read: x}
              - kept: "where(index(N) <= index(M), part, 0)"
              - total: {sum: kept, dim: N, init: total}
        - total: some.total"""
_BOUNDED = """
      end: end(M)
      carry: {total: none}
      body:
        - part: {read: x}
        - kept: "where(index(N) <= index(M), part, 0)"
        - total: {sum: kept, dim: N, init: total}"""
_UPPER = """
      start: start(M)
      carry: {total: none}
      body:
        - part: {read: x}
        - kept: "where(index(N) >= index(M), part, 0)"
        - total: {sum: kept, dim: N, init: total}"""
LOOPS = {"branch": _BRANCH, "end": _BOUNDED, "start": _UPPER}


@dataclass(frozen=True, slots=True)
class Rows:
    """``y[M]``: the sums of the rows of the lower (for ``start``: upper) triangle of ``x[M, N]``."""

    loop: str = "branch"

    @property
    def spec(self) -> KernelSpec:
        return loads(
            f"""apiVersion: wavespec/v1
kind: Kernel
name: triangle
dims: {{M: {{}}, N: {{}}}}
tensors:
  x: {{shape: [M, N], dtype: f32}}
  y: {{shape: [M], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 8, axis: 0}}
  - {{wave: M, tile: 4}}
  - {{tiling: N, tile: 16}}
graph:
  - none: {{register: [M], dtype: f32, value: 0}}
  - rows:
      iterate: N{LOOPS[self.loop]}
  - {{write: rows.total, to: y}}
""",
            "triangle.wave.yaml",
        )

    def expected(self, x: Array) -> Array:
        return (np.triu(x) if self.loop == "start" else np.tril(x)).sum(1)

    def run(self, machine: Machine, sizes: tuple[int, int]) -> tuple[SimulationReport, Array]:
        x = np.random.default_rng(sum(sizes)).integers(-9, 10, sizes).astype(np.float32)
        report = simulate(lower(self.spec, machine), machine, {"x": x}, dict(zip("MN", sizes, strict=True)))
        return report, self.expected(x)


@dataclass(frozen=True, slots=True)
class Product:
    """``c[M, N] = tril(a)[M, K] . b[N, K]``; the operand ``a`` is that triangle already."""

    stages: int = 1
    loop: str = "end"
    schedule: str = ""
    space: str = "shared"
    start: str = ""
    step: str = ""
    walked: str = ""
    """More of the tiling of K."""
    tile: tuple[int, int, int] = (64, 64, 32)
    wave: tuple[int, int] = (32, 32)

    @property
    def spec(self) -> KernelSpec:
        step = ["a_tile: {read: a}", "b_tile: {read: b}", "acc: {mma: [a_tile, b_tile, acc]}"]
        if self.loop == "branch":
            inside = "".join(f"\n              - {line}" for line in step)
            body = f"""
        - some:
            if: start(K) < end(M)
            carry: {{acc: acc}}
            body:{inside}
        - acc: some.acc"""
        else:
            body = "".join(f"\n        - {line}" for line in step)
        bounds = "\n      end: end(M)" if self.loop == "end" else ""
        bounds += f"\n      start: {self.start}" if self.start else ""
        bounds += f"\n      step: {self.step}" if self.step else ""
        return loads(
            f"""apiVersion: wavespec/v1
kind: Kernel
name: triangle
dims: {{M: {{}}, N: {{}}, K: {{multiple_of: 8}}}}
tensors:
  a: {{shape: [M, K], dtype: f16, space: {self.space}}}
  b: {{shape: [N, K], dtype: f16, space: {self.space}}}
  c: {{shape: [M, N], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: {self.tile[0]}, axis: 0}}
  - {{workgroup: N, tile: {self.tile[1]}, axis: 1}}
  - {{tiling: K, tile: {self.tile[2]}{self.walked}}}
  - {{wave: M, tile: {self.wave[0]}}}
  - {{wave: N, tile: {self.wave[1]}}}
  - {{hardware: {{mma: auto}}}}
graph:
  - zero: {{register: [M, N], dtype: f32, value: 0}}
  - k_loop:
      iterate: K{bounds}
      carry: {{acc: zero}}
      body:{body}
  - {{write: k_loop.acc, to: c}}
schedule: {{stages: {self.stages}{self.schedule}}}
""",
            "triangle.wave.yaml",
        )

    def operands(self, sizes: tuple[int, int, int]) -> tuple[Array, Array]:
        m, n, k = sizes
        random = np.random.default_rng(sum(sizes))
        a = np.tril(random.integers(-3, 4, (m, k))).astype(np.float16)
        return a, random.integers(-3, 4, (n, k)).astype(np.float16)

    def run(
        self, machine: Machine, sizes: tuple[int, int, int], kernel: Kernel | None = None
    ) -> tuple[SimulationReport, Array]:
        a, b = self.operands(sizes)
        kernel = kernel or lower(self.spec, machine)
        report = simulate(kernel, machine, {"a": a, "b": b}, dict(zip("MNK", sizes, strict=True)))
        return report, a.astype(np.float32) @ b.astype(np.float32).T


RAGGED = """apiVersion: wavespec/v1
kind: Kernel
name: ragged
dims: {B: {}, N: {}, D: {}}
tensors:
  lengths: {shape: [B], dtype: i32}
  x: {shape: [B, N, D], dtype: f32}
  y: {shape: [B, D], dtype: f32, role: output}
constraints:
  - {workgroup: B, tile: 1, axis: 1}
  - {workgroup: D, tile: 16, axis: 0}
  - {tiling: N, tile: 8}
graph:
  - none: {register: [B, D], dtype: f32, value: 0}
  - length: {read: lengths}
  - rows:
      iterate: N
      end: length
      carry: {total: none}
      body:
        - part: {read: x}
        - kept: "where(index(N) < length, part, 0)"
        - total: {sum: kept, dim: N, init: total}
  - some:
      if: length > 3
      carry: {total: rows.total}
      body:
        - total: "total * 2"
      otherwise:
        - total: "total * 3"
  - {write: some.total, to: y}
"""
"""Sums of as many rows as a tensor says, twice where they are more than three, else three times."""


def ragged_inputs() -> tuple[Array, Array, Array]:
    """Lengths, rows, and what is right."""
    x = np.random.default_rng(0).integers(-5, 6, (4, 30, 20)).astype(np.float32)
    lengths = np.array([3, 0, 30, 17], np.int32)
    sums = [one[:length].sum(0) * (2 if length > 3 else 3) for one, length in zip(x, lengths, strict=True)]
    return lengths, x, np.stack(sums)


@dataclass(frozen=True, slots=True)
class Parts:
    """``y[P, M]``: sums of the rows of ``x[M, N]``, each of every P-th tile; ``p`` has the size P."""

    @property
    def spec(self) -> KernelSpec:
        return loads(
            """apiVersion: wavespec/v1
kind: Kernel
name: parts
dims: {M: {}, N: {}, P: {min: 1}}
params: {BLOCK: 16}
tensors:
  x: {shape: [M, N], dtype: f32}
  p: {shape: [P], dtype: f32}
  y: {shape: [P, M], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
  - {workgroup: P, tile: 1, axis: 1}
  - {tiling: N, tile: BLOCK}
graph:
  - first: {read: p}
  - zero: {register: [P, M], dtype: f32, value: 0}
  - none: "zero + first"
  - rows:
      iterate: N
      start: start(P) * BLOCK
      step: P
      carry: {total: none}
      body:
        - part: {read: x}
        - kept: "where(index(N) // BLOCK % P == index(P), part, 0)"
        - total: {sum: kept, dim: N, init: total}
  - {write: rows.total, to: y}
""",
            "parts.wave.yaml",
        )

    def inputs(self, m: int, n: int, p: int) -> tuple[Array, Array]:
        random = np.random.default_rng(m + n + p)
        x, first = (random.integers(-9, 10, shape).astype(np.float32) for shape in ((m, n), (p,)))
        return x, first

    def expected(self, x: Array, first: Array) -> Array:
        p, width = len(first), x.shape[1]
        tiles = [[n for n in range(width) if n // 16 % p == part] for part in range(p)]
        return np.stack([x[:, tile].sum(1) + start for tile, start in zip(tiles, first, strict=True)])

"""Scans in one place: parameters in, a spec of a scan and what is right out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.elements import Array, numpy_dtype
from wavespec.sim.findings import SimulationReport
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

TOTALS = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}


@dataclass(frozen=True, slots=True)
class Scans:
    """``y = word of x[M, N] along dim``, walked over in tiles: ``tile`` of M, N for a workgroup, ``wave`` for a wave."""

    word: str = "cumsum"
    dim: str = "N"
    dtype: str = "f32"
    tile: tuple[int, int] = (4, 64)
    wave: tuple[int, int] = (2, 64)
    init: float = 0
    low: int = -9
    high: int = 10
    axis: str = ""

    @property
    def spec(self) -> KernelSpec:
        kept = "M" if self.dim == "N" else "N"
        sizes = dict(zip("MN", self.tile, strict=True))
        parts = dict(zip("MN", self.wave, strict=True))
        return loads(
            f"""apiVersion: wavespec/v1
kind: Kernel
name: scans
dims: {{M: {{}}, N: {{}}}}
tensors:
  x: {{shape: [M, N], dtype: {self.dtype}}}
  y: {{shape: [M, N], dtype: {self.dtype}, role: output}}
constraints:
  - {{workgroup: {kept}, tile: {sizes[kept]}, axis: 0}}
  - {{wave: {kept}, tile: {parts[kept]}}}
  - {{tiling: {self.dim}, tile: {sizes[self.dim]}}}
  - {{wave: {self.dim}, tile: {parts[self.dim]}}}
graph:
  - start: {{register: [{kept}], dtype: {self.dtype}, value: {self.init}}}
  - steps:
      iterate: {self.dim}
      carry: {{before: start}}
      body:
        - part: {{read: x}}
        - running: {{{self.word}: part, dim: {self.dim}, init: before}}
        - before: {{{TOTALS[self.word]}: part, dim: {self.dim}, init: before}}
        - {{write: running, to: y}}
""",
            "scans.wave.yaml",
        )

    @property
    def whole_rows(self) -> KernelSpec:
        """The same without a loop, of rows of 64."""
        return loads(
            f"""apiVersion: wavespec/v1
kind: Kernel
name: scans
dims: {{M: {{}}, N: {{value: 64}}}}
tensors:
  x: {{shape: [M, N], dtype: f32}}
  y: {{shape: [M, N], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 4, axis: 0}}
{self.axis}graph:
  - whole: {{read: x}}
  - running: {{{self.word}: whole, dim: N}}
  - {{write: running, to: y}}
""",
            "scans.wave.yaml",
        )

    def run(
        self, machine: Machine, sizes: tuple[int, int], kernel: Kernel | None = None
    ) -> tuple[SimulationReport, Array]:
        """The simulator's report, and what is right in f64, from small whole numbers."""
        low, high = (1, 3) if self.word == "cumprod" else (self.low, self.high)
        x = np.random.default_rng(sum(sizes)).integers(low, high, sizes).astype(numpy_dtype(DTYPES[self.dtype]))
        extents = dict(zip("MN", sizes, strict=True))
        report = simulate(kernel or lower(self.spec, machine), machine, {"x": x}, extents)
        join = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}[self.word]
        return report, join.accumulate(x.astype(np.float64), "MN".index(self.dim))

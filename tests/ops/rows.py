"""Kernels without matrix products in one place: parameters in, a spec of a reduction or of an elementwise op out."""

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


@dataclass(frozen=True, slots=True)
class Rows:
    """``y = word of x[M, N] along dim``, walked over in tiles: ``tile`` of M, N for a workgroup, ``wave`` for a wave;
    ``split`` workgroups share out the steps."""

    word: str = "sum"
    dim: str = "N"
    dtype: str = "f32"
    tile: tuple[int, int] = (4, 64)
    wave: tuple[int, int] = (2, 64)
    order: str = "M, N"
    init: float = 0
    promise: str = ""
    split: int = 1

    @property
    def spec(self) -> KernelSpec:
        return loads(self.spec_text, "rows.wave.yaml")

    @property
    def spec_text(self) -> str:
        kept = "M" if self.dim == "N" else "N"
        sizes = dict(zip("MN", self.tile, strict=True))
        parts = dict(zip("MN", self.wave, strict=True))
        schedule = f"schedule: {{workgroups: {{split: {self.split}}}}}\n" if self.split > 1 else ""
        return f"""apiVersion: wavespec/v1
kind: Kernel
name: rows
dims: {{M: {{{self.promise}}}, N: {{{self.promise}}}}}
tensors:
  x: {{shape: [{self.order}], dtype: {self.dtype}}}
  y: {{shape: [{kept}], dtype: {self.dtype}, role: output}}
constraints:
  - {{workgroup: {kept}, tile: {sizes[kept]}, axis: 0}}
  - {{wave: {kept}, tile: {parts[kept]}}}
  - {{tiling: {self.dim}, tile: {sizes[self.dim]}}}
  - {{wave: {self.dim}, tile: {parts[self.dim]}}}
graph:
  - start: {{register: [{kept}], dtype: {self.dtype}, value: {self.init}}}
  - steps:
      iterate: {self.dim}
      carry: {{total: start}}
      body:
        - part: {{read: x}}
        - total: {{{self.word}: part, dim: {self.dim}, init: total}}
  - {{write: steps.total, to: y}}
{schedule}"""

    def run(
        self, machine: Machine, sizes: tuple[int, int], kernel: Kernel | None = None
    ) -> tuple[SimulationReport, Array]:
        """The simulator's report, and what is right in f64, from small whole numbers."""
        extents = dict(zip("MN", sizes, strict=True))
        shape = [extents[dim] for dim in self.order.split(", ")]
        low, high = (1, 3) if self.word == "prod" else (-9, 10)
        low = 0 if self.dtype == "u8" else low
        x = np.random.default_rng(sum(sizes)).integers(low, high, shape).astype(numpy_dtype(DTYPES[self.dtype]))
        report = simulate(kernel or lower(self.spec, machine), machine, {"x": x}, extents)
        axis = self.order.split(", ").index(self.dim)
        join = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[self.word]
        return report, join.reduce(x.astype(np.float64), axis, initial=self.init)

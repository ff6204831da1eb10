"""Places of extremes in one place: parameters in, a spec of `argmax`, `argmin` or `topk` and its results out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from tests.kernels import TORCH, tensor_to_array
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.elements import Array
from wavespec.sim.findings import SimulationReport
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine


@dataclass(frozen=True, slots=True)
class Extremes:
    """Elements and places of x[M, N] along a dim, walked over in tiles: ``tile`` of M, N for a workgroup, ``wave`` for a
    wave.  ``count`` of them, for `topk`; ``largest`` or smallest ones; ``start``: the element that is no better than any,
    where it has to be another one; ``most``, ``least``: how many there may be along N."""

    count: int = 0
    largest: bool = True
    dim: str = "N"
    dtype: str = "f32"
    places: str = "i64"
    tile: tuple[int, int] = (4, 64)
    wave: tuple[int, int] = (2, 64)
    start: int | None = None
    least: int = 0
    most: int | None = None

    @property
    def spec(self) -> KernelSpec:
        kept = "M" if self.dim == "N" else "N"
        sizes, parts = dict(zip("MN", self.tile, strict=True)), dict(zip("MN", self.wave, strict=True))
        dims = ("M, K" if self.dim == "N" else "K, N") if self.count else kept
        if self.start is not None:
            worst = str(self.start)
        elif self.dtype in ("u8", "bool"):
            worst = "0" if self.largest else "1"
        elif self.dtype.startswith("i"):
            worst = "-100" if self.largest else "100"
        else:
            worst = "-.inf" if self.largest else ".inf"
        word = "topk" if self.count else "argmax" if self.largest else "argmin"
        more = f"k: K, largest: {str(self.largest).lower()}, indices: place" if self.count else "extreme: element"
        named, other = ("element", "place") if self.count else ("place", "element")
        return loads(
            f"""apiVersion: wavespec/v1
kind: Kernel
name: extremes
dims: {{M: {{}}, N: {{min: {self.least}{f", max: {self.most}" if self.most else ""}}}{f", K: {{value: {self.count}}}" if self.count else ""}}}
tensors:
  x: {{shape: [M, N], dtype: {self.dtype}}}
  elements: {{shape: [{dims}], dtype: {self.dtype}, role: output}}
  places: {{shape: [{dims}], dtype: {self.places}, role: output}}
constraints:
  - {{workgroup: {kept}, tile: {sizes[kept]}, axis: 0}}
  - {{wave: {kept}, tile: {parts[kept]}}}
  - {{tiling: {self.dim}, tile: {sizes[self.dim]}}}
  - {{wave: {self.dim}, tile: {parts[self.dim]}}}
graph:
  - worst: {{register: [{dims}], dtype: {self.dtype}, value: {worst}}}
  - nowhere: {{register: [{dims}], dtype: {self.places}, value: 2147483647}}
  - steps:
      iterate: {self.dim}
      carry: {{element: worst, place: nowhere}}
      body:
        - part: {{read: x}}
        - {named}: {{{word}: part, dim: {self.dim}, {more}, init: [{named}, {other}], dtype: {self.places}}}
  - {{write: steps.element, to: elements}}
  - {{write: steps.place, to: places}}
""",
            "extremes.wave.yaml",
        )

    def x(self, sizes: tuple[int, int]) -> torch.Tensor:
        """Small whole numbers, many of them equal."""
        low, high = (0, 2) if self.dtype in ("u8", "bool") else (-9, 10)
        generator = torch.Generator().manual_seed(sum(sizes))
        return torch.randint(low, high, sizes, generator=generator).to(TORCH[self.dtype])

    def run(
        self, machine: Machine, x: torch.Tensor, kernel: Kernel | None = None
    ) -> tuple[SimulationReport, Mapping[str, Array]]:
        """The simulator's report, and what is right in f64."""
        extents = dict(zip("MNK", (*x.shape, self.count), strict=True))
        inputs = {"x": tensor_to_array(x, self.dtype)}
        report = simulate(kernel or lower(self.spec, machine), machine, inputs, extents)
        exact = reference(self.spec, x)
        return report, dict(zip(("elements", "places"), map(np.asarray, exact), strict=True))

    def check(self, machine: Machine, x: torch.Tensor) -> None:
        report, right = self.run(machine, x)
        assert report.ok, report.render()
        for name, expected in right.items():
            found = report.tensors[name]
            if found.dtype.kind not in "iu":
                found, expected = (one.astype(np.float64) for one in (found, expected))
            np.testing.assert_array_equal(found, expected, name)

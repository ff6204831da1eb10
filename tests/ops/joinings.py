"""Values joined along a dim by statements of a spec: parameters in, a spec and what is right out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from wavespec.ir.dtype import DTYPES
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.elements import Array, numpy_dtype
from wavespec.sim.findings import SimulationReport
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

AFFINE = ("- h: gate * h + part", "- p: gate * p")
HEADER = "apiVersion: wavespec/v1\nkind: Kernel\nname: joinings\n"


@dataclass(frozen=True, slots=True)
class Recurrence:
    """``h = a * h + x`` along ``dim`` of M and N, walked over in tiles: of whole numbers, which wrap, so that every
    mistake of an order shows."""

    dim: str = "N"
    dtype: str = "i32"
    tile: tuple[int, int] = (4, 64)
    wave: tuple[int, int] = (2, 64)
    reverse: bool = False

    @property
    def _head(self) -> str:
        tensors = f"  a: {{shape: [M, N], dtype: {self.dtype}}}\n  x: {{shape: [M, N], dtype: {self.dtype}}}\n"
        kept = "M" if self.dim == "N" else "N"
        tensors += f"  before: {{shape: [{kept}], dtype: {self.dtype}}}\n"
        tensors += f"  y: {{shape: [M, N], dtype: {self.dtype}, role: output}}\n"
        tensors += f"  end: {{shape: [{kept}], dtype: {self.dtype}, role: output}}\n"
        return f"{HEADER}dims: {{M: {{}}, N: {{}}}}\ntensors:\n{tensors}"

    @property
    def spec(self) -> KernelSpec:
        kept = "M" if self.dim == "N" else "N"
        sizes = dict(zip("MN", self.tile, strict=True))
        parts = dict(zip("MN", self.wave, strict=True))
        body = "\n".join(f"            {line}" for line in AFFINE)
        return loads(
            f"""{self._head}constraints:
  - {{workgroup: {kept}, tile: {sizes[kept]}, axis: 0}}
  - {{wave: {kept}, tile: {parts[kept]}}}
  - {{tiling: {self.dim}, tile: {sizes[self.dim]}}}
  - {{wave: {self.dim}, tile: {parts[self.dim]}}}
graph:
  - one: {{register: [{kept}], dtype: {self.dtype}, value: 1}}
  - start: {{read: before}}
  - steps:
      iterate: {self.dim}
      carry: {{factor: one, state: start}}
      body:
        - gate: {{read: a}}
        - part: {{read: x}}
        - run:
            scan: {self.dim}
            carry: {{p: gate, h: part}}
            identity: {{p: 1, h: 0}}
            init: {{p: factor, h: state}}
            last: {{p: product, h: final}}
            combine:
{body}
        - factor: run.product
        - state: run.final
        - {{write: run.h, to: y}}
  - {{write: steps.state, to: end}}
""",
            "joinings.wave.yaml",
        )

    @property
    def whole(self) -> KernelSpec:
        """All of the dim at once, of 64 elements, and beside the scan the reduction by the same statements."""
        text = self._head.replace(f"{self.dim}: {{}}", f"{self.dim}: {{value: 64}}")
        kept = "M" if self.dim == "N" else "N"
        body = "\n".join(f"        {line}" for line in AFFINE)
        joined = "carry: {p: gate, h: part}\n      identity: {p: 1, h: 0}\n      init: {p: one, h: start}"
        return loads(
            f"""{text}constraints:
  - {{workgroup: {kept}, tile: 4, axis: 0}}
graph:
  - one: {{register: [{kept}], dtype: {self.dtype}, value: 1}}
  - start: {{read: before}}
  - gate: {{read: a}}
  - part: {{read: x}}
  - run:
      scan: {self.dim}
      {joined}
      reverse: {str(self.reverse).lower()}
      combine:
{body}
  - total:
      reduce: {self.dim}
      {joined}
      combine:
{body}
  - {{write: run.h, to: y}}
  - {{write: total.h, to: end}}
""",
            "joinings.wave.yaml",
        )

    def inputs(self, sizes: tuple[int, int]) -> dict[str, Array]:
        random, kind = np.random.default_rng(sum(sizes)), numpy_dtype(DTYPES[self.dtype])
        low, high = (-9, 10) if self.dtype[0] == "i" else (-1, 2)
        shapes = {"a": sizes, "x": sizes, "before": sizes[1 - "MN".index(self.dim)]}
        return {name: random.integers(low, high, shape).astype(kind) for name, shape in shapes.items()}

    def expected(self, inputs: dict[str, Array]) -> tuple[Array, Array]:
        """``y`` and ``end``, step by step."""
        axis = "MN".index(self.dim)
        a, x = (np.moveaxis(inputs[name], axis, 0) for name in "ax")
        y, state, end = np.zeros_like(x), inputs["before"].copy(), inputs["before"].copy()
        order = range(len(a))
        with np.errstate(all="ignore"):
            for at in order:
                end = (a[at] * end + x[at]).astype(x.dtype)
            for at in reversed(order) if self.reverse else order:
                state = (a[at] * state + x[at]).astype(x.dtype)
                y[at] = state
        return np.moveaxis(y, 0, axis), end

    def run(self, machine: Machine, sizes: tuple[int, int], *, whole: bool = False) -> SimulationReport:
        spec = self.whole if whole else self.spec
        return simulate(lower(spec, machine), machine, self.inputs(sizes), dict(zip("MN", sizes, strict=True)))


def tensors(inputs: dict[str, Array]) -> list[torch.Tensor]:
    return [torch.from_numpy(array) for array in inputs.values()]

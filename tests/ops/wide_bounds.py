"""Numbers of 64 bits that say where a loop starts and ends, how many steps it has, and whether a branch is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.kernels import tensors_of
from wavespec.schema import KernelSpec, loads
from wavespec.sim.reference import reference

NUMBERS = (-1, 0, 3, 40, 2**31 - 1, 2**31, 2**32 + 1, 2**32 + 5, 33 - 2**32, 2**63 - 1, -(2**63), -(2**31))

_LOOP = """  - part_sums:
      iterate: N
      carry: {{acc: zero}}
      {bound}: many
      body:
        - part: {{read: x}}
        - at: {{index: N, dtype: i64}}
        - counted: "where({condition}, part, 0)"
        - acc: {{sum: counted, dim: N, init: acc}}
  - {{write: part_sums.acc, to: y}}
"""
BOUNDS: Mapping[str, str] = {
    "end": _LOOP.format(bound="end", condition="at < many"),
    "start": _LOOP.format(bound="start", condition="at >= many"),
    "repeat": """  - first: {read: x, dims: [B, M], at: {N: 0}}
  - part_sums: {repeat: "min(many, 9)", carry: {acc: first}, body: [{acc: acc + 1}]}
  - {write: part_sums.acc, to: y}
""",
    "if": """  - first: {read: x, dims: [B, M], at: {N: 0}}
  - part_sums: {if: many > 3, carry: {acc: first}, body: [{acc: acc + 1}]}
  - {write: part_sums.acc, to: y}
""",
}
"""Word: what makes ``y[B, M]`` of ``x[B, M, N]`` and of a number for each of B."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A kernel with one of `BOUNDS`."""

    word: str
    target: str = "gfx942"
    dtype: str = "f32"
    tile: tuple[int, int, int] = (1, 1, 1)

    @property
    def spec(self) -> KernelSpec:
        """The checked spec."""
        tiling = "  - {tiling: N, tile: 32}\n" if "iterate" in BOUNDS[self.word] else ""
        return loads(
            "apiVersion: wavespec/v1\nkind: Kernel\nname: bounds\ndims: {B: {}, M: {}, N: {}}\n"
            "tensors:\n  x: {shape: [B, M, N], dtype: f32}\n  n: {shape: [B], dtype: i64}\n"
            "  y: {shape: [B, M], dtype: f32, role: output}\n"
            f"constraints:\n  - {{workgroup: B, tile: 1, axis: 0}}\n  - {{workgroup: M, tile: 4, axis: 1}}\n{tiling}"
            "graph:\n  - many: {read: n}\n  - zero: {register: [B, M], dtype: f32, value: 0}\n" + BOUNDS[self.word],
            "bounds.wave.yaml",
        )

    @property
    def sizes(self) -> dict[str, int]:
        """Of every dim."""
        return {"B": len(NUMBERS), "M": 5, "N": 70}

    @property
    def inputs(self) -> tuple[Tensor, Tensor]:
        """Whole numbers, and `NUMBERS`."""
        random = torch.Generator().manual_seed(1)
        return torch.randint(1, 9, tuple(self.sizes.values()), generator=random).float(), torch.tensor(NUMBERS)

    @property
    def expected(self) -> Tensor:
        """What the reference has."""
        return tensors_of(reference(self.spec, *self.inputs))[0].float()

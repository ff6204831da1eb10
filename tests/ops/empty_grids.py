"""Kernels that write a value without a dim of the grid, or of a loop, which has no elements in their calls."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from wavespec.schema import KernelSpec, loads

_TWO = """
apiVersion: wavespec/v1
kind: Kernel
name: two
dims: {M: {MULTIPLE}, K: {}}
tensors:
  x: {shape: [K], dtype: f32}
  w: {shape: [M, K], dtype: f32}
  y: {shape: [K], dtype: f32, role: output}
  z: {shape: [M, K], dtype: f32, role: output}
constraints:
  - {workgroup: K, tile: 64, axis: 0}
  - {workgroup: M, tile: TILE, axis: AXIS}
graph:
  - x_tile: {read: x}
  - w_tile: {read: w, dims: [M, K], at: {M: PLACE}}
  - y_tile: x_tile * 2
  - z_tile: w_tile + x_tile
  - {write: y_tile, to: y}
  - {write: z_tile, to: z}
schedule: SCHEDULE
"""

_PRODUCT = """
apiVersion: wavespec/v1
kind: Kernel
name: product
dims: {M: {}, N: {}, K: {multiple_of: 8}}
tensors:
  a: {shape: [M, K], dtype: bf16, space: shared}
  b: {shape: [N, K], dtype: bf16, space: shared}
  bias: {shape: [N], dtype: f32}
  y: {shape: [N], dtype: f32, role: output}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 32}
  - {wave: M, tile: 32}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - bias_tile: {read: bias}
  - y_tile: bias_tile * 2
  - loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
  - total: loop.acc + bias_tile
  - {write: y_tile, to: y}
  - {write: total, to: c}
schedule: SCHEDULE
"""

_COMBINED = """
apiVersion: wavespec/v1
kind: Kernel
name: combined
dims: {M: {}, K: {}}
tensors:
  x: {shape: [K], dtype: f32}
  w: {shape: [M, K], dtype: f32}
  y: {shape: [K], dtype: f32, role: inout}
  z: {shape: [M, K], dtype: f32, role: output}
constraints:
  - {workgroup: K, tile: 64, axis: 0}
  - {workgroup: M, tile: 16, axis: 1}
graph:
  - x_tile: {read: x}
  - w_tile: {read: w}
  - {write: x_tile, to: y, combine: add}
  - {write: w_tile, to: z}
schedule: SCHEDULE
"""


_WHOLE = """
apiVersion: wavespec/v1
kind: Kernel
name: whole
dims: {M: {max: 16, multiple_of: 16}, K: {}}
tensors:
  x: {shape: [K], dtype: f32}
  w: {shape: [K, M], dtype: f32}
  y: {shape: [K], dtype: f32, role: output}
constraints:
  - {workgroup: K, tile: 64, axis: 0}
  - {tiling: M, tile: 16}
graph:
  - x_tile: {read: x}
  - w_tile: {read: w}
  - total: {sum: w_tile, dim: M}
  - y_tile: x_tile * 2 + total
  - {write: y_tile, to: y}
schedule: SCHEDULE
"""


@dataclass(frozen=True, slots=True)
class EmptyGrid:
    """A call in which the dim M, of the grid or of a loop, has no elements."""

    name: str
    text: str
    schedule: str = "{}"
    only: tuple[str, ...] = ("cpu", "sm_90", "gfx942")

    def __str__(self) -> str:
        return self.name

    @property
    def spec(self) -> KernelSpec:
        return loads(self.text.replace("SCHEDULE", self.schedule), "empty.wave.yaml")

    @property
    def combines(self) -> bool:
        return self.text is _COMBINED

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        if "mma" in self.text:
            return torch.zeros(0, 40).bfloat16(), torch.ones(70, 40).bfloat16(), torch.arange(70.0)
        x = torch.arange(70.0)
        w = torch.zeros(70, 0) if self.text is _WHOLE else torch.zeros(0, 70)
        return (x, w, x.clone()) if self.combines else (x, w)

    @property
    def expected(self) -> Tensor:
        return torch.arange(70.0) * 2


def _two(tile: int, multiple: int = 1, axis: int = 1, place: str = "M") -> str:
    words = {"TILE": tile, "MULTIPLE": f"multiple_of: {multiple}", "AXIS": axis, "PLACE": place}
    text = _TWO
    for word, value in words.items():
        text = text.replace(word, str(value))
    return text


def _walked(tile: int, multiple: int = 1) -> str:
    """The kernel with a loop over M in place of the grid's dim."""
    head, graph = (
        _two(tile, multiple)
        .replace(f"workgroup: M, tile: {tile}, axis: 1", f"tiling: M, tile: {tile}")
        .split("  - w_tile")
    )
    body, end = f"  - w_tile{graph}".split("schedule")
    body = "".join(f"      {line}\n" for line in body.splitlines())
    return f"{head}  - walk:\n      iterate: M\n      body:\n{body}schedule{end}"


_FEW = "{workgroups: {persistent: true, count: 2}}"
_ROLES = "{stages: 2, waves: {producers: 1}, workgroups: {persistent: true}}"
EMPTY_GRIDS = (
    EmptyGrid("parts of tiles", _two(16)),
    EmptyGrid("one by one", _two(1)),
    EmptyGrid("whole tiles", _two(16, multiple=16)),
    EmptyGrid("a shared axis", _two(16, axis=0)),
    EmptyGrid("places", _two(1, place='"(M + 1) % size(M)"')),
    EmptyGrid("persistent", _two(16), _FEW, only=("sm_90", "gfx942")),
    EmptyGrid("a loop", _walked(16)),
    EmptyGrid("a loop of single elements", _walked(1)),
    EmptyGrid("a loop of whole tiles", _walked(16, multiple=16)),
    EmptyGrid("one tile", _WHOLE),
    EmptyGrid("combined", _COMBINED),
    EmptyGrid("product", _PRODUCT),
    EmptyGrid("roles", _PRODUCT.replace("tile: 32}\n  - {hard", "tile: 64}\n  - {hard"), _ROLES, only=("sm_90",)),
)

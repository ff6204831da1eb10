"""Tiles of workgroups that are more than one turn should take: waves that nobody asked for share them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.rungs import often
from wavespec.pipeline import compile
from wavespec.schema import loads

HEAD = """apiVersion: wavespec/v1
kind: Kernel
name: whole
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: f32}
  bias: {shape: [N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
"""
OF_TILES = "constraints: [{workgroup: M, tile: 64, axis: 0}, {workgroup: N, tile: 512, axis: 1}]\n"
OF_ROWS = "constraints: [{workgroup: M, tile: 64, axis: 0}, {tiling: N, tile: 256}]\n"
KERNELS: dict[str, tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "elements": (
        OF_TILES
        + """graph:
  - part: {read: x}
  - offset: {read: bias}
  - more: part * 2 + offset
  - {write: more, to: y}
""",
        lambda x, bias: x * 2 + bias,
    ),
    "two loops over rows": (
        OF_ROWS
        + """graph:
  - none: {register: [M], dtype: f32, value: 0}
  - lowest: {register: [M], dtype: f32, value: -.inf}
  - first:
      iterate: N
      carry: {total: none, top: lowest}
      body:
        - part: {read: x}
        - total: {sum: part, dim: N, init: total}
        - top: {max: part, dim: N, init: top}
  - span: first.total + first.top
  - second:
      iterate: N
      body:
        - again: {read: x}
        - offset: {read: bias}
        - more: again + offset + span
        - {write: more, to: y}
""",
        lambda x, bias: x + bias + x.sum(1, True) + x.amax(1, True),
    ),
    "scans": (
        OF_ROWS
        + """graph:
  - none: {register: [M], dtype: f32, value: 0}
  - rows:
      iterate: N
      carry: {before: none}
      body:
        - part: {read: x}
        - running: {cumsum: part, dim: N, init: before}
        - before: {sum: part, dim: N, init: before}
        - {write: running, to: y}
""",
        lambda x, bias: x.cumsum(1),
    ),
    "branches": (
        OF_TILES
        + """graph:
  - part: {read: x}
  - doubled:
      if: start(M) < 64
      carry: {part: part}
      body:
        - part: part * 3
  - {write: doubled.part, to: y}
""",
        lambda x, bias: torch.cat([x[:64] * 3, x[64:]]),
    ),
    "steps": (
        OF_TILES
        + """graph:
  - part: {read: x}
  - powers: {repeat: 3, carry: {part: part}, body: [part: part + part]}
  - {write: powers.part, to: y}
""",
        lambda x, bias: x * 8,
    ),
}


@pytest.mark.parametrize("kind", often(KERNELS, lambda kind: kind not in ("scans", "two loops over rows")))
def test_large_tiles_are_shared_by_turns(kind: str) -> None:
    graph, expected = KERNELS[kind]
    kernel = compile(loads(HEAD + graph))
    for m, n in ((1, 1), (70, 600), (64, 512), (129, 255), (0, 4)):
        x, bias = torch.randint(-4, 5, (m, n)).float(), torch.randint(-4, 5, (n,)).float()
        assert torch.equal(kernel(x, bias), expected(x, bias))

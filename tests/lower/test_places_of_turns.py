"""What each wave lays down in a memory for its own use waits there until its next turn."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import array_to_tensor, tensor_to_array
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines

pytestmark = pytest.mark.usefixtures("tiles_count")

# Scores of one wave wait in strips while an inner loop, which stages for all waves, computes what is taken from them.
KEPT_STRIPS = """\
apiVersion: wavespec/v1
kind: Kernel
name: kept
dims: {M: {}, N: {max: 96}, C: {}, E: {}, R: {max: 32}, P: {value: 32}}
tensors:
  q: {shape: [M, R], dtype: bf16, space: shared}
  k: {shape: [N, R], dtype: bf16, space: shared}
  v: {shape: [N, E], dtype: bf16, space: shared}
  a: {shape: [M, C], dtype: bf16, space: shared}
  b: {shape: [P, C], dtype: bf16, space: shared}
  o: {shape: [M, E], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 32, axis: 0}
  - {workgroup: E, tile: 32, axis: 1}
  - {wave: M, tile: 16}
  - {tiling: N, tile: 96}
  - {tiling: C, tile: 32}
  - {tiling: R, tile: 32}
graph:
  - q_tile: {read: q}
  - nothing: {register: [M, E], dtype: f32, value: 0}
  - keys:
      iterate: N
      carry: {acc: nothing}
      body:
        - k_tile: {read: k}
        - none: {register: [M, N], dtype: f32, value: 0}
        - scores: {mma: [q_tile, k_tile, none]}
        - top: {max: scores, dim: N}
        - start: {register: [M, P], dtype: f32, value: 0}
        - moved: start + top
        - parts:
            iterate: C
            carry: {sums: moved}
            body:
              - a_tile: {read: a}
              - b_tile: {read: b}
              - sums: {mma: [a_tile, b_tile, sums]}
        - largest: {max: parts.sums, dim: P}
        - weight: bf16(scores - largest)
        - v_tile: {read: v}
        - acc: {mma: [weight, v_tile, acc]}
  - {write: keys.acc, to: o}
"""


@pytest.mark.parametrize("keys", [33, 45])
def test_what_is_beyond_the_last_strip_joins_nothing(keys: int) -> None:
    """The scores are negative, so that a 0 of a key beyond the last one would be the largest."""
    (machine, *_), spec = machines("cpu"), loads(KEPT_STRIPS, "kept.wave.yaml")
    random = torch.Generator().manual_seed(1)
    shapes = {"q": (40, 32), "k": (keys, 32), "v": (keys, 33), "a": (40, 45), "b": (32, 45)}
    given = {name: torch.randint(1, 3, shape, generator=random).bfloat16() for name, shape in shapes.items()}
    given["k"] = -given["k"]
    arrays = {name: tensor_to_array(one, spec.tensors[name].dtype) for name, one in given.items()}
    sizes = complete_sizes(spec, {"M": 40, "N": keys, "C": 45, "E": 33, "R": 32})
    report = simulate(lower(spec, machine), machine, arrays, sizes)
    assert report.ok, report.render()
    q, k, v, a, b = (one.double() for one in given.values())
    scores = q @ k.T
    weights = scores - scores.amax(1, keepdim=True) - (a @ b.T).amax(1, keepdim=True)
    expected = weights.bfloat16().double() @ v
    assert torch.equal(array_to_tensor(report.tensors["o"], spec.tensors["o"].dtype).double(), expected)


@pytest.mark.rare
@pytest.mark.parametrize("machine", [*machines("cpu"), *machines("gfx942")], ids=lambda machine: machine.variant)
def test_strips_of_every_wave_are_kept_beside_an_inner_loop(machine: Machine) -> None:
    spec, random = loads(KEPT_STRIPS, "kept.wave.yaml"), torch.Generator().manual_seed(1)
    shapes = {"q": (40, 32), "k": (96, 32), "v": (96, 33), "a": (40, 45), "b": (32, 45)}
    given = {name: torch.randint(-1, 2, shape, generator=random).bfloat16() for name, shape in shapes.items()}
    arrays = {name: tensor_to_array(one, spec.tensors[name].dtype) for name, one in given.items()}
    sizes = complete_sizes(spec, {"M": 40, "N": 96, "C": 45, "E": 33, "R": 32})
    report = simulate(lower(spec, machine), machine, arrays, sizes)
    assert report.ok, report.render()
    q, k, v, a, b = (one.double() for one in given.values())
    scores = q @ k.T
    expected = (scores - scores.amax(1, keepdim=True) - (a @ b.T).amax(1, keepdim=True)) @ v
    assert torch.equal(array_to_tensor(report.tensors["o"], spec.tensors["o"].dtype).double(), expected)

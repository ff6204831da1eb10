"""Places of boxes have 64 bits, of which the machine takes 32: what is outside of a tensor stays there."""

from __future__ import annotations

import pytest

from tests.lower.gemms import NVIDIA
from wavespec.emit.hopper_copies import kept_outside
from wavespec.ir.expr import symbol
from wavespec.pipeline import emit
from wavespec.schema import loads

TEXT = """apiVersion: wavespec/v1
kind: Kernel
name: moved
dims: {T: {}, N: {multiple_of: 8}, K: {multiple_of: 8}, G: {}, M: {equals: T}}
tensors:
  x: {shape: [T, K], dtype: bf16, space: shared}
  w: {shape: [G, N, K], dtype: bf16, space: shared}
  offsets: {shape: [G], dtype: PLACES}
  y: {shape: [G, M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {workgroup: G, tile: 1, axis: 2}
  - {tiling: K, tile: 64}
  - {wave: M, tile: 64}
  - {wave: N, tile: 64}
  - {hardware: {mma: auto}}
graph:
  - first: {read: offsets}
  - zero: {register: [G, M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - rows: {read: x, dims: [G, M, K], at: {T: first + M}}
        - weights: {read: w}
        - acc: {mma: [rows, weights, acc]}
  - {write: k_loop.acc, to: y}
schedule: {stages: 3, waves: {producers: 1}}
"""
SIZE, BOX = 2**31 - 2**16, 256


@pytest.mark.parametrize(("places", "limits"), [("i32", 0), ("i64", 1)])
def test_places_that_32_bits_do_not_hold_are_limited(places: str, limits: int) -> None:
    text = emit(loads(TEXT.replace("PLACES", places), "moved.wave.yaml"), NVIDIA).text
    assert "nvvm.cp.async.bulk.tensor" in text
    assert (text.count("arith.minsi"), text.count("arith.maxsi")) == (limits, limits)


@pytest.mark.parametrize(("low", "high"), [(-(2**63), 2**63 - 1), (-(2**31), 2**32 - 2**16), (0, 2**40), (-(2**33), 5)])
@pytest.mark.parametrize(
    "place", [0, 7, SIZE - 1, SIZE, 2**31, 2**32 - 2**16, 2**32 + 5, 2**40, -1, -(2**31), -(2**32) + 6]
)
def test_a_box_has_the_elements_that_are_at_its_place(place: int, low: int, high: int) -> None:
    """Of a tensor as long as they get."""
    if low <= place <= high:
        kept = kept_outside(symbol("place", low, high)).evaluate({"place": place})
        taken = (kept + 2**31) % 2**32 - 2**31
        inside, meant = (set(range(max(at, 0), min(at + BOX, SIZE))) for at in (taken, place))
        assert inside == meant

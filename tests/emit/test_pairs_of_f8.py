"""Numbers of 8 bits that a machine makes two at a time: by its instruction, and in the simulator as the language says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from wavespec.ir.dtype import DTYPES
from wavespec.pipeline import emit
from wavespec.schema.load import loads
from wavespec.sim.elements import converted
from wavespec.targets.machine import machines

TEXT = """
apiVersion: wavespec/v1
kind: Kernel
name: narrowed
dims: {{N: {{multiple_of: 512}}}}
tensors:
  x: {{shape: [N], dtype: f32}}
  y: {{shape: [N], dtype: {dtype}, role: output}}
constraints:
  - {{workgroup: N, tile: 512, axis: 0}}
graph:
  - part: {{read: x}}
  - code: {dtype}(part)
  - {{write: code, to: y}}
"""
INSTRUCTION = "cvt.rn.satfinite.e4m3x2.f32"


@pytest.mark.parametrize(("dtype", "has_instruction"), [("f8e4m3fn", True), ("f8e5m2", False)])
def test_pairs_are_one_instruction_where_that_rounds_as_the_language_does(dtype: str, has_instruction: bool) -> None:
    """What is too large for f8e5m2 is infinity, and not the largest number."""
    (machine,) = machines("sm_90")
    assert (INSTRUCTION in emit(loads(TEXT.format(dtype=dtype)), machine).text) == has_instruction


def test_what_is_too_large_becomes_the_largest_number_in_the_simulator_too() -> None:
    given = np.array([1.0, 448.0, 465.0, math.inf, -1000.0, math.nan, -0.0], dtype=np.float32)
    found = converted(given, DTYPES["f8e4m3fn"]).astype(np.float32)
    np.testing.assert_array_equal(found, np.array([1, 448, 448, 448, -448, math.nan, -0.0], dtype=np.float32))

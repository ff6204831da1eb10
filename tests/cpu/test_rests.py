"""`fmod`, `remainder` and `floor_divide` on this machine: exact, whatever the exponents."""

from __future__ import annotations

import torch

from tests.ops.rests import RESTS, SPEC, assert_exact, operands
from wavespec.pipeline import compile
from wavespec.schema import loads


def test_rests_are_exact_however_large_the_quotient() -> None:
    x, y = operands(1000)
    results = compile(loads(SPEC))(x, y)
    assert all(isinstance(result, torch.Tensor) for result in results)
    assert_exact(dict(zip(RESTS, results, strict=True)), x, y)

"""An f32 in, the part of it that a matrix unit of fewer bits takes, as an f32, out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wavespec.ir.kernel import Value
from wavespec.ops.steps import Steps

_LEFT_OUT = 13  # bits of the 23 behind the point of an f32, that a tf32 has 10 of


def _nearest(steps: Steps, x: Value) -> Value:
    """Halves go away from zero.  What is left of ``x`` is as often below zero as above."""
    return _cut(steps, steps.bits(steps("add", steps.bits(x, "i32"), 1 << (_LEFT_OUT - 1)), "f32"))


def _cut(steps: Steps, x: Value) -> Value:
    """What the unit takes of an f32 that it reads itself."""
    return steps.bits(steps("and", steps.bits(x, "i32"), -(1 << _LEFT_OUT)), "f32")


STEPS: Mapping[str, Callable[..., Value]] = {"tf32_nearest": _nearest, "tf32_cut": _cut}
"""Functions that passes write and no spec."""

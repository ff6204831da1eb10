"""Elementwise functions on this machine's CPU at the limits of f32: infinite, no number and finite where torch's are."""

from __future__ import annotations

import pytest

from tests.ops.epilogues import words_for
from tests.ops.limits import check_limits, kernel_of, pairs
from tests.rungs import often
from wavespec.pipeline import best_variant, build
from wavespec.runtime.kernel import Kernel

WORDS = [word for word in words_for("f32") if word not in ("fma", "where", "clamp")]
PARTS = 4


@pytest.mark.parametrize("part", often(range(PARTS), [0]))
def test_limits_are_those_of_torch(part: int) -> None:
    words = WORDS[part::PARTS]
    x, y = pairs()
    spec = kernel_of(words)
    results = Kernel(build(spec, "cpu", only=best_variant("cpu")))(x, y)
    names = [name.removeprefix("c_") for name, tensor in spec.tensors.items() if tensor.role == "output"]
    assert sorted(names) == sorted(words)
    for name, result in zip(names, results, strict=True):
        check_limits(name, result, x, y)

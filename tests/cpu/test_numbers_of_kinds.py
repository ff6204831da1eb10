"""Sums of many numbers of many kinds, on this machine's CPU, err at most twice as much as torch in the mean as well."""

from __future__ import annotations

import pytest

from benchmarks.errors_cpu import compared, inputs_of
from tests.cpu.kernels_of_cases import kernel_for
from tests.kernels import subjects
from wavespec.pipeline import best_variant

pytestmark = pytest.mark.rare


@pytest.mark.parametrize("kind", ["normal", "positive", "far"])
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("sum_dim", {"A": 1, "N": 66_000, "B": 3}),  # the last 32 additions were one chain: 1.8 to 5.1 times torch's
        ("layer_norm", {"M": 2, "N": 100_003}),
        ("rms_norm", {"M": 2, "N": 100_003}),
        ("log_softmax", {"M": 2, "N": 100_003}),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_long_sums(name: str, sizes: dict[str, int], kind: str) -> None:
    (subject,) = (one for one in subjects("cpu") if one.name == name)
    kernel = kernel_for(subject, best_variant("cpu").variant, sizes)
    for tensor, found in compared(subject, kernel, inputs_of(subject, sizes, kind)):
        assert not found.is_wrong, f"{tensor}: {found}"

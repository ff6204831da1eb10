"""Attention on this machine's CPU with the window and the soft cap of a call, by the wrapper that picks the mask."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from generated.attention_masked import attention_masked
from tests.kernels import check_error
from tests.sim.test_attention_numbers import MOST, attended
from wavespec.runtime.checks import ArgumentError, ArgumentTypeError

pytestmark = pytest.mark.compiles
CALLS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("window", {}, {"window": 128}),
    *(("window", {"window": number}, {"window": number}) for number in (1, 7, 128, 200, MOST)),
    ("soft_cap", {}, {"soft_cap": 30.0}),
    *(("soft_cap", {"soft_cap": number}, {"soft_cap": number}) for number in (1e-6, 0.5, 50, 64.0)),
]


@pytest.mark.parametrize(("mask", "said", "meant"), CALLS)
def test_calls_say_a_number_or_have_the_default(mask: str, said: dict[str, Any], meant: dict[str, Any]) -> None:
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, rows, 64, generator=random).bfloat16() for rows in (230, 300, 300))
    right = attended(q, k, v, **meant)
    theirs = attended(q, k, v, compute=torch.bfloat16, **meant)
    for _ in range(2):  # in full, then as a call like an earlier one
        check_error(f"{mask} {said}", attention_masked(q, k, v, mask=mask, **said), right, theirs)


def test_numbers_of_other_masks_are_refused() -> None:
    q, k, v = torch.randn(3, 1, 1, 8, 16).bfloat16()
    with pytest.raises(
        ArgumentTypeError, match=r"attention_masked_causal: got 'window', but it has the scalars scale\."
    ):
        attention_masked(q, k, v, mask="causal", window=4)
    with pytest.raises(
        ArgumentTypeError, match=r"attention_masked_window: got 'soft_cap', but it has the scalars scale, w"
    ):
        attention_masked(q, k, v, mask="window", soft_cap=4.0)
    with pytest.raises(ArgumentError, match=r"argument 'soft_cap' is 65\.0, expected at most 64\."):
        attention_masked(q, k, v, mask="soft_cap", soft_cap=65.0)

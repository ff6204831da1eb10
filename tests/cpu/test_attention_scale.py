"""Attention on this machine's CPU with the scale of a call, beside torch's."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from tests.kernels import check_error, subjects
from wavespec.pipeline import best_variant, build
from wavespec.runtime.checks import ArgumentError
from wavespec.runtime.kernel import Kernel

pytestmark = pytest.mark.compiles


def test_calls_say_a_scale_or_have_torchs() -> None:
    (spec,) = (one.spec for one in subjects("cpu") if one.name == "attention")
    kernel = Kernel(build(spec, "cpu", only=best_variant("cpu")))
    random = torch.Generator().manual_seed(0)
    for d in (24, 64):
        q, k, v = (torch.randn(1, 2, rows, d, generator=random).bfloat16() for rows in (40, 70, 70))
        for _ in range(2):  # in full, then as a call like an earlier one
            for scale in (None, 0.02, 1.5):
                right = scaled_dot_product_attention(q.double(), k.double(), v.double(), scale=scale)
                theirs = scaled_dot_product_attention(q, k, v, scale=scale)
                said = {} if scale is None else {"scale": scale}
                check_error(f"D = {d}, scale {scale}", kernel(q, k, v, **said), right, theirs)
        with pytest.raises(ArgumentError, match=r"'scale' is -1\.0, expected at least 1e-30"):
            kernel(q, k, v, scale=-1.0)

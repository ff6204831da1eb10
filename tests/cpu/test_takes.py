"""Elements at other places on this machine's CPU: exact, for every size of element."""

from __future__ import annotations

import pytest
import torch

from tests.cpu.test_rows import kernel
from tests.kernels import TORCH, tensors_of
from tests.ops.takes import WAYS, Takes
from tests.rungs import often
from wavespec.sim.reference import reference

EACH = {
    "f32": tuple(WAYS),
    **dict.fromkeys(("f64", "bf16", "i64", "i8", "bool"), ("halves_swapped", "odd", "looked_up", "before")),
}


@pytest.mark.parametrize("dtype", often(EACH, ["f32", "i8"]))
def test_every_way_is_exact(dtype: str) -> None:
    takes = Takes(EACH[dtype], n=24, dtype=dtype)
    taken = kernel(takes.spec)
    for rows in (0, 1, 7):
        x, p = takes.inputs(rows)
        for way, got, right in zip(takes.ways, tensors_of(taken(x, p)), reference(takes.spec, x, p), strict=True):
            assert torch.equal(got, right.to(TORCH[dtype])), way

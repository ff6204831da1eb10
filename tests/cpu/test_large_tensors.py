"""A tensor of more than 2³¹ elements on the CPU: what lies behind that limit is as right as what lies before it."""

from __future__ import annotations

import os

import pytest
import torch

from generated.gemm_i8 import gemm_i8

_MEMORY_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(_MEMORY_BYTES < 8 << 30, reason="the operand has 2 GiB, and this machine less than 8 GiB of memory")
def test_rows_at_both_ends_of_a_large_operand() -> None:
    rows, depth = 2**24 + 1000, 128
    a, b = torch.zeros(rows, depth, dtype=torch.int8), torch.randint(-128, 128, (3, depth), dtype=torch.int8)
    for ends in (slice(0, 999), slice(-999, None)):
        a[ends] = torch.randint(-128, 128, (999, depth), dtype=torch.int8)
    c = gemm_i8(a, b)
    for ends in (slice(0, 999), slice(-999, None)):
        assert torch.equal(c[ends], a[ends].int() @ b.int().T)
    assert not c[999:-999].any()

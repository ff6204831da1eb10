"""Tiles that several operations use, on this machine's CPU: every variant has other instructions for products."""

from __future__ import annotations

import pytest
import torch

from tests.cpu.test_rows import kernel
from tests.kernels import tensors_of
from tests.ops.shared_operands import (
    attended,
    chunked_attention,
    operands,
    queries_keys_values,
    sums_beside_a_product,
)
from wavespec.targets.machine import machines

pytestmark = pytest.mark.rare

VARIANTS = [machine.variant for machine in machines("cpu")]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_an_operand_is_summed_beside_its_product(space: str, variant: str) -> None:
    a, b = operands(70, 50, 72)
    product, sums = tensors_of(kernel(sums_beside_a_product(space), variant)(a, b))
    assert torch.equal(product.double(), a.double() @ b.double().T)
    assert torch.equal(sums.double(), a.double().sum(1))


@pytest.mark.parametrize("variant", VARIANTS)
def test_products_of_several_instructions_share_an_operand(variant: str) -> None:
    attention = kernel(chunked_attention(), variant)
    for sizes in ((1, 1), (2, 100), (3, 64)):
        q, k, v = queries_keys_values(*sizes)
        assert torch.equal(tensors_of(attention(q, k, v))[0], attended(q, k, v))

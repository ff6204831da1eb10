"""Tiles that several operations use, in the lane simulator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import tensor_to_array
from tests.ops.shared_operands import (
    attended,
    chunked_attention,
    operands,
    queries_keys_values,
    sums_beside_a_product,
)
from tests.sim.simulated_kernels import AMD, NVIDIA
from wavespec.pipeline import lower
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine


@pytest.mark.parametrize("machine", [NVIDIA, AMD], ids=lambda machine: machine.target)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_an_operand_is_summed_beside_its_product(space: str, machine: Machine) -> None:
    (a, b), spec = (one.numpy() for one in operands(70, 50, 72)), sums_beside_a_product(space)
    report = simulate(lower(spec, machine), machine, {"a": a, "b": b}, {"M": 70, "N": 50, "K": 72})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], a.astype(np.float64) @ b.astype(np.float64).T)
    np.testing.assert_array_equal(report.tensors["s"], a.astype(np.float64).sum(1))


@pytest.mark.parametrize("machine", [NVIDIA, AMD], ids=lambda machine: machine.target)
def test_products_share_an_operand_at_counted_places(machine: Machine) -> None:
    given, spec = queries_keys_values(2, 40), chunked_attention()
    arrays = {name: tensor_to_array(one, "bf16") for name, one in zip("qkv", given, strict=True)}
    report = simulate(lower(spec, machine), machine, arrays, complete_sizes(spec, {"B": 2, "T": 40}))
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["o"], attended(*given).numpy())

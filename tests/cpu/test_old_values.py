"""`atomic` on this machine's CPU, where workgroups run on several threads: old values are those of some order."""

from __future__ import annotations

import pytest
import torch

from tests.ops.old_values import SIZES, WORKGROUPS, OldValues, assert_explained, inputs_of
from wavespec.pipeline import best_variant, build
from wavespec.runtime.kernel import Kernel

CASES = [OldValues(combine) for combine in ("add", "min", "xor", "exchange", "compare_and_swap")]
CASES += [OldValues("add", "bf16"), OldValues("add", "f16"), OldValues("add", "f64"), OldValues("exchange", "f32")]
CASES += [OldValues("add", "i64", workgroups) for workgroups in WORKGROUPS.values()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_some_order_finds_all_old_values(case: OldValues) -> None:
    observed = case.observed
    kernel = Kernel(build(observed.spec, "cpu", only=best_variant("cpu")))
    for sizes in (SIZES, {"M": 200, "N": 33, "V": 2}, {"M": 1, "N": 5, "V": 1}):
        given = inputs_of(observed.spec, sizes)
        assert_explained(observed, given, kernel(*(one.clone() for one in given)))


def test_tickets_are_all_different() -> None:
    observed = OldValues().observed
    kernel = Kernel(build(observed.spec, "cpu", only=best_variant("cpu")))
    inputs = inputs_of(observed.spec, {"M": 5000, "N": 1, "V": 1})
    inputs[0].zero_()
    inputs[2].fill_(1)
    inputs[5].zero_()
    ticket = kernel(*inputs)[3]
    assert torch.equal(ticket.sort().values, torch.arange(5000, dtype=torch.int32))

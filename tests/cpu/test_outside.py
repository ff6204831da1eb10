"""Numbers of 64 bits as places and as bounds, on this machine's CPU."""

from __future__ import annotations

import pytest
import torch

from tests.cpu.test_rows import kernel
from tests.kernels import tensors_of
from tests.ops.outside import ROWS, Outside, cases
from tests.ops.wide_bounds import BOUNDS, Bounds


@pytest.mark.parametrize("case", cases(), ids=str)
def test_what_is_outside_reads_as_zero_and_is_not_written(case: Outside) -> None:
    run = kernel(case.spec)
    for rows in ROWS:
        inputs = case.inputs(rows)
        expected = case.expected(inputs)
        found = tensors_of(run(*inputs))
        assert torch.equal(found[0] if case.spec.tensors["y"].role == "output" else inputs[-1], expected)


@pytest.mark.parametrize("word", BOUNDS)
def test_bounds_and_conditions_are_not_cut(word: str) -> None:
    case = Bounds(word)
    assert torch.equal(tensors_of(kernel(case.spec)(*case.inputs))[0], case.expected)

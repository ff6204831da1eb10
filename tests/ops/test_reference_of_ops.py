"""The whole-tensor meaning of each op."""

from __future__ import annotations

import pytest
import torch

from tests.lower.gemms import Gemm
from wavespec.ops import reference_of
from wavespec.ops.contexts import ReferenceContext
from wavespec.schema.resolved import computation_of


def context(gemm: Gemm, compute: torch.dtype | None = None) -> ReferenceContext:
    spec = gemm.spec
    tensors = {"a": torch.arange(6, dtype=torch.float16).reshape(2, 3), "b": torch.ones(4, 3, dtype=torch.float16)}
    made = ReferenceContext(computation_of(spec), tensors, compute, reference_of)
    made.sizes = {"M": 2, "N": 4, "K": 3}
    return made


def test_register_is_full_of_its_value() -> None:
    made = context(Gemm(value=-2))
    reference_of(made.computation.statements[0], made)
    assert made.names["zero"].dtype == torch.float32 and torch.equal(made.names["zero"], torch.full((2, 4), -2.0))


@pytest.mark.parametrize(("compute", "dtype"), [(None, torch.float16), (torch.float64, torch.float64)])
def test_read_widens_to_what_is_computed_in(compute: torch.dtype | None, dtype: torch.dtype) -> None:
    made = context(Gemm(), compute)
    reference_of(made.computation.statements[1].body[0], made)
    assert made.names["a_tile"].dtype == dtype and made.dims["a_tile"] == ("M", "K")


def test_iterate_mma_and_write() -> None:
    made = context(Gemm(value=1))
    for statement in made.computation.statements:
        reference_of(statement, made)
    expected = 1 + torch.tensor([[3.0], [12.0]]).expand(2, 4)
    assert torch.equal(made.outputs["c"], expected) and made.outputs["c"].dtype == torch.float32

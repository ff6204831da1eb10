"""The whole-tensor meaning of each op."""

from __future__ import annotations

import pytest
import torch

from tests.lower.gemms import Gemm
from wavespec.ops import reference_of
from wavespec.ops.contexts import ReferenceContext
from wavespec.schema import loads
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


@pytest.mark.parametrize("how", ["", ", at: {M: M}", ", combine: add", ", at: {N: N % 3}, combine: add"])
def test_a_branch_on_values_writes_the_elements_for_which_it_is_taken(how: str) -> None:
    spec = loads(f"""apiVersion: wavespec/v1
kind: Kernel
name: some
dims: {{M: {{}}, N: {{}}}}
tensors:
  n: {{shape: [M], dtype: i32}}
  x: {{shape: [M, N], dtype: i64}}
  h: {{shape: [M, N], dtype: i64, role: inout}}
  o: {{shape: [M, N], dtype: i64, role: output}}
constraints:
  - {{workgroup: M, tile: 1, axis: 0}}
  - {{workgroup: N, tile: 64, axis: 1}}
graph:
  - row: {{read: x}}
  - count: {{read: n}}
  - taken:
      if: count > 0
      carry: {{value: row}}
      body:
        - value: row * 2
        - {{write: value, to: h{how}}}
  - {{write: taken.value, to: o}}
""")
    n = torch.tensor([1, 0, -1, 2, 1], dtype=torch.int32)
    x, h = torch.arange(30).reshape(5, 6), torch.full((5, 6), 100)
    made = ReferenceContext(computation_of(spec), {"n": n, "x": x, "h": h}, None, reference_of)
    made.sizes = {"M": 5, "N": 6}
    made.run(made.computation.statements)
    changed = h.clone()
    for row in (0, 3, 4):
        where = torch.arange(6) % 3 if "%" in how else torch.arange(6)
        changed[row] = changed[row].index_add(0, where, x[row] * 2) if "combine" in how else x[row] * 2
    assert torch.equal(made.outputs["h"], changed)
    assert torch.equal(made.outputs["o"], torch.where(n[:, None] > 0, x * 2, x))

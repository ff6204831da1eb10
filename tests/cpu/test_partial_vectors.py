"""Rows of small elements whose last vector is not whole: each element comes over, and none beyond."""

from __future__ import annotations

import pytest
import torch

from wavespec.pipeline import compile
from wavespec.schema import loads

TEXT = """apiVersion: wavespec/v1
kind: Kernel
name: moved
dims: {{M: {{}}, N: {{}}}}
tensors:
  x: {{shape: [M, N], dtype: {dtype}}}
  y: {{shape: [M, N], dtype: {dtype}, role: output}}
constraints:
  - {{workgroup: M, tile: 2, axis: 0}}
  - {{workgroup: N, tile: 64, axis: 1}}
graph:
  - row: {{read: x}}
  - {{write: row, to: y}}
"""


@pytest.mark.parametrize("dtype", ["bf16", "f16", "i8", "i16"])
def test_elements_below_the_size_move_and_no_others(dtype: str) -> None:
    kernel = compile(loads(TEXT.format(dtype=dtype)))
    torch_type = {"bf16": torch.bfloat16, "f16": torch.float16, "i8": torch.int8, "i16": torch.int16}[dtype]
    for rows in (1, 3):
        for columns in range(70):
            x = torch.randint(1, 99, (rows, columns)).to(torch_type)
            memory = torch.zeros(rows * columns + 80, dtype=torch_type)
            kernel(x, out=memory[: rows * columns].view(rows, columns))
            assert torch.equal(memory[: rows * columns].view(rows, columns), x)
            assert not memory[rows * columns :].any()

"""Places that fall as the index rises, in machine code executed by an emulator: the workgroups of the last rows start at
the first elements of a tensor, and what they access lies below where their tile would start."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import numpy as np
import pytest

from tests.amd.amd_gemms import loaded, require_emulator
from wavespec.schema import KernelSpec, loads

require_emulator()
pytestmark = pytest.mark.amd

_SPEC = """\
apiVersion: wavespec/v1
kind: Kernel
name: turned
dims: {{M: {{}}, N: {{}}}}
tensors:
  x: {{shape: [M, N], dtype: {dtype}}}
  y: {{shape: [M, N], dtype: {dtype}, role: output}}
constraints:
  - {{workgroup: M, tile: 8, axis: 0}}
  - {{workgroup: N, tile: 64, axis: 1}}
graph:
  - part: {{read: x{of_read}}}
  - {{write: part, to: y{of_write}}}
"""
_ROWS, _COLUMNS = "M: size(M) - 1 - M", "N: size(N) - 1 - N"


@dataclass(frozen=True, slots=True)
class Subject:
    """A copy of a tensor with some of its dims turned round by the read or by the write."""

    dtype: str
    places: tuple[str, ...]
    by_read: bool
    target: str = "gfx942"
    tile: tuple[int, int, int] = (1, 1, 1)

    @property
    def spec(self) -> KernelSpec:
        at = f", at: {{{', '.join(self.places)}}}"
        text = _SPEC.format(dtype=self.dtype, of_read=at if self.by_read else "", of_write="" if self.by_read else at)
        return loads(text, "turned.wave.yaml")


@pytest.mark.parametrize("by_read", [True, False], ids=["read", "write"])
@pytest.mark.parametrize("places", [(_ROWS,), (_COLUMNS,), (_ROWS, _COLUMNS)], ids=["rows", "columns", "both"])
@pytest.mark.parametrize(("dtype", "kind"), [("f32", np.float32), ("i8", np.int8)])
def test_every_element_arrives(dtype: str, kind: type, places: tuple[str, ...], by_read: bool) -> None:
    code, _ = loaded(Subject(dtype, places, by_read))
    for rows, columns in ((20, 100), (3, 4), (8, 64), (1, 1)):
        memory = importlib.import_module("gfx_emulator").Memory()
        x = (np.arange(rows * columns) % 100 + 1).astype(kind).reshape(rows, columns)
        addresses = [memory.add(array, name) for array, name in ((x, "x"), (np.zeros_like(x), "y"))]
        code.run((-(-rows // 8), -(-columns // 64), 1), [*addresses, rows, columns], mem=memory)
        turned = x[:: -1 if _ROWS in places else 1, :: -1 if _COLUMNS in places else 1]
        np.testing.assert_array_equal(memory.get(addresses[1]), turned)

"""How much text kernels of the project become: compilers behind take their time by the line."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from tests.rungs import often
from tests.specs import KERNELS
from wavespec.lower.order import PASSES
from wavespec.pipeline import emit, lower
from wavespec.schema import load, loads
from wavespec.targets.machine import machines

_MOST_LINES = 50_000
"""Of one kernel: 45 thousand take about 16 seconds of one core on the slowest way, matrix tiles of a CPU."""
_LONG = ("attention_decode", "attention_extend")
"""Those that had the most lines of all: 267 and 59 thousand."""
_SERIALIZE = next(number for number, one in enumerate(PASSES) if one.name == "serialize-waves")

# The angles depend on no head, so that waves that share out heads share what is read of them.
ROPE = """\
apiVersion: wavespec/v1
kind: Kernel
name: rope
dims: {T: {}, H: {}, D: {multiple_of: 32}}
params: {ROWS: 4, COLUMNS: 32}
tensors:
  x: {shape: [T, H, D], dtype: bf16}
  cos: {shape: [H, D], dtype: bf16}
  y: {shape: [T, H, D], dtype: bf16, role: output}
constraints:
  - {workgroup: T, tile: 8, axis: 0}
  - {workgroup: H, tile: 5, axis: 1}
  - {workgroup: D, tile: COLUMNS, axis: 2}
  - {wave: T, tile: ROWS}
graph:
  - other: {read: x, at: {D: (D + size(D) // 2) % size(D)}}
  - cosine: {read: cos, at: {D: (D + size(D) // 2) % size(D)}}
  - result: other * cosine
  - {write: result, to: y}
"""

SCAN = """\
apiVersion: wavespec/v1
kind: Kernel
name: cumsum
dims: {M: {}, N: {}}
params: {COLUMNS: 64}
tensors:
  x: {shape: [M, N], dtype: f64}
  y: {shape: [M, N], dtype: f64, role: output}
constraints:
  - {workgroup: M, tile: 16, axis: 0}
  - {wave: M, tile: 1}
  - {tiling: N, tile: COLUMNS}
graph:
  - none: {register: [M], dtype: f64, value: 0}
  - rows:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - sums: {cumsum: part, dim: N, init: total}
        - total: {sum: part, dim: N, init: total}
        - {write: sums, to: y}
"""

ADD = """\
apiVersion: wavespec/v1
kind: Kernel
name: add
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: f32}
  b: {shape: [N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: N, tile: 160, axis: 0}
  - {workgroup: M, tile: 16, axis: 1}
  - {hardware: {vector: {M: 4}}}
graph:
  - part: {read: x}
  - same: {read: b}
  - result: part + same
  - {write: result, to: y}
"""


@pytest.mark.parametrize("name", often(_LONG, _LONG[:1]))
def test_long_kernels_on_cpus_stay_within_the_lines_that_compile_in_time(name: str) -> None:
    (path,) = (path for path in KERNELS if path.name == f"{name}.wave.yaml")
    spec = load(path)
    lines = {machine.variant: emit(spec, machine).text.count("\n") for machine in machines("cpu")}
    assert max(lines.values()) <= _MOST_LINES, lines


def _calls_to_serialize(columns: int) -> int:
    """Calls of functions in `serialize-waves`, for a rope of a tile with these columns."""
    text = ROPE.replace("COLUMNS: 32", f"COLUMNS: {columns}")
    (machine, *_) = machines("cpu")
    kernel = lower(loads(text), machine, after=PASSES[_SERIALIZE - 1].name)
    calls = 0

    def count(_: FrameType, event: str, __: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        PASSES[_SERIALIZE].apply(kernel, machine)
    finally:
        sys.setprofile(before)
    return calls


def test_turns_of_waves_take_time_by_the_operation() -> None:
    """Each load that all waves share was compared with everything before it: 50 seconds for 200 thousand lines."""
    assert _calls_to_serialize(256) < 5 * _calls_to_serialize(64)


@pytest.mark.parametrize("columns", [64, 1024])
def test_long_loops_on_cpus_end_in_what_keeps_llvm_from_comparing_their_accesses(columns: int) -> None:
    """A scan of f64 with rows of 1024 elements took 18 seconds to compile, now 2."""
    (*_, machine) = machines("cpu")
    machine = replace(machine, longest_scan=0)  # it takes shorter steps by itself
    found = emit(loads(SCAN.replace("COLUMNS: 64", f"COLUMNS: {columns}")), machine).text
    assert ("llvm.load volatile" in found) == (columns == 1024)


def test_vectors_along_rows_leave_cpus_vectors_along_columns() -> None:
    """Every element of an odd tile was accessed by itself: 53 thousand lines, 21 seconds and 737 MB to compile."""
    (*_, machine) = machines("cpu")
    assert emit(loads(ADD), machine).text.count("\n") < 10_000

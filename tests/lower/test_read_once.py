"""What a tensor has once along a dim is read once."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text, lines
from wavespec.ir.kernel import Kernel
from wavespec.lower.read_once import ReadOnce
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

TILES = Text("""
    tile kernel @sums target sm_90 lanes 1
    symbol M in 0..4096 by 1
    symbol N in 0..4096 by 1
    split workgroup M 64 0
    split workgroup N 64 1
    plan "auto" stages 1 group 0
    memory @x : f16 (M: [M], N: [N]) global input
    memory @b : f16 (M: [M], N: [N]) global input start [0] strides [0] [1]
    memory @y : f32 (M: [M], N: [N]) global output
""")
SUMS = """
    %x = read {memory = "x"} : tile<M, N, f16>
    %b = read {memory = "b"} : tile<M, N, f16>
    %twice = elementwise %b, %b {function = "add"} : tile<M, N, f16>
    %sum = elementwise %x, %twice {function = "add"} : tile<M, N, f16>
    %y = cast %sum : tile<M, N, f32>
    write %y {memory = "y"}
"""
ONCE = """
    %x = read {memory = "x"} : tile<M, N, f16>
    %b = read {memory = "b"} : tile<N, f16>
    %twice = elementwise %b, %b {function = "add"} : tile<N, f16>
    %sum = elementwise %x, %twice {function = "add"} : tile<M, N, f16>
    %y = cast %sum : tile<M, N, f32>
    write %y {memory = "y"}
"""


def test_a_row_for_all_is_read_as_a_row() -> None:
    assert TILES.after(ReadOnce(), NVIDIA, SUMS) == lines(ONCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("strides [0] [1]", "strides [N] [1]"),  # rows of its own
        ("global input start", "global input staged start"),  # a tile of shared memory
    ],
)
def test_other_tiles_stay(old: str, new: str) -> None:
    kernel = TILES.changed((old, new)).kernel(SUMS)
    assert ReadOnce()(kernel, NVIDIA) is kernel


@pytest.mark.parametrize(
    "use",
    [
        'write %twice {memory = "y"}',
        '%top = reduce %twice {dim = "M", divided = false, function = "maximum"} : tile<N, f16>',
    ],
)
def test_what_is_taken_whole_stays(use: str) -> None:
    kernel = TILES.changed(("f32 (M", "f16 (M")).kernel(SUMS[: SUMS.index("    %sum")] + f"    {use}\n")
    assert ReadOnce()(kernel, NVIDIA) is kernel


SPEC = """apiVersion: wavespec/v1
kind: Kernel
name: sums
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: f16}
  b: {shape: [M, N], dtype: f16, strides: any}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 16, axis: 0}
  - {tiling: N, tile: 64}
  - {assume: "stride(b, M) == 0"}
graph:
  - n_loop:
      iterate: N
      body:
        - one: {read: x}
        - other: {read: b}
        - y_tile: "f32(one) + f32(other)"
        - {write: y_tile, to: y}
"""


def spec_of() -> KernelSpec:
    return loads(SPEC, "sums.wave.yaml")


@pytest.mark.parametrize("target", ["cpu", "sm_90", "gfx942", "gfx950"])
def test_results_are_those_of_rows_that_are_one(target: str) -> None:
    machine, sizes = machines(target)[0], {"M": 37, "N": 70}
    kernel = lower(spec_of(), machine)
    assert loads_of(kernel, "b") < loads_of(lower(loads(SPEC.replace(" == 0", " >= 0")), machine), "b")
    generator = np.random.default_rng(0)
    x = generator.integers(-8, 8, (37, 70)).astype(np.float16)
    b = np.broadcast_to(generator.integers(-8, 8, (1, 70)).astype(np.float16), (37, 70))
    report = simulate(kernel, machine, {"x": x, "b": b}, sizes)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], x.astype(np.float32) + b)


def loads_of(kernel: Kernel, memory: str) -> int:
    """Loads of a lane, as they are written."""
    return sum(op.name == "load" and op["memory"] == memory for op in kernel.walk())

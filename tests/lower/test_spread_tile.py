"""Tiles without a matrix product: every element has a place, neighbours in memory are neighbours among lanes."""

from __future__ import annotations

import itertools

import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.ops.rows import Rows
from wavespec.ir.kernel import Kernel
from wavespec.ir.layout import Layout
from wavespec.ir.thread_ops import STORE
from wavespec.pipeline import lower
from wavespec.schema import loads, spec_for_target
from wavespec.targets.machine import Machine


def layout(rows: Rows, machine: Machine) -> tuple[Kernel, Layout]:
    kernel = lower(rows.spec, machine, after="assign-layouts")
    read = next(op for op in kernel.walk() if op.name == "read")
    assert read.result.tile.layout is not None
    return kernel, read.result.tile.layout


def elements(kernel: Kernel, spread: Layout) -> list[tuple[int, int]]:
    """The place of every register of every lane, wave after wave."""
    found: list[tuple[int, int]] = []
    counts = [(name, range(count)) for name, count in kernel.waves]
    for waves in itertools.product(*(numbers for _, numbers in counts)):
        for lane in range(kernel.lanes):
            known = {"lane": lane, **{name: number for (name, _), number in zip(counts, waves, strict=True)}}
            found += [(int(at["M"].evaluate(known)), int(at["N"].evaluate(known))) for at in spread.coordinates()]
    return found


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
@pytest.mark.parametrize(
    "rows",
    [
        Rows(tile=(4, 512), wave=(2, 512)),
        Rows(tile=(8, 96), wave=(4, 96)),
        Rows(tile=(8, 64), wave=(8, 64), dtype="bf16"),
        Rows(tile=(3, 40), wave=(3, 40)),
        Rows(dim="M", tile=(16, 64), wave=(16, 64)),
        Rows(dim="M", tile=(16, 64), wave=(16, 64), order="N, M"),
    ],
    ids=str,
)
def test_every_element_of_the_tile_has_a_place(rows: Rows, machine: Machine) -> None:
    kernel, spread = layout(rows, machine)
    tile = [range(extent) for extent in rows.tile]
    assert set(elements(kernel, spread)) == set(itertools.product(*tile))


@pytest.mark.parametrize(("machine", "lanes"), [(NVIDIA, 32), (AMD, 64)], ids=["sm_90", "gfx942"])
def test_lanes_read_neighbouring_widest_accesses(machine: Machine, lanes: int) -> None:
    _, spread = layout(Rows(tile=(4, 512), wave=(4, 512), promise="multiple_of: 4"), machine)
    assert str(spread).startswith(f"{{M = 0, N = lane*4; 4 by M 1, {512 // (4 * lanes)} by N {4 * lanes} | 4 by N 1")


def test_short_rows_share_a_wave() -> None:
    _, spread = layout(Rows(tile=(8, 64), wave=(8, 64), dtype="bf16", promise="multiple_of: 8"), NVIDIA)
    assert str(spread) == "{M = lane//8, N = (lane%8)*8; 2 by M 4 | 8 by N 1}"


def test_vector_registers_run_along_the_contiguous_dim() -> None:
    _, spread = layout(Rows(tile=(4, 64), wave=(1, 64)), CPU)
    assert str(spread) == "{M = wave_M, N = 0; 4 by N 16 | 16 by N 1}"


def test_lanes_take_single_elements_of_rows_that_may_start_anywhere() -> None:
    _, spread = layout(Rows(tile=(4, 512), wave=(4, 512)), NVIDIA)
    assert str(spread).startswith("{M = 0, N = lane; ")


_SCALED = """\
apiVersion: wavespec/v1
kind: Kernel
name: scaled
dims: {M: {}, N: {}, K: {multiple_of: 32}, G: {equals: K / 32}}
tensors:
  a: {shape: [M, K], dtype: f8e4m3fn}
  b: {shape: [N, K], dtype: f8e4m3fn}
  a_scale: {shape: [M, G], dtype: f8e8m0fnu}
  b_scale: {shape: [N, G], dtype: f8e8m0fnu}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 128, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 64}
  - {wave: M, tile: 16}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - a_factor: {read: a_scale, dims: [M, K], at: {G: K // 32}}
        - b_factor: {read: b_scale, dims: [N, K], at: {G: K // 32}}
        - acc: {mma: [a_tile, b_tile, acc], scales: [a_factor, b_factor]}
  - {write: k_loop.acc, to: c}
"""


def test_waves_without_a_part_of_their_own_leave_the_tile_to_others() -> None:
    """Eight waves along M have a part each of what is decoded of ``a``; of ``b`` there are parts for four."""
    spec = spec_for_target(loads(_SCALED, "scaled.wave.yaml"), "gfx942")
    stores = [op for op in lower(spec, AMD, after="tile-to-thread").walk() if op.is_(STORE)]
    masks = {op["memory"][0]: str(op["mask"]) for op in stores if op["memory"].endswith(".shared")}
    assert masks == {"a": "()", "b": "((wave_M, 4),)"}


LINES = """
apiVersion: wavespec/v1
kind: Kernel
name: lines
dims: {N: {}}
tensors:
  x: {shape: [N], dtype: READ}
  y: {shape: [N], dtype: WRITTEN, role: output}
constraints: [{workgroup: N, tile: 512, axis: 0}]
graph:
  - a: {read: x}
  - b: WRITTEN(a)
  - {write: b, to: y}
"""


@pytest.mark.parametrize(
    ("read", "written", "width"),
    [("bf16", "bf16", 8), ("bf16", "f32", 4), ("f32", "f32", 4), ("i64", "i64", 1), ("u8", "i64", 1)],
)
def test_lanes_have_neighbours_of_a_line_where_these_are_one_access_wherever_it_ends(
    read: str, written: str, width: int
) -> None:
    spec = loads(LINES.replace("READ", read).replace("WRITTEN", written))
    kernel = lower(spec, NVIDIA, after="assign-layouts")
    found = next(op.result.tile.layout for op in kernel.walk() if op.name == "read")
    assert found is not None and found.run_length("N") == width

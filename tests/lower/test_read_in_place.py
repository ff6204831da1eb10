"""Rows that tiles read where they are: whole rows of a matrix, and of an image whose filters have one pixel."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.emit.test_amx import TILES_ALONE, emulated_kernel
from tests.kernels import SPECS
from wavespec.cases_on_machines import cases_on
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.ir.thread_ops import FOR, LOAD, LOAD_TILE
from wavespec.lower.read_in_place import ReadInPlace
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import case_for_sizes
from wavespec.schema.language.expressions import Num
from wavespec.schema.resolve import complete_sizes

PRODUCT = """
apiVersion: wavespec/v1
kind: Kernel
name: product
dims:
  M: {}
  N: {}
  K: {multiple_of: 64, max: 128}
tensors:
  x: {shape: [M, K], dtype: bf16, space: shared}
  w: {shape: [N, K], dtype: bf16, space: shared}
  y: {shape: [M, N], dtype: bf16, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 128}
  - {wave: M, tile: 32}
  - {wave: N, tile: 32}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - sums:
      iterate: K
      carry: {acc: zero}
      body:
        - x_tile: {read: x}
        - w_tile: {read: w}
        - acc: {mma: [x_tile, w_tile, acc]}
  - result: {cast: sums.acc, dtype: bf16}
  - {write: result, to: y}
"""


def product(text: str = PRODUCT) -> KernelSpec:
    return loads(text)


def read_there(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.walk() if op.is_(LOAD_TILE) and op.get("source")]


def copies_of(kernel: Kernel, row: int, rows: int) -> int:
    """Rows that the first wave copies of a matrix of so many."""
    (outer,) = (op for op in kernel.walk() if op.is_(FOR) and op["induction"] == "copy.x.shared.M")
    known = {"M": rows, "K": 128, "wg0": 0, "wave_M": row}
    return value(outer["upper"], known)


def value(expr: Expr, known: dict[str, int]) -> int:
    return expr.substitute(known).value


def test_whole_rows_are_read_where_they_are() -> None:
    kernel = lower(product(), TILES_ALONE)
    (tile,) = read_there(kernel)
    assert tile["source"] == "x"
    assert repr(tile["source_stride"]) == "K"
    assert copies_of(kernel, 0, 64) == copies_of(kernel, 1, 64) == 0


def test_rows_that_are_not_all_there_are_copied() -> None:
    kernel = lower(product(), TILES_ALONE)
    assert [copies_of(kernel, row, 50) for row in (0, 1)] == [0, 32]


def test_rows_whose_first_elements_may_not_be_there_are_copied() -> None:
    kernel = lower(product(), TILES_ALONE, after="turn-runs")
    assert len(read_there(ReadInPlace()(kernel, TILES_ALONE))) == 1
    front = 2 - kernel.symbol("wg0")
    body = rewrite(kernel.body, lambda op: (op.with_(front=front),), LOAD)
    assert not read_there(ReadInPlace()(replace(kernel, body=body), TILES_ALONE))


def test_parts_of_rows_are_copied() -> None:
    assert not read_there(lower(product(PRODUCT.replace(", max: 128", "")), TILES_ALONE))


IN_PLACE = PRODUCT.replace("K: {multiple_of: 64, max: 128}", "K: {}").replace("tile: 128", "tile: 64")


@pytest.mark.parametrize(("word", "tensor"), [("left_in_place", "x"), ("right_in_place", "w")])
def test_parts_of_rows_are_read_where_they_are_where_the_spec_says_so(word: str, tensor: str) -> None:
    kernel = lower(product(IN_PLACE.replace("mma: auto", f"mma: {word}")), TILES_ALONE)
    assert {op["source"] for op in read_there(kernel)} == {tensor}


ONE_PANEL = IN_PLACE.replace("mma: auto", "mma: right_in_place").replace(
    "{workgroup: M, tile: 64", "{workgroup: M, tile: 32"
)


def test_of_rows_that_meet_one_panel_the_last_part_is_copied() -> None:
    (inner,) = (op for op in lower(product(ONE_PANEL), TILES_ALONE).walk() if op.get("induction") == "copy.w.shared.K")
    known = {"N": 64, "wg1": 0, "wave_N": 0, "at_K": 64}
    assert [value(inner["lower"], {**known, "K": depth}) for depth in (128, 100, 90)] == [64, 32, 0]
    assert value(inner["lower"], {**known, "K": 100, "N": 20}) == 0, "all of rows that are not all there"
    (left, right), *_ = next(op for op in read_there(lower(product(ONE_PANEL), TILES_ALONE)))["mask"]
    assert (repr(left), repr(right)) == ("in_K + 31", "K - at_K")


def test_of_tiles_that_begin_between_two_parts_all_is_copied() -> None:
    kernel = lower(product(ONE_PANEL), TILES_ALONE, after="turn-runs")
    body = rewrite(kernel.body, lambda op: (op.with_(offset=op["offset"] + 16),), LOAD_TILE)
    after = ReadInPlace()(replace(kernel, body=body), TILES_ALONE)
    (inner,) = (op for op in after.walk() if op.get("induction") == "copy.w.shared.K")
    known = {"N": 64, "wg1": 0, "wave_N": 0, "at_K": 64}
    assert [value(inner["lower"], {**known, "K": depth}) for depth in (128, 100)] == [64, 0]


@pytest.mark.compiles
@pytest.mark.parametrize("depth", [128, 100, 64, 20, 1])
def test_parts_of_rows_that_meet_one_panel_are_copied(depth: int) -> None:
    random = torch.Generator().manual_seed(depth)
    x, w = (torch.randint(-3, 4, (rows, depth), generator=random).bfloat16() for rows in (5, 70))
    assert torch.equal(emulated_kernel(product(ONE_PANEL))(x, w), (x.float() @ w.float().T).bfloat16())


@pytest.mark.compiles
@pytest.mark.parametrize("depth", [128, 100, 64, 20, 1])
def test_columns_beyond_the_last_one_are_no_part_of_a_product(depth: int) -> None:
    random = torch.Generator().manual_seed(depth)
    x, w = (torch.randint(-3, 4, (rows, depth), generator=random).bfloat16() for rows in (5, 70))
    run = emulated_kernel(product(IN_PLACE.replace("mma: auto", "mma: right_in_place")))
    assert torch.equal(run(x, w), (x.float() @ w.float().T).bfloat16())


def test_machines_without_tile_registers_copy() -> None:
    shared = replace(TILES_ALONE.shared, matrix_load="")
    other = replace(TILES_ALONE, shared=shared, instructions=TILES_ALONE.instructions[1:])
    assert not read_there(lower(product(), other))


@pytest.mark.compiles
def test_rows_read_either_way_give_the_same() -> None:
    random = torch.Generator().manual_seed(0)
    kernel = emulated_kernel(product())
    for rows, columns, depth in ((64, 64, 128), (50, 70, 64), (7, 33, 128), (96, 32, 0)):
        x, w = (torch.randint(-9, 10, (size, depth), generator=random).bfloat16() for size in (rows, columns))
        assert torch.equal(kernel(x, w), (x.float() @ w.float().T).bfloat16())


def test_pixels_of_one_tap_are_rows_of_a_matrix() -> None:
    text = (SPECS / "conv2d_nhwc.wave.yaml").read_text()
    spec = loads(text, "conv2d_nhwc.wave.yaml", SPECS)
    spec = spec.model_copy(update={"params": {**spec.params, "PAD": Num(0)}})
    sizes = complete_sizes(spec, {"N": 1, "H": 9, "W": 9, "C": 128, "O": 64, "R": 1, "S": 1})
    kernel = lower(case_for_sizes(cases_on(spec, "cpu", (TILES_ALONE,)), sizes).spec, TILES_ALONE)
    (tile,) = read_there(kernel)
    assert repr(tile["source_stride"]) == "C"
    assert not {"floordiv", "mod"} & {node.kind for node in tile["source_offset"].walk()}

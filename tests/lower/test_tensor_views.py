"""Mappings that a copy engine follows by itself, and those that lanes have to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, const, minimum, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, attribute_pairs
from wavespec.ir.layout import swizzled_slabs
from wavespec.ops.index_map import index_of
from wavespec.ops.shifted_rows import ShiftedRows, with_shifted_slabs
from wavespec.ops.tensor_views import as_lines, as_matrices, as_slabs, as_windows
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
M, K = index_of("M"), index_of("K")
N, H, W = (symbol(name, 1, 1 << 20) for name in "NHW")
OH, OW, S = (symbol(name, 1, 1 << 20) for name in ("OH", "OW", "S"))
C, K_SIZE = symbol("C", 64, 1 << 20, 64), symbol("K", 64, 1 << 30, 64)
SHARED = Memory(
    "x.shared", DTYPES["bf16"], ("M", "K"), (const(128), const(64)), "shared",
    arrangement=swizzled_slabs(("M", "K"), (128, 64), 2), staged=True,
)  # fmt: skip
IMAGES = Memory("x", DTYPES["bf16"], ("N", "H", "W", "C"), (N, H, W, C), "global", role="input")
PLACES = {"N": M // OW // OH, "H": M // OW % OH * 2 - 1 + K // C // S * 3, "W": M % OW + K // C % S, "C": K % C}
COUNTED = {"N": M // (H * W), "H": M // W % H, "W": M % W, "C": K}


def kernel(tensor: Memory, **sizes: Expr) -> Kernel:
    known = {"M": symbol("M", 0, 1 << 30), "K": K_SIZE, "OH": OH, "OW": OW, "S": S, **sizes}
    return Kernel("test", "tile", "sm_90", (), (tensor, SHARED), (), sizes=tuple(known.items()))


def copy(places: dict[str, Expr], **more: object) -> Op:
    origin = (("M", symbol("wg0", 0, 1 << 20) * 128), ("K", symbol("at_K", 0, 1 << 30, 64)))
    where = {"source": "x", "memory": "x.shared", "at": tuple(places.items()), "over": ("M", "K"), "origin": origin}
    return Op("copy", attributes=attribute_pairs({**where, "through": (), **more}))


def test_windows_have_their_first_start_step_and_number() -> None:
    windows = as_windows(copy(PLACES), kernel(IMAGES), SHARED, HOPPER)
    assert windows is not None
    row, column = symbol("row", 0, 1 << 20), symbol("column", 0, 1 << 20)
    assert windows.attributes({"M": row, "K": column}) == {
        "corner": (row // OW // OH, row // OW % OH * 2 - 1, row % OW, column % C),
        "windows": ((-1, 2, OH, (K_SIZE - 64) // C // S * 3), (0, 1, OW, minimum((K_SIZE - 64) // C, S - 1))),
        "offsets": (column // C // S * 3, column // C % S),
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"H": M // OW % OH * 9},
        {"H": M // OW % OH - 200},
        {"H": M // OW % OH - K // C},
        {"H": M // OW % OW},
        {"W": M % OW * (K % C)},
        {"W": M % OW + K % C // 8},
        {"N": M // OW},
        {"C": K % C * 2},
        {"C": (K + M) % C},
    ],
    ids=lambda changed: str(changed),
)
def test_other_places_are_left_to_lanes(changed: dict[str, Expr]) -> None:
    assert as_windows(copy({**PLACES, **changed}), kernel(IMAGES), SHARED, HOPPER) is None


def test_windows_that_end_too_far_from_the_image_are_left_to_lanes() -> None:
    for height, first, is_in_reach in ((12, 0, True), (140, 0, False), (2, 119, True), (2, 120, False)):
        images = replace(IMAGES, shape=(N, const(height), W, C))
        place = M // OW % 10 + first + K // C // S
        windows = as_windows(copy({**PLACES, "N": M // OW // 10, "H": place}), kernel(images), SHARED, HOPPER)
        assert (windows is not None) == is_in_reach, (height, first)


def test_places_that_numbers_of_a_call_move_are_left_to_lanes() -> None:
    moved = {**PLACES, "H": PLACES["H"] + symbol("gap", 0, 100)}
    assert as_windows(copy(moved), kernel(IMAGES), SHARED, HOPPER) is None


def test_windows_need_whole_tiles_of_channels_and_images_with_elements() -> None:
    assert as_windows(copy(PLACES), kernel(IMAGES, K=symbol("K", 8, 1 << 30, 8)), SHARED, HOPPER) is None
    images = replace(IMAGES, shape=(symbol("N", 0, 1 << 20), H, W, C))
    assert as_windows(copy(PLACES), kernel(images), SHARED, HOPPER) is None
    assert as_windows(copy(PLACES, through=(("i", "t", ()),)), kernel(IMAGES), SHARED, HOPPER) is None


def test_dims_that_are_counted_over_are_one_dim_that_ends_with_the_tile() -> None:
    matrices = as_matrices(copy(COUNTED), kernel(IMAGES, K=C), ("M", "K"))
    assert matrices is not None and not matrices.places
    matrix = matrices.memory
    assert matrix.dims == ("M", "K") and matrix.shape[1] is C
    assert matrix.shape[0].kind == "min", "rows end with the tensor, and with the dim of the tile"
    assert as_matrices(copy({**COUNTED, "W": M % H}), kernel(IMAGES), ("M", "K")) is None
    assert as_matrices(copy({**COUNTED, "N": M // H}), kernel(IMAGES), ("M", "K")) is None
    assert as_matrices(copy(PLACES), kernel(IMAGES), ("M", "K")) is None


def test_dims_in_front_of_which_a_tile_has_one_place_say_which_matrix_it_is() -> None:
    image = index_of("B")
    pixels = {"N": image, "H": M // W, "W": M % W, "C": K}
    matrices = as_matrices(copy(pixels, over=("B", "M", "K")), kernel(IMAGES, K=C), ("M", "K"))
    assert matrices is not None and matrices.memory.dims == ("N", "M", "K")
    assert matrices.corner({"B": const(3), "M": const(128), "K": const(64)}) == (const(3), const(128), const(64))
    moved = {**pixels, "N": M // (H * W)}
    assert as_matrices(copy({**moved, "H": image}, over=("B", "M", "K")), kernel(IMAGES, K=C), ("M", "K")) is None


PITCH = symbol("P", 1, 1 << 20)
SHIFTED = M + K // 64 % 3
TAPS = {"N": SHIFTED // PITCH // OH, "H": SHIFTED // PITCH % OH - 1 + K // 192 % 3, "W": SHIFTED % PITCH - 1}


def staged(arranged: bool, rows: int = 128) -> Memory:
    tile = replace(SHARED, shape=(const(rows), const(192)), arrangement=swizzled_slabs(("M", "K"), (rows, 192), 16))
    once = with_shifted_slabs(tile, ShiftedRows(64, 3))
    assert once is not None
    return once if arranged else tile


def test_windows_of_rows_that_are_there_once_are_those_of_the_first_shift() -> None:
    sizes = kernel(IMAGES, K=symbol("K", 576, 1 << 30, 576))
    taps = copy({**TAPS, "C": K % 64 + K // 576 * 64})
    windows = as_windows(taps, sizes, staged(arranged=True), HOPPER)
    assert windows is not None
    row, column = symbol("row", 0, 1 << 20), symbol("column", 0, 1 << 20, 192)
    seen = windows.attributes({"M": row, "K": column})
    assert seen["corner"][:3] == (row // PITCH // OH, row // PITCH % OH - 1, row % PITCH - 1)
    assert seen["offsets"] == (column // 192 % 3, const(0))
    assert as_windows(taps, sizes, staged(arranged=False), HOPPER) is None, "each row of which is another window"


def test_slabs_are_at_one_place_of_the_dims_between() -> None:
    filters = Memory("x", DTYPES["bf16"], ("O", "R", "S", "C"), (N, const(3), const(3), C), "global", role="input")
    places = {"O": M, "R": K // 192 % 3, "S": K // 64 % 3, "C": K // 576 * 64 + K % 64}
    sizes = kernel(filters, K=symbol("K", 576, 1 << 30, 576))
    slabs = as_slabs(copy(places), sizes, staged(arranged=False))
    assert slabs is not None and slabs.box((128, 64)) == (128, 1, 1, 64)
    assert slabs.corner({"M": const(256), "K": const(576 + 192 + 64)}) == (const(256), const(1), const(1), const(64))
    for changed in ({"S": K // 32 % 3}, {"O": M * 2}, {"C": K // 576 * 64 + K % 64 + M}):
        assert as_slabs(copy({**places, **changed}), sizes, staged(arranged=False)) is None, changed


def test_rows_of_a_tile_go_over_lines_with_room_beside_them() -> None:
    places = {"N": M // PITCH // H, "H": M // PITCH % H, "W": M % PITCH, "C": K}
    known = kernel(IMAGES)
    lines = as_lines(copy(places), known, ("M", "K"))
    assert lines is not None and lines.memory.shape == (N * H, W, C)
    assert lines.length is PITCH and lines.tile.shape == (N * H * W, C)
    for changed in ({"W": M % PITCH + 1}, {"H": M // PITCH % OH}, {"C": K + 1}):
        assert as_lines(copy({**places, **changed}), known, ("M", "K")) is None, changed

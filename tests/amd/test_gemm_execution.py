"""GEMM code objects, executed by an emulator of the instruction set, give exactly the right integers."""

from __future__ import annotations

import pytest

from tests.amd.amd_gemms import Gemm, require_emulator, run

require_emulator()
pytestmark = [pytest.mark.amd, pytest.mark.rare]

TARGETS = ("gfx942", "gfx950")
DTYPES = ("f16", "bf16", "i8", "f32")
ALIGNED = ((128, 128, 64), (256, 128, 96), (100, 72, 48), (130, 129, 48), (1, 1, 16))
ODD = ((130, 129, 33), (1, 1, 1), (5, 3, 0))
ANY = ("", "", "")

NAMED = [
    *(Gemm(mma=f"f32_{shape}_f16", target=target) for target in TARGETS for shape in ("16x16x16", "32x32x8")),
    *(Gemm("bf16", f"f32_{shape}_bf16", target=target) for target in TARGETS for shape in ("16x16x16", "32x32x8")),
    *(Gemm("i8", "i32_32x32x16_i8", target=target) for target in TARGETS),
    *(Gemm("f32", "f32_32x32x2_f32", target=target) for target in TARGETS),
    Gemm("i8", "i32_16x16x32_i8", target="gfx950"),
    Gemm("f16", "f32_32x32x16_f16", target="gfx950"),
    Gemm("bf16", "f32_32x32x16_bf16", target="gfx950"),
    Gemm("i8", "i32_32x32x32_i8", target="gfx950"),
]
TILES = [
    ((64, 64, 32), (2, 2)),
    ((128, 256, 64), (2, 4)),
    ((256, 128, 32), (4, 2)),
    ((64, 128, 32), (1, 2)),
    ((64, 64, 64), (1, 1)),
]


def gemm(dtype: str, target: str, sizes: tuple[str, str, str] | None = None) -> Gemm:
    """The default tile; twice as deep for bytes, as the widest byte instruction is."""
    return Gemm(dtype, tile=(128, 128, 64 if dtype == "i8" else 32), target=target, sizes=sizes)


@pytest.mark.parametrize("order", ["fwd", "rev"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", TARGETS)
def test_sizes_of_whole_vectors(target: str, dtype: str, order: str) -> None:
    assert [size for size in ALIGNED if not run(gemm(dtype, target), *size, order).right] == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", TARGETS)
def test_sizes_without_any_promise(target: str, dtype: str) -> None:
    assert [size for size in ODD if not run(gemm(dtype, target, ANY), *size).right] == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(128, 256, 320), (100, 72, 48), (33, 17, 16)])
def test_sizes_fixed_in_the_spec(dtype: str, size: tuple[int, int, int]) -> None:
    m, n, k = (f"value: {extent}" for extent in size)
    assert run(gemm(dtype, "gfx942", (m, n, k)), *size).right


@pytest.mark.parametrize("k", [2, 30, 34, 96])
def test_rows_aligned_to_words_only(k: int) -> None:
    assert run(Gemm(sizes=("", "", "multiple_of: 2")), 130, 70, k).right


@pytest.mark.parametrize("named", NAMED, ids=lambda named: f"{named.target}-{named.mma}")
def test_instructions_by_name(named: Gemm) -> None:
    assert run(named, 130, 129, 80).right


@pytest.mark.parametrize(("tile", "waves"), TILES)
@pytest.mark.parametrize("target", TARGETS)
def test_other_tiles(target: str, tile: tuple[int, int, int], waves: tuple[int, int]) -> None:
    assert run(Gemm(tile=tile, waves=waves, target=target), 130, 129, 72).right

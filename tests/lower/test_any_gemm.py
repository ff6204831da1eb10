"""Whatever a GEMM spec says: its result equals the reference exactly, or it is refused with a diagnostic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.lower.gemms import AMD, CPU, MACHINES, NVIDIA, Gemm, run
from wavespec.diagnostics import WavespecError
from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Kernel
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.lower.order import PASSES
from wavespec.lower.spec_to_tile import spec_to_tile
from wavespec.schema.resolved import resolve
from wavespec.targets.machine import Machine

_MOST_TILES = 3  # per dim: enough for a first, a middle and a partial tile
_DEEPEST = 128  # of a tile along k
_ROLES = (
    "waves: {producers: 1}",
    "waves: {producers: 1}, workgroups: {persistent: true, group: 2}",
    "waves: {producers: 1}, workgroups: {persistent: true, cluster: 2}",
    "waves: {producers: 1, order: ping_pong}, workgroups: {persistent: true}",
    "waves: {producers: 1}, workgroups: {split: 2}",
    "waves: {producers: 1}, workgroups: {split: 4}",
)
_DTYPES = ("f32", "f16", "bf16", "i8")


@st.composite
def sizes_and_dims(draw: st.DrawFn, tile: tuple[int, int, int]) -> tuple[dict[str, int], tuple[str, str, str]]:
    """Sizes of M, N and K, and a promise about each that holds: none, a multiple, a range or the size itself."""
    sizes: dict[str, int] = {}
    dims: list[str] = []
    for dim, extent in zip("MNK", tile, strict=True):
        most = min(70, _MOST_TILES * extent)
        size = draw(st.one_of(st.integers(1, most), st.sampled_from([1, extent, 2 * extent]), st.integers(0, 2)))
        size = min(size, most)
        factor = draw(st.sampled_from([1, 1, 2, 4, 8, 16, extent]))
        sized = [f"value: {size}", f"max: {size}, min: {size // 2}"] if size else []  # no dim is empty in every call
        dims.append(draw(st.sampled_from(["", f"multiple_of: {factor}", *sized])))
        sizes[dim] = size // factor * factor if dims[-1].startswith("multiple") else size
    return sizes, (dims[0], dims[1], dims[2])


@st.composite
def gemms(draw: st.DrawFn, machine: Machine) -> tuple[Gemm, dict[str, int]]:
    """A GEMM, most of them legal on the machine, and sizes that keep its promises."""
    dtype = draw(st.sampled_from(_DTYPES))
    rows = [row for row in machine.instructions if dtype in [known.name for known in row.inputs]]
    row = draw(st.sampled_from(rows))
    name = draw(st.sampled_from([row.name, "auto"] if row is rows[0] else [row.name]))
    counts = [draw(st.integers(1, 3)) for _ in "mn"]
    splits = [draw(st.sampled_from([1, 1, 2, 3, 4])) for _ in "mn"]
    depths = [depth for depth in (1, 2, 3, 4, 6, 8, 16) if depth * row.k <= _DEEPEST]
    wave = [row.m * counts[0], row.n * counts[1]]
    tile = [wave[0] * splits[0], wave[1] * splits[1], row.k * draw(st.sampled_from(depths))]
    if draw(st.integers(0, 7)) == 0:  # most likely illegal
        tile[draw(st.integers(0, 2))] = draw(st.sampled_from([1, 5, 8, 20, 24, 48, 512]))
        name = draw(st.sampled_from([row.name for row in machine.instructions]))
    sizes, dims = draw(sizes_and_dims((tile[0], tile[1], tile[2])))
    spaces = st.sampled_from(["shared", "shared", "global"])
    written = [size if parts > 1 or draw(st.booleans()) else None for size, parts in zip(wave, splits, strict=True)]
    orders = [
        draw(st.sampled_from([both[0], *both])) for both in (("M, K", "K, M"), ("N, K", "K, N"), ("M, N", "N, M"))
    ]
    gemm = Gemm(
        dtype,
        (tile[0], tile[1], tile[2]),
        (written[0], written[1]),
        name,
        dims,
        (draw(spaces), draw(spaces)),
        draw(st.integers(1, 3)),
        draw(st.sampled_from([0, 0, -2])),
        (orders[0], orders[1], orders[2]),
        draw(st.sampled_from(_ROLES)) if row.reads_shared else "",
    )
    return gemm, sizes


def lowered_through_text(gemm: Gemm, machine: Machine, read_back: str) -> Kernel:
    """All passes, the result of one of them printed and read back equal."""
    kernel = spec_to_tile(resolve(gemm.spec, machine.target))
    for one in PASSES:
        kernel = one(kernel, machine)
        if one.name == read_back:
            assert parse_kernel(print_kernel(kernel)) == kernel, one.name
    return kernel


def check(gemm: Gemm, machine: Machine, sizes: dict[str, int], data: st.DataObject) -> bool:
    """Whether the spec was accepted; then its result was right."""
    read_back = data.draw(st.sampled_from([one.name for one in PASSES]))
    try:
        kernel = lowered_through_text(gemm, machine, read_back)
    except WavespecError as error:
        assert str(error).startswith("gemm.wave.yaml:"), "a diagnostic has its place"
        return False
    report, expected = run(gemm.spec, machine, sizes, kernel=kernel)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"].astype(np.float64), expected.astype(np.float64))
    return True


@given(st.data())
def test_gemm_on_nvidia_is_right_or_refused(data: st.DataObject) -> None:
    check(*drawn(NVIDIA, data), data)


@given(st.data())
def test_gemm_on_amd_is_right_or_refused(data: st.DataObject) -> None:
    check(*drawn(data.draw(st.sampled_from([m for m in MACHINES if m.lanes == AMD.lanes])), data), data)


@given(st.data())
def test_gemm_on_cpu_is_right_or_refused(data: st.DataObject) -> None:
    check(*drawn(data.draw(st.sampled_from([m for m in MACHINES if m.lanes == CPU.lanes])), data), data)


def drawn(machine: Machine, data: st.DataObject) -> tuple[Gemm, Machine, dict[str, int]]:
    gemm, sizes = data.draw(gemms(machine))
    return gemm, machine, sizes


@given(st.data())
def test_roles_and_schedules_never_change_a_result(data: st.DataObject) -> None:
    """Few processors, so that a workgroup computes several tiles."""
    machine = replace(NVIDIA, processors=2, clusters={2: 1, 4: 1})
    wave = (64 * data.draw(st.sampled_from([1, 1, 2])), data.draw(st.sampled_from([8, 16, 32, 64])))
    schedule = data.draw(st.sampled_from(_ROLES))
    waves = data.draw(st.sampled_from([1, 2]))
    sizes = {dim: data.draw(st.integers(1, most)) for dim, most in (("M", 200), ("N", 70), ("K", 200))}
    orders = [data.draw(st.sampled_from(both)) for both in (("M, K", "K, M"), ("N, K", "K, N"))]
    factors = [data.draw(st.sampled_from([1, 2, 8, 8, 8])) for _ in sizes]
    gemm = Gemm(
        data.draw(st.sampled_from(["f16", "bf16"])),
        (wave[0] * waves, wave[1], data.draw(st.sampled_from([32, 64, 128]))),
        wave,
        dims=tuple(f"multiple_of: {factor}" for factor in factors),  # pyright: ignore[reportArgumentType]
        spaces=(data.draw(st.sampled_from(["shared", "shared", "global"])), "shared"),
        stages=data.draw(st.integers(1, 4)),
        schedule=schedule,
        orders=(orders[0], orders[1], "M, N"),
    )
    padded = {dim: -(-size // factor) * factor for (dim, size), factor in zip(sizes.items(), factors, strict=True)}
    check(gemm, machine, padded, data)


@pytest.mark.compiles
@given(st.data())
def test_legal_tiles_and_waves_never_change_a_result(data: st.DataObject) -> None:
    machine = data.draw(st.sampled_from([m for m in MACHINES if m.concurrent_waves]))
    gemm, sizes = data.draw(gemms(machine))
    waves = [data.draw(st.sampled_from([32, 64])) for _ in "mn"]
    tile = tuple(wave * data.draw(st.sampled_from([1, 2])) for wave in waves)
    depth = data.draw(st.sampled_from([64, 128]))
    gemm = replace(
        gemm,
        tile=(tile[0], tile[1], depth),
        wave=(waves[0], waves[1]),
        mma="auto",
        dtype=data.draw(st.sampled_from(_DTYPES)),
        stages=1,
        schedule="",
    )
    assume(sum(tile) * depth * DTYPES[gemm.dtype].bytes <= machine.shared.bytes)
    assume(not (gemm.dtype == "f32" and machine is NVIDIA and waves[1] == 32))  # its f32 row is 64 wide
    assert check(gemm, machine, sizes, data), "the tiles are legal"

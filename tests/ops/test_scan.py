"""Scans: exact on whole numbers on every machine, however the elements are spread."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.gemms import AMD, CPU, MACHINES, NVIDIA, lines
from tests.ops.scans import Scans
from tests.sim.planted_bugs import altered, dropped
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema.builder import KernelBuilder
from wavespec.targets.machine import Machine

GPUS = [NVIDIA, AMD]
EACH = [*GPUS, CPU]


def names(machine: Machine) -> str:
    return machine.variant


def check(scans: Scans, machine: Machine, sizes: tuple[int, int]) -> None:
    report, right = scans.run(machine, sizes)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"].astype(np.float64), right)


@pytest.mark.parametrize("machine", MACHINES, ids=names)
@pytest.mark.parametrize("sizes", [(8, 128), (7, 70), (1, 1), (5, 0), (9, 191)], ids=str)
def test_rows_of_any_length(machine: Machine, sizes: tuple[int, int]) -> None:
    check(Scans(), machine, sizes)


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize(
    "scans", [Scans("cummax", init=-99), Scans("cummin", init=99), Scans("cumprod", init=1)], ids=lambda s: s.word
)
def test_every_word(scans: Scans, machine: Machine) -> None:
    check(scans, machine, (6, 77 if scans.word != "cumprod" else 20))


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "i32", "i64", "i16", "i8"])
def test_every_type_that_is_computed_with(machine: Machine, dtype: str) -> None:
    check(Scans(dtype=dtype), machine, (3, 13))


@pytest.mark.parametrize("machine", EACH, ids=names)
def test_columns(machine: Machine) -> None:
    """The dim that is not contiguous: nothing is exchanged where lanes run along the other one."""
    scans = Scans(dim="M", tile=(8, 256), wave=(8, 256))
    check(scans, machine, (21, 300))
    assert not lines(lower(scans.spec, machine), "shuffle")


@pytest.mark.parametrize("machine", GPUS, ids=names)
@pytest.mark.parametrize("tile", [(2, 512), (2, 2048)], ids=str)
def test_waves_along_the_dim_meet_in_shared_memory(machine: Machine, tile: tuple[int, int]) -> None:
    scans = Scans(tile=tile, wave=(1, tile[1] // 4))
    check(scans, machine, (3, 2500))
    found = [memory.name for memory in lower(scans.spec, machine).memories if memory.space == "shared"]
    assert found[:2] == ["running.parts", "before.parts"]


@pytest.mark.parametrize("machine", EACH, ids=names)
def test_small_floats_are_joined_in_f32(machine: Machine) -> None:
    report, right = Scans(dtype="f16", low=1, high=2).run(machine, (1, 64))
    np.testing.assert_array_equal(report.tensors["y"].astype(np.float64), right)
    assert right[0, -1] == 64


def test_workgroups_cannot_join_what_others_have() -> None:
    with pytest.raises(WavespecError) as caught:
        lower(Scans(axis="  - {workgroup: N, tile: 32, axis: 1}\n").whole_rows, NVIDIA)
    (found,) = caught.value.diagnostics
    assert (found.code, found.span.line if found.span else 0) == ("reduction-split", 13)


@settings(max_examples=30, deadline=None)
@given(data=st.data(), machine=st.sampled_from(EACH), dim=st.sampled_from(["M", "N"]))
def test_no_way_to_spread_the_elements_changes_the_result(data: st.DataObject, machine: Machine, dim: str) -> None:
    tile = [data.draw(st.sampled_from(sizes)) for sizes in ((1, 2, 8), (32, 64, 256))]
    wave = [max(1, extent // data.draw(st.sampled_from((1, 2, 4)))) for extent in tile]
    sizes = data.draw(st.integers(0, 20)), data.draw(st.integers(0, 300))
    check(Scans(dim=dim, tile=(tile[0], tile[1]), wave=(wave[0], wave[1])), machine, sizes)


WIDE = Scans(tile=(2, 512), wave=(1, 128))
BUGS = {
    "sums that not every wave has laid down": dropped("barrier", 0),
    "lanes that leave out a neighbour": altered("shuffle", "bits", lambda mask: mask if mask != 1 else 2),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_show(bug: str) -> None:
    report, right = WIDE.run(NVIDIA, (5, 699), BUGS[bug](lower(WIDE.spec, NVIDIA)))
    assert not report.ok or not np.array_equal(report.tensors["y"].astype(np.float64), right)


def test_the_builder_says_the_same() -> None:
    k = KernelBuilder("scans")
    m, n = k.dim("M"), k.dim("N")
    x, y = k.input("x", [m, n], "f32"), k.output("y", [m, n], "f32")
    k.workgroup(m, 4, axis=0)
    k.wave(m, 2)
    k.tiling(n, 64)
    k.wave(n, 64)
    start = k.register("start", [m], "f32", 0)
    with k.iterate("steps", n, before=start) as steps:
        part = k.read("part", x)
        running = k.scan("cumsum", "running", part, n, init=steps["before"])
        k.reduce("sum", "before", part, n, init=steps["before"])
        k.write(running, y)
    assert k.build() == Scans().spec
    with pytest.raises(WavespecError, match="'cumsun' is not an op"):
        k.scan("cumsun", "other", part, n)

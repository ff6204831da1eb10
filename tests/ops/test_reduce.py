"""Reductions: exact on whole numbers on every machine, however the elements are spread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.gemms import AMD, CPU, MACHINES, NVIDIA, lines
from tests.ops.rows import Rows
from tests.sim.planted_bugs import altered, dropped
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

GPUS = [NVIDIA, AMD]
EACH = [*GPUS, CPU]


def names(machine: Machine) -> str:
    return machine.variant


def check(rows: Rows, machine: Machine, sizes: tuple[int, int]) -> None:
    report, right = rows.run(machine, sizes)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"].astype(np.float64), right)


@pytest.mark.parametrize("machine", MACHINES, ids=names)
@pytest.mark.parametrize("sizes", [(8, 128), (7, 70), (1, 1), (5, 0), (9, 191)], ids=str)
def test_rows_of_any_length(machine: Machine, sizes: tuple[int, int]) -> None:
    check(Rows(), machine, sizes)


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize(
    "rows", [Rows("max", init=-99), Rows("min", init=99), Rows("prod", init=1)], ids=lambda r: r.word
)
def test_what_lies_beyond_a_row_changes_nothing(rows: Rows, machine: Machine) -> None:
    check(rows, machine, (6, 77 if rows.word != "prod" else 20))


@pytest.mark.parametrize("machine", GPUS, ids=names)
@pytest.mark.parametrize(
    "rows", [Rows("max", init=-99), Rows(), Rows(dtype="bf16")], ids=lambda r: f"{r.word} {r.dtype}"
)
def test_accesses_that_lie_beyond_a_row_as_a_whole_are_left_out_as_a_whole(machine: Machine, rows: Rows) -> None:
    """Each is joined first, and padded as one number."""
    rows = replace(rows, promise="multiple_of: 8, max: 1024", tile=(4, 1024), wave=(2, 1024))
    padded = lines(lower(rows.spec, machine), "pad")
    assert padded and all(line.endswith(" : f32x1") for line in padded)
    check(rows, machine, (8, 776))


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "i32", "i64", "i16", "i8", "u8"])
def test_every_type_that_is_computed_with(machine: Machine, dtype: str) -> None:
    check(Rows(dtype=dtype), machine, (3, 13))


@pytest.mark.parametrize("machine", EACH, ids=names)
def test_columns(machine: Machine) -> None:
    """The dim that is not contiguous: nothing is exchanged where lanes run along the other one."""
    rows = Rows(dim="M", tile=(8, 256), wave=(8, 256))
    check(rows, machine, (21, 300))
    assert not lines(lower(rows.spec, machine), "shuffle")


@pytest.mark.parametrize("machine", GPUS, ids=names)
@pytest.mark.parametrize(
    "rows", [Rows(tile=(2, 512), wave=(1, 128)), Rows(tile=(4, 256), wave=(4, 64))], ids=["4 by 2", "4"]
)
def test_waves_along_the_dim_meet_in_shared_memory(rows: Rows, machine: Machine) -> None:
    check(rows, machine, (5, 700))
    kernel = lower(rows.spec, machine)
    assert [memory.name for memory in kernel.memories if memory.space == "shared"] == ["total.parts"]
    assert lines(kernel, "barrier")


def test_waves_in_turn_take_whole_rows() -> None:
    check(Rows(tile=(4, 256), wave=(2, 64)), CPU, (5, 700))


def test_a_promise_takes_the_padding_away() -> None:
    assert lines(lower(Rows().spec, NVIDIA), "pad")
    assert not lines(lower(Rows(promise="multiple_of: 64").spec, NVIDIA), "pad")


WHOLE_ROWS = """apiVersion: wavespec/v1
kind: Kernel
name: rows
dims: {M: {}, N: {value: 64}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
graph:
  - whole: {read: x}
  - total: {sum: whole, dim: N}
  - {write: total, to: y}
"""


@pytest.mark.parametrize("machine", EACH, ids=names)
def test_a_dim_of_one_size_needs_no_loop(machine: Machine) -> None:
    x = np.random.default_rng(0).integers(-9, 10, (7, 64)).astype(np.float32)
    report = simulate(lower(loads(WHOLE_ROWS), machine), machine, {"x": x}, {"M": 7, "N": 64})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], x.sum(1))


def test_workgroups_cannot_join_what_others_have() -> None:
    axis = "  - {workgroup: M, tile: 4, axis: 0}\n"
    with pytest.raises(WavespecError) as caught:
        lower(loads(WHOLE_ROWS.replace(axis, f"{axis}  - {{workgroup: N, tile: 32, axis: 1}}\n")), NVIDIA)
    (found,) = caught.value.diagnostics
    assert (found.code, found.span.line if found.span else 0) == ("reduction-split", 13)


WIDE, PRODUCT = Rows(tile=(2, 512), wave=(1, 128)), Rows("prod", init=1)
BUGS = {
    "sums that not every wave has laid down": (WIDE, dropped("barrier", 0)),
    "lanes that leave out a neighbour": (WIDE, altered("shuffle", "bits", lambda mask: mask if mask != 1 else 2)),
    "padding that counts": (PRODUCT, altered("pad", "value", lambda _: 2.0)),
    "padding from one element too late": (PRODUCT, altered("pad", "limit", lambda limit: limit + 1)),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_show(bug: str) -> None:
    rows, plant = BUGS[bug]
    sizes = (5, 699) if rows is WIDE else (5, 21)
    report, right = rows.run(NVIDIA, sizes, plant(lower(rows.spec, NVIDIA)))
    assert not report.ok or not np.array_equal(report.tensors["y"].astype(np.float64), right)


@pytest.mark.parametrize("word", ["sum", "max"])
@pytest.mark.parametrize("waves", [9, 16, 32])
def test_lanes_join_what_many_waves_have(word: str, waves: int) -> None:
    """One load of a lane takes the place of one for each wave; numbers of waves that are no power of two too."""
    rows = Rows(word=word, tile=(1, 32 * waves), wave=(1, 32), init=-20)
    kernel = lower(rows.spec, NVIDIA)
    assert len([op for op in kernel.walk() if op.name == "load" and op["memory"] == "total.parts"]) == 1
    report, expected = rows.run(NVIDIA, (2, 32 * waves + 5), kernel)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"].astype(np.float64), expected)

"""Columns of a tile that another product reads are read where that is staged: values that are a part of keys."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import AMD, NVIDIA, lines
from tests.schedule.products_of_sums import products_of_sums
from tests.schedule.test_overlapped_products import loops
from wavespec.ir.kernel import Kernel
from wavespec.lower.within_staged import within_others
from wavespec.pipeline import lower
from wavespec.sim.simt import simulate

VALUES = "{read: b, dims: [N, E], at: {D: E}}"
PART = (
    ("D: {min: 8, max: 16, multiple_of: 8}, E: {min: 8, multiple_of: 8}", "D: {value: 128}, E: {value: 64}"),
    ("BLOCK_D: 16, BLOCK_E: 16", "BLOCK_D: 128, BLOCK_E: 64"),
    ("  v: {shape: [N, E], dtype: f16, space: shared}\n", ""),
    ("{read: v}", VALUES),
)


def staged(*changes: tuple[str, str]) -> list[str]:
    kernel = lower(products_of_sums(*PART, *changes), NVIDIA, after="promote-shared")
    return [memory.name for memory in kernel.memories if memory.space == "shared"]


def test_values_are_read_in_the_tile_of_keys() -> None:
    kernel = lower(products_of_sums(*PART), NVIDIA, after="promote-shared")
    assert [line.split(" ")[-1] for line in lines(kernel, "copy")] == ['"a"}', '"b"}'], "one copy for both"
    (read,) = (line for line in lines(kernel, "read") if line.startswith("%v_tile"))
    assert 'memory = "b.shared"' in read and 'at = (("N", [N.i],), ("D", [E.i],),)' in read


@pytest.mark.parametrize(
    "changes",
    [
        ((VALUES, "{read: b, dims: [N, E], at: {D: E + 32}}"),),
        ((VALUES, "{read: b, dims: [N, E], at: {D: E + 128}}"),),
        ((VALUES, "{read: b, dims: [N, E], at: {D: E, N: N + 1}}"),),
        ((VALUES, "{read: b, dims: [N, E], at: {D: E * 2}}"),),
    ],
    ids=["no whole rows of banks", "beyond the tile", "other rows", "every other column"],
)
def test_other_parts_have_a_tile_of_their_own(changes: tuple[tuple[str, str], ...]) -> None:
    assert "v_tile.shared" in staged(*changes)


def test_columns_from_the_middle_are_read_there() -> None:
    assert "v_tile.shared" not in staged((VALUES, "{read: b, dims: [N, E], at: {D: E + 64}}"))


def test_only_what_the_matrix_unit_reads_itself_is_read_there() -> None:
    spec = products_of_sums(*PART, ("schedule: {stages: 3, waves: {producers: 1}}\n", ""))
    kernel = lower(spec, AMD, after="assign-tiles")
    assert within_others(kernel, AMD) == {}


@pytest.mark.parametrize("start", [0, 64])
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("rows", [1, 40, 64])
def test_results_are_right(start: int, stages: int, rows: int) -> None:
    changes = (VALUES, f"{{read: b, dims: [N, E], at: {{D: E + {start}}}}}"), ("stages: 3", f"stages: {stages}")
    kernel, random = lower(products_of_sums(*PART, *changes), NVIDIA), np.random.default_rng(0)
    a, b = (random.integers(-1, 2, shape).astype(np.float16) for shape in ((70, 128), (rows, 128)))
    report = simulate(kernel, NVIDIA, {"a": a, "b": b}, {"M": 70, "N": rows, "D": 128, "E": 64})
    assert report.ok, report.render()
    weights = a.astype(np.float64) @ b.astype(np.float64).T + 1
    assert np.array_equal(report.tensors["c"], weights @ b[:, start : start + 64].astype(np.float64))


def test_products_of_two_steps_do_not_keep_both_buffers() -> None:
    """With three there is one to fill while two steps have one each."""

    def count(stages: int) -> int:
        kernel: Kernel = lower(products_of_sums(*PART, ("stages: 3", f"stages: {stages}")), NVIDIA)
        return len(loops(kernel))

    assert count(2) == 2 and count(3) > 2

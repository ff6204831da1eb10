"""A loop goes where one tile covers its dim for every size, and stays where it has steps to overlap."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA, Gemm
from tests.ops.rows import Rows
from wavespec.pipeline import lower
from wavespec.targets.machine import Machine


def names(rows: Rows, machine: Machine = NVIDIA) -> list[str]:
    return [op.name for op in lower(rows.spec, machine, after="inline-steps").walk()]


def test_loop_of_at_most_one_step_is_its_body() -> None:
    assert names(Rows(promise="max: 64")) == ["register", "read", "reduce", "write"]
    assert "iterate" in names(Rows(promise="max: 65"))
    assert "iterate" in names(Rows())


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("sizes", [(5, 64), (4, 13), (3, 1), (2, 0)], ids=str)
def test_result_is_the_same(machine: Machine, sizes: tuple[int, int]) -> None:
    report, expected = Rows("max", promise="max: 64", init=3).run(machine, sizes)
    assert report.ok, report.render()
    assert np.array_equal(report.tensors["y"], expected)


def test_loops_of_products_stay() -> None:
    kernel = Gemm(dims=("", "", "value: 32")).lowered(AMD, "inline-steps")
    assert any(op.name == "iterate" for op in kernel.walk())

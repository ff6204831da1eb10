"""Whole tiles are computed without bound checks, what is left with them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA, Gemm
from tests.ops.rows import Rows
from wavespec.ir.kernel import Kernel, Op
from wavespec.pipeline import lower
from wavespec.targets.machine import Machine


def loops(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.walk() if op.name in ("iterate", "for")]


def test_checks_are_left_in_the_last_step_alone() -> None:
    whole, edge = loops(lower(Rows(tile=(4, 64)).spec, NVIDIA, after="peel-edges"))
    assert (str(whole["extent"]), str(edge["lower"]), str(edge["extent"])) == ("N - N%64", "N - N%64", "N")
    masks = [[op["masked"] for op in loop.body.ops if op.name in ("read", "join")] for loop in (whole, edge)]
    assert masks == [[("M",), False], [("M", "N"), True]]
    assert edge.operands == whole.results


def test_loop_without_an_edge_stays_one() -> None:
    assert len(loops(lower(Rows(tile=(4, 64), promise="multiple_of: 64").spec, NVIDIA, after="peel-edges"))) == 1


def test_loops_of_products_stay() -> None:
    assert all(op.get("lower") is None for op in loops(Gemm().lowered(AMD, "peel-edges")))


def test_single_rows_in_turn_are_not_checked_twice() -> None:
    kernel = lower(Rows(tile=(8, 64), wave=(1, 64)).spec, CPU)
    assert not any("M" in left.symbols for op in kernel.walk() for left, _ in op.get("mask", ()))
    assert not any(op.get("mask") for op in kernel.walk())


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("dim", ["M", "N"])
def test_results_are_exact_at_every_edge(dim: str, machine: Machine) -> None:
    for sizes in ((64, 129), (8, 64), (1, 1), (63, 0)):
        report, expected = Rows(dim=dim, tile=(8, 64), wave=(1, 64) if dim == "N" else (8, 64)).run(machine, sizes)
        assert report.ok, report.render()
        assert np.array_equal(report.tensors["y"], expected)

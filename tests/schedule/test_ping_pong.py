"""Halves of the waves that take turns: phases, barriers, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.gemms import AMD, NVIDIA, Gemm, operands, run
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.sim.interleaving import Order
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

GEMM = Gemm(dims=("", "", "multiple_of: 8"), tile=(64, 64, 32), wave=(32, 32), schedule="waves: {order: ping_pong}")
SIZES = {"M": 70, "N": 33, "K": 104}


def phases(kernel: Kernel) -> list[set[str]]:
    """Nodes between the barriers of the loop."""
    loop = next(op for op in kernel.walk() if op.name == "for")
    found: list[set[str]] = [set()]
    for op in loop.body.ops:
        if op.name == "barrier":
            found.append(set())
        elif op.node:
            found[-1].add(op.node)
    return found


def test_a_phase_moves_data_or_multiplies() -> None:
    assert phases(GEMM.lowered(AMD)) == [
        {"a_tile", "b_tile", "a_tile.load", "b_tile.load"},
        {"acc"},
        {"a_tile.store", "b_tile.store"},
        {"acc"},
        set(),
    ]


def test_products_have_priority() -> None:
    loop = next(op for op in GEMM.lowered(AMD).walk() if op.name == "for")
    level = 0
    for op in loop.body.ops:
        level = op["level"] if op.name == "priority" else level
        if op.name in ("mma", "load", "store"):
            assert level == (op.name == "mma")


@pytest.mark.parametrize("order", ["forward", "reverse", 3])
@pytest.mark.parametrize("sizes", [(64, 64, 96), (70, 33, 104), (5, 3, 0)])
def test_results_are_exact_and_no_half_overtakes_the_other(sizes: tuple[int, int, int], order: Order) -> None:
    extents = dict(zip("MNK", sizes, strict=True))
    inputs = operands(GEMM.spec, extents)
    report = simulate(GEMM.lowered(AMD), AMD, inputs, extents, order=order)
    assert not report.findings, str(report.findings[0])
    product = inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64).T
    np.testing.assert_array_equal(report.tensors["c"], product)


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_every_barrier_of_the_loop_is_needed(number: int) -> None:
    kernel = GEMM.lowered(AMD)
    inside = next(op for op in kernel.walk() if op.name == "for")
    barriers = [at for at, op in enumerate(inside.body.ops) if op.name == "barrier"]

    def change(op: Op) -> tuple[Op, ...]:
        if op.name != "for":
            return (op,)
        ops = tuple(inner for at, inner in enumerate(op.body.ops) if at != barriers[number])
        return (replace(op, region=replace(op.body, ops=ops)),)

    report, _ = run(GEMM.spec, AMD, SIZES, kernel=replace(kernel, body=rewrite(kernel.body, change)))
    assert any(finding.kind == "race" for finding in report.findings)


@pytest.mark.parametrize(
    ("gemm", "machine", "why"),
    [
        (replace(GEMM, tile=(32, 32, 32)), AMD, "1 waves are no two halves"),
        (
            replace(GEMM, spaces=("global", "shared"), tile=(64, 96, 32), wave=(64, 32)),
            AMD,
            "3 waves are no two halves",
        ),
        (GEMM, NVIDIA, "sm_90 has no wave priorities, and no wave only copies"),
    ],
)
def test_what_cannot_take_turns_is_refused_at_its_line(gemm: Gemm, machine: Machine, why: str) -> None:
    with pytest.raises(WavespecError) as caught:
        gemm.lowered(machine)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "turns-not-possible" and why in diagnostic.message
    line = next(i for i, text in enumerate(gemm.text.splitlines(), 1) if text.startswith("schedule"))
    assert diagnostic.where is not None and diagnostic.where.line == line  # pyright: ignore

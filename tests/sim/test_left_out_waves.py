"""Waves whose rows are not there, simulated: results and signals are right, and mistakes put into their branch are found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.sim.planted_bugs import Bug, planted
from tests.sim.ragged import ragged, run_ragged
from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.sim.findings import SimulationReport
from wavespec.sim.interleaving import Order

KEYS = np.array([0, 100, 100, 400, 700, 900], np.int32)
"""Of the first keys of sequences: those have three and two steps, of two buffers."""
HEADS_OF_128 = 1
"""The case of heads of up to 128 elements: of tiles of 128 rows those of the last three sequences have none for the
second wave of 64."""


def run(kernel: Kernel, order: Order = "forward") -> SimulationReport:
    return run_ragged(kernel, order, elements=72, key_starts=KEYS)


def is_branch(op: Op, *, missing: bool) -> bool:
    """Of a wave's tile: that for waves whose rows are missing ends as the wave meets."""
    signals = op.name == "if" and any(inner.name == "signal_wait" for inner in op.walk())
    return signals and "wave_M" in op.symbols and (op.body.ops[-1].name == "barrier") == missing


def left_out(name: str) -> Bug:
    """Nothing of a name is in the branch of waves whose rows are missing."""

    def change(op: Op) -> tuple[Op, ...]:
        if not is_branch(op, missing=True):
            return (op,)
        inside = rewrite(op.body.ops, lambda inner: () if inner.name == name else (inner,))
        return (replace(op, region=replace(op.body, ops=inside)),)

    return planted(change)


def moved(rows: int) -> Bug:
    """Waves with so many rows are left out, too."""

    def change(op: Op) -> tuple[Op, ...]:
        if is_branch(op, missing=True):
            ((elements, one),) = op["mask"]
            return (op.with_(mask=((elements, one + rows),)),)
        if is_branch(op, missing=False):
            ((zero, elements),) = op["mask"]
            return (op.with_(mask=((zero + rows, elements),)),)
        return (op,)

    return planted(change)


BUGS: dict[str, tuple[Bug, set[str]]] = {
    "buffers that are not given back": (left_out("signal_arrive"), {"deadlock"}),
    "buffers given back before they are there": (left_out("signal_wait"), {"race", "signal-overrun", "deadlock"}),
}


@pytest.mark.parametrize("order", ["forward", "reverse"])
def test_a_right_kernel_is_clean(order: Order) -> None:
    assert any(is_branch(op, missing=True) for op in ragged(HEADS_OF_128).walk())
    report = run(ragged(HEADS_OF_128), order)
    assert report.ok, report.render()


@pytest.mark.parametrize("name", BUGS)
def test_a_mistake_is_found(name: str) -> None:
    bug, kinds = BUGS[name]
    found = run(bug(ragged(HEADS_OF_128))).kinds()
    assert found & kinds, found


def test_a_wave_with_rows_is_not_left_out() -> None:
    """Else its rows stay as they were, which nothing but results shows."""
    right, wrong = (run(kernel).tensors["o"] for kernel in (ragged(HEADS_OF_128), moved(8)(ragged(HEADS_OF_128))))
    different = sorted({int(row) for row in np.nonzero(right != wrong)[0]})
    assert different == [*range(192, 200)]

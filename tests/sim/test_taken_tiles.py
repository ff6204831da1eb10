"""Workgroups that take tiles from a counter, simulated: mistakes put into such a kernel are found."""

from __future__ import annotations

import pytest

from tests.sim.planted_bugs import Bug, altered, dropped, with_arrivals
from tests.sim.ragged import ragged, run_ragged
from wavespec.ir.kernel import Kernel
from wavespec.sim.findings import SimulationReport
from wavespec.sim.interleaving import Order

BUGS: dict[str, tuple[Bug, set[str]]] = {
    "number that is overwritten before all have read it": (
        dropped("signal_wait", signal="tiles.taken.empty"),
        {"race", "signal-overrun"},
    ),
    "number that is read before it is there": (
        dropped("signal_wait", signal="tiles.taken.full"),
        {"race", "unwritten-read", "symbol-range"},
    ),
    "number that one lane alone has read": (with_arrivals("tiles.taken.empty", 1), {"race", "signal-overrun"}),
    "number that nobody is told of": (dropped("signal_arrive", signal="tiles.taken.full"), {"deadlock"}),
    "place of the number before": (
        altered("store", "buffer", lambda at: 1 - at, memory="tiles.taken.shared"),
        {"race", "unwritten-read"},
    ),
    "counter that is not set back": (dropped("atomic", function="exchange"), {"counter-left"}),
}


def run(kernel: Kernel, order: Order = "forward") -> SimulationReport:
    """Tiles of the last sequences have one step."""
    return run_ragged(kernel, order, elements=16)


@pytest.mark.parametrize("order", ["forward", "reverse", 0])
def test_a_right_kernel_is_clean(order: Order) -> None:
    report = run(ragged(0), order)
    assert report.ok, report.render()


@pytest.mark.parametrize("name", BUGS)
def test_a_mistake_is_found(name: str) -> None:
    bug, kinds = BUGS[name]
    found = run(bug(ragged(0))).kinds()
    assert found & kinds, found

"""Workgroups that take tiles from a counter, simulated: mistakes put into such a kernel are found."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from ml_dtypes import bfloat16

from tests.kernels import subjects
from tests.lower.gemms import NVIDIA
from tests.sim.planted_bugs import Bug, altered, dropped, with_arrivals
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.sim.findings import SimulationReport
from wavespec.sim.interleaving import Order
from wavespec.sim.simt import simulate

FEW = replace(NVIDIA, processors=2)
STARTS = np.array([0, 200, 200, 230, 260, 290], np.int32)
"""Of the first rows of sequences; tiles of the last ones have one step."""
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


@cache
def ragged() -> Kernel:
    (subject,) = (subject for subject in subjects("sm_90") if subject.name == "attention_ragged_full")
    return lower(subject.cases("sm_90")[0].spec, FEW)


def run(kernel: Kernel, order: Order = "forward") -> SimulationReport:
    sizes = {"T": 290, "S": 290, "H": 2, "G": 1, "D": 16, "E": 16, "L": len(STARTS), "B": len(STARTS) - 1}
    sizes |= {"M": 290, "N": 290}
    made, inputs = np.random.default_rng(0), [memory for memory in kernel.memories if memory.role == "input"]
    tensors = {memory.name: made.normal(size=[sizes[dim] for dim in memory.dims]).astype(bfloat16) for memory in inputs}
    tensors |= {"q_starts": STARTS, "k_starts": STARTS}
    return simulate(kernel, FEW, tensors, sizes, order=order, scalars={"scale": 0.25})


@pytest.mark.parametrize("order", ["forward", "reverse", 0])
def test_a_right_kernel_is_clean(order: Order) -> None:
    report = run(ragged(), order)
    assert report.ok, report.render()


@pytest.mark.parametrize("name", BUGS)
def test_a_mistake_is_found(name: str) -> None:
    bug, kinds = BUGS[name]
    found = run(bug(ragged())).kinds()
    assert found & kinds, found

"""What a run of the simulator needed is gone when it ends: its memories do not wait for Python's search for cycles."""

from __future__ import annotations

import gc

import pytest

from tests.sim.planted_bugs import dropped
from tests.sim.simulated_kernels import NVIDIA, numbers
from tests.sim.test_signals import TILES, ring
from wavespec.ir.kernel import Kernel
from wavespec.sim.simt import simulate
from wavespec.sim.workgroup import Workgroup


@pytest.mark.parametrize(
    ("kernel", "kinds"),
    [(ring(), set[str]()), (dropped("signal_arrive", signal="empty")(ring()), {"deadlock"})],
    ids=["right", "stopped"],
)
def test_workgroups_are_gone_without_a_search_for_cycles(kernel: Kernel, kinds: set[str]) -> None:
    # Each has copies of shared memory and, for every element of every tensor, who used it: a hundred megabytes a run,
    # in so few objects that Python does not look for them.
    gc.disable()
    try:
        report = simulate(kernel, NVIDIA, {"A": numbers(TILES * 32)}, {})
        assert report.kinds() >= kinds and report.ok == (not kinds)
        assert not [one for one in gc.get_objects() if type(one) is Workgroup]
    finally:
        gc.enable()

"""When launches are made by graphs, when by themselves, and what becomes of graphs; the driver is a stand-in."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from wavespec.runtime import launch_graphs as module
from wavespec.runtime.cuda_driver import CudaDriver
from wavespec.runtime.launch_graphs import LaunchGraphs

OFTEN = 32


class _Driver:
    """Its graphs are numbers; it says what was launched, and which graphs there are."""

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.launched: list[tuple[int, int]] = []
        self.tried = 0
        self.there: set[int] = set()
        self.modes: list[int] = []
        self.mode = 0
        self.meanwhile: Callable[[], object] = lambda: None
        self.graphs = LaunchGraphs(self._function)

    def _function(self, name: str, *types: Any) -> Callable[..., int]:
        del types

        def call(*arguments: Any) -> int:
            if name == "cuThreadExchangeStreamCaptureMode":
                mode = arguments[0]._obj
                mode.value, self.mode = self.mode, mode.value
            elif name == "cuGraphInstantiateWithFlags":
                self.tried += 1
                assert self.mode == 2
                if self.refused != name:
                    arguments[0]._obj.value = self.tried
                    self.there.add(self.tried)
            elif name == "cuGraphExecDestroy":
                assert self.mode == 2
                self.there.remove(arguments[0].value)
            elif name == "cuGraphLaunch":
                graph, stream = arguments
                assert graph.value in self.there
                self.launched.append((graph.value, stream.value or 0))
                self.meanwhile()
            return int(self.refused == name)

        return call


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    captured = [False]
    monkeypatch.setattr(module, "_is_capturing", lambda: captured[0])
    return captured


def _launch(driver: _Driver, stream: int = 0) -> tuple[list[int], Callable[[], int]]:
    """Launches that were made by themselves, and how to make one."""
    made: list[int] = []

    def launch() -> int:
        made.append(1)
        return 0

    return made, driver.graphs.when_often(launch, ctypes.byref(ctypes.c_int()), stream)


def test_launches_are_by_a_graph_when_they_were_made_often() -> None:
    driver = _Driver()
    itself, launch = _launch(driver)
    assert not any(launch() for _ in range(OFTEN)) and len(itself) == OFTEN and not driver.launched
    assert not any(launch() for _ in range(5)) and len(itself) == OFTEN and driver.launched == [(1, 0)] * 5
    assert driver.tried == 1 and driver.mode == 0


def test_a_graph_is_never_launched_into_a_capture(captured: list[bool]) -> None:
    driver = _Driver()
    itself, launch = _launch(driver, stream=5)
    for _ in range(OFTEN + 1):
        launch()
    assert len(driver.launched) == 1
    captured[0] = True
    for _ in range(2 * OFTEN):
        launch()
    assert len(driver.launched) == 1 and len(itself) == 3 * OFTEN
    captured[0] = False
    launch()
    assert len(driver.launched) == 2


def test_no_graph_is_made_while_its_stream_is_captured(captured: list[bool]) -> None:
    driver = _Driver()
    captured[0] = True
    _, launch = _launch(driver, stream=5)
    for _ in range(2 * OFTEN):
        launch()
    assert not driver.tried


def test_two_threads_do_not_launch_a_graph_at_once() -> None:
    driver = _Driver()
    itself, launch = _launch(driver)
    for _ in range(OFTEN):
        launch()
    driver.meanwhile = launch  # what another thread does while the driver is busy
    launch()
    assert len(driver.launched) == 1 and len(itself) == OFTEN + 1


def test_the_oldest_graph_goes_and_is_made_again_when_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT", 2)
    driver = _Driver()
    launches = [_launch(driver) for _ in range(3)]
    for _, launch in launches:
        for _ in range(OFTEN + 1):
            launch()
    assert driver.there == {2, 3} and [graph for graph, _ in driver.launched] == [1, 2, 3]
    itself, launch = launches[0]
    for _ in range(OFTEN + 1):
        launch()
    assert driver.there == {3, 4} and driver.launched[-1] == (4, 0) and len(itself) == 2 * OFTEN


@pytest.mark.parametrize("refused", ["cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags"])
def test_a_driver_that_makes_no_graph_is_asked_once(refused: str) -> None:
    driver = _Driver(refused)
    itself, launch = _launch(driver)
    assert not any(launch() for _ in range(4 * OFTEN))
    assert len(itself) == 4 * OFTEN and not driver.launched and driver.tried <= 1 and driver.mode == 0


def test_what_a_graph_says_is_told_and_it_stays() -> None:
    driver = _Driver()
    _, launch = _launch(driver)
    for _ in range(OFTEN):
        launch()
    driver.refused = "cuGraphLaunch"
    assert launch() == 1
    driver.refused = ""
    assert launch() == 0 and len(driver.launched) == 2


def test_drivers_before_graphs_launch_kernels() -> None:
    names = ("cuLaunchKernelEx", "cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute", "cuGetErrorName")
    library = type("Old", (), {name: ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0) for name in names})
    assert CudaDriver(library).graphs is None

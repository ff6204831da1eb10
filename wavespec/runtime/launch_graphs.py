"""A launch whose arguments stay goes in; one that the driver takes as a graph, once it was made often, comes out.

The driver takes 3.8 µs to launch a kernel, and 1.6 for a graph of the kernel alone, which was checked and laid out when
it was made; the GPU takes as long for both (H200). A graph takes 26 µs to make, and 0.12 MB of the GPU's memory.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import torch

_OFTEN: Final = 32
"""Launches of a kind before they are worth a graph."""
_KEPT: Final = 256
"""Graphs that there are at a time, 30 MB of the GPU's memory; the oldest one goes."""

NODE: Final = "Q7I4xQ24x"
"""CUDA_KERNEL_NODE_PARAMS of cuda.h, for `struct`: function, grid, workgroup, shared memory, table of parameters."""
_RELAXED: Final = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_POINTER: Final = ctypes.c_void_p

_is_capturing: Callable[[], bool] = (
    torch._C._cuda_isCurrentStreamCapturing if torch.backends.cuda.is_built() else bool  # pyright: ignore
)


class _Executable(_POINTER):
    """A graph, as functions of the driver take it, which has it back when nobody refers to it."""

    give_back: Callable[[_Executable], object] | None = None

    def __del__(self) -> None:
        if self.value and self.give_back is not None:
            self.give_back(self)


class LaunchGraphs:
    """The graphs of a driver."""

    def __init__(self, function: Callable[..., Callable[..., int]]) -> None:
        """``function``: of the driver, by name and types of arguments."""
        self._launch = function("cuGraphLaunch")
        self._create = function("cuGraphCreate", _POINTER, ctypes.c_uint32)
        self._add = function("cuGraphAddKernelNode_v2", _POINTER, _POINTER, _POINTER, ctypes.c_size_t, _POINTER)
        self._instantiate = function("cuGraphInstantiateWithFlags", _POINTER, _POINTER, ctypes.c_ulonglong)
        self._destroy = function("cuGraphDestroy", _POINTER)
        self._give_back = function("cuGraphExecDestroy", _POINTER)
        self._exchange_mode = function("cuThreadExchangeStreamCaptureMode", _POINTER)
        self._kept: deque[list[Callable[[], int]]] = deque()

    def when_often(self, launch: Callable[[], int], node: Any, stream: int) -> Callable[[], int]:
        """The launch, on a stream, by a graph of `node` (`NODE`, by reference) from the 33rd time on.

        While the stream is captured it is the launch itself, since a graph cannot be launched into another one.
        """
        idle: list[Callable[[], int]] = []  # while a thread launches a graph, no other may
        left = _OFTEN

        def launch_itself() -> int:
            nonlocal left
            left -= 1
            if left == 0 and (graph := self._made(node)) is not None:
                left = _OFTEN  # until it is made again, should it go
                idle.append(partial(self._launch, graph, _POINTER(stream)))
                self._keep(idle)
            return launch()

        def launch_graph() -> int:
            try:
                graph = idle.pop()
            except IndexError:
                return launch_itself()
            status = graph()
            idle.append(graph)
            return status

        def launch_unless_captured() -> int:
            return launch() if _is_capturing() else launch_graph()

        # The default stream is never captured.
        return launch_unless_captured if stream else launch_graph

    def _made(self, node: Any) -> _Executable | None:
        """The graph of one kernel; None where the driver makes none."""
        graph, added, executable = _POINTER(), _POINTER(), _Executable()
        with self._beside_captures():
            if self._create(ctypes.byref(graph), 0):
                return None
            failed = self._add(ctypes.byref(added), graph, None, 0, node)
            failed = failed or self._instantiate(ctypes.byref(executable), graph, 0)
            self._destroy(graph)
        executable.give_back = self._given_back
        return None if failed else executable

    def _given_back(self, executable: _Executable) -> None:
        with self._beside_captures():
            self._give_back(executable)  # what is under way ends first

    @contextmanager
    def _beside_captures(self) -> Generator[None]:
        """What is made and given back may take and free memory, by which a capture of another thread would end."""
        mode = ctypes.c_int(_RELAXED)
        self._exchange_mode(ctypes.byref(mode))
        try:
            yield
        finally:
            self._exchange_mode(ctypes.byref(mode))

    def _keep(self, idle: list[Callable[[], int]]) -> None:
        self._kept.append(idle)
        if len(self._kept) > _KEPT:
            self._kept.popleft().clear()

"""A kernel's function and a grid go in; the threads of torch run its workgroups.

Torch's operators for CPUs run on the threads of an OpenMP runtime, and these spin for a while behind each of them. A
pool of other threads would have to share the cores with them; a parallel region of the same runtime finds them awake.
Its body has to be machine code, since Python holds one thread at a time: that of `workgroup_body.py`.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import struct
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch

from wavespec.architecture import architecture
from wavespec.runtime.checks import ArgumentError
from wavespec.runtime.code import ArtifactError
from wavespec.runtime.kept_plans import KeptPlans
from wavespec.runtime.launch_plan import LaunchPlan
from wavespec.runtime.loaded_code import LoadedCode, keep, new_memory, protect
from wavespec.runtime.machine_functions import MachineFunction, address_of, can_run, machine_function
from wavespec.runtime.workgroup_body import BODIES

STACK_BYTES: Final = 4 << 20
"""Stack of a thread while it runs workgroups, however small its own is; kernels may keep tiles on it."""
_LOCAL_BYTES: Final = 4 << 20
"""Memory of a thread for packed panels, unless a kernel asks for more."""
_OWN_WORK: Final = 1 << 17
"""Instructions, each for one element, that a thread has to have to itself: in as many microseconds, four, a thread is
brought in and waited for, by one that is awake and whose core nobody else has."""
_SHORT_WORK: Final = 2 * _OWN_WORK
"""Of launches that keep Python's lock: to give it back and take it again takes longer than others would wait."""
_GUARD: Final = mmap.PAGESIZE
"""Bytes at the end of a stack that nothing may touch: what grows over it stops there."""

# A workspace, as the body knows it.
_FIXED: Final = struct.Struct("<QQQQQQ")  # environment, dispatch state, stacks, bytes of one, memory, threads
_COUNT_AT: Final = _FIXED.size - 8
_CALL_AT: Final = _FIXED.size
# Number of a thread; next workgroup and status, for themselves; how many, function, memory of a thread, x, y; and the
# `dispatch_state` of IREE: size of a workgroup, constants, grid, threads, buffers, three addresses. Buffers and
# constants follow.
_CALL: Final = "<Q8xQi52xQQQIIIIHHIIHBBQQQ"
_STATE_AT: Final = 160
_BUFFERS_AT: Final = 208
_LENGTHS_AT: Final = 4096
_ENVIRONMENT_AT: Final = _LENGTHS_AT + 256 * 8
_STATUS_AT: Final = 72
_HEAD_BYTES: Final = max(8192, mmap.PAGESIZE)  # stacks begin with a page
_MOST: Final = (2**32 - 1, 2**32 - 1, 2**16 - 1)
"""Workgroups along x, y, z, as many as their numbers have bits for."""
_PROT_NONE: Final = 0


class Workspace:
    """What one call at a time needs in memory: how far it is, stacks, and the threads' own memory."""

    def __init__(self, threads: int, local_bytes: int) -> None:
        self.threads, self.local_bytes = threads, local_bytes
        stacks = _HEAD_BYTES
        local = stacks + threads * STACK_BYTES
        size = local + threads * local_bytes
        try:
            self.memory, self.address = new_memory(size)
            for number in range(threads):
                protect(self.address + stacks + number * STACK_BYTES, _GUARD, _PROT_NONE)
        except OSError as error:
            raise MemoryError(
                f"{threads} threads need {size >> 20} MiB of address space for stacks; the system refuses: {error}. "
                "torch.set_num_threads asks for fewer threads."
            ) from error
        base = self.address
        # fmt: off
        _FIXED.pack_into(
            self.memory, 0, base + _ENVIRONMENT_AT, base + _STATE_AT, base + stacks, STACK_BYTES, base + local, threads
        )
        # fmt: on
        # Kernels know the extents of their buffers by the sizes of dims.
        struct.pack_into("<256Q", self.memory, _LENGTHS_AT, *[(1 << 63) - 1] * 256)
        self.status = memoryview(self.memory)[_STATUS_AT : _STATUS_AT + 4].cast("i")
        self.count = memoryview(self.memory)[_COUNT_AT : _COUNT_AT + 8].cast("Q")
        """Threads that take workgroups; those of a larger number return."""
        entry, address = _entry(), ctypes.c_void_p.from_param(base)
        self.run_alone = partial(entry.body, address)
        """Run workgroups on the caller's thread."""
        self.run_shared = partial(entry.region, ctypes.c_void_p.from_param(entry.address), address)
        """Run them in a region of so many threads, with 0 behind the number."""


_free: list[Workspace] = []
"""Those that nobody uses; calls of several Python threads use several."""
_state = {"threads": False, "forked": False}


class Workgroups:
    """Runs one function on the threads of the caller's OpenMP runtime."""

    def __init__(self, name: str, code: LoadedCode, constants: int, buffers: int) -> None:
        """``name``: what errors call the function."""
        self._name, self._code = name, code
        self._constants, self._buffers = constants, buffers
        self._call = struct.Struct(f"{_CALL}{buffers}Q{constants}i")
        self._launches = KeptPlans(lambda plan: self.bind(plan, (), buffers))
        self._constants_at = _BUFFERS_AT + 8 * buffers
        if _CALL_AT + self._call.size > _LENGTHS_AT:
            raise ArtifactError(f"{name}: no kernel for a CPU takes {constants} constants and {buffers} buffers.")

    def run(self, plan: LaunchPlan, addresses: tuple[int, ...]) -> None:
        """Run all workgroups; returns when all are done.

        Args:
            addresses: of the buffers that the kernel takes.

        Raises:
            ArgumentError: for more workgroups than their numbers have bits for.
            MemoryError: where there is no room for the threads' stacks.
            RuntimeError: where a workgroup says that it failed.
        """
        if status := self._launches.of(plan)(*addresses):
            raise RuntimeError(f"{self._name}: a workgroup ended with status {status}.")

    def bind(self, plan: LaunchPlan, addresses: tuple[int, ...], made: int = 0) -> Callable[..., int]:
        """`run` with these arguments, for as many times as it is wanted: what threads are told is packed once for the
        workspace that calls of one thread have all the time.

        Args:
            addresses: of the buffers; the kernel has `made` more behind them, which are other ones at each launch.

        Returns:
            The launch, which takes the addresses of the other ones, and returns the status of a workgroup that failed,
            or 0.
        """
        most, local_bytes = _most_threads(plan), self._code.local_bytes
        if (
            most == 1
            and plan.work < _SHORT_WORK
            and local_bytes <= _LOCAL_BYTES
            and (alone := launches_alone()) is not None
        ):
            return self._bind_short(alone, plan, addresses, made)
        made_at = _BUFFERS_AT - _CALL_AT + 8 * len(addresses)
        call = slice(_CALL_AT, _CALL_AT + self._call.size)
        pack_made = struct.Struct(f"<{made}Q").pack if made else None
        last = (0, 0, b"", b"")

        def launch(*places: int) -> int:
            nonlocal last
            # Threads that a region has no place for end, and the next operator of torch would make them anew.
            region = 1 if most == 1 or _state["forked"] else torch.get_num_threads()
            threads = min(region, most)
            try:
                space = _free.pop()
            except IndexError:
                space = Workspace(threads, max(local_bytes, _LOCAL_BYTES))
            if space.threads < threads or space.local_bytes < local_bytes:
                space = Workspace(max(threads, space.threads), max(local_bytes, space.local_bytes))
            try:
                base, count, said, rest = last  # as one, since other threads may bind it anew
                if base != space.address or count != threads:
                    base = space.address
                    said = self._said(base, threads, plan, (*addresses, *(0,) * made))
                    said, rest = (said[:made_at], said[made_at + 8 * made :]) if made else (said, b"")
                    last = base, threads, said, rest
                space.memory[call] = said if pack_made is None else said + pack_made(*places) + rest
                if threads == 1:
                    space.run_alone()
                else:
                    space.count[0] = threads
                    space.run_shared(region, 0)
                return space.status[0]
            finally:
                _free.append(space)

        return launch

    def _bind_short(self, alone: _Alone, plan: LaunchPlan, addresses: tuple[int, ...], made: int) -> Callable[..., int]:
        """The launch by a function of Python that holds its lock, as those of its own do that take as long."""
        said = self._said(alone.space.address, 1, plan, (*addresses, *(0,) * made))
        said += bytes(-len(said) % 8)
        first_made = (_BUFFERS_AT + 8 * len(addresses)) // 8
        return alone.run(struct.pack("<2Q", len(said) // 8, first_made) + said, self)

    def _said(self, base: int, threads: int, plan: LaunchPlan, addresses: tuple[int, ...]) -> bytes:
        """What the workspace at ``base`` has at `_CALL_AT` when its threads begin."""
        entry, (x, y, z) = _entry(), plan.grid
        # fmt: off
        try:
            return self._call.pack(
                entry.zero if threads == 1 else entry.number, 0, 0, plan.workgroups,
                self._code.function, self._code.local_bytes, x, y, 1, 1, 1, self._constants, x, y, z, min(threads, 255),
                self._buffers, base + self._constants_at, base + _BUFFERS_AT, base + _LENGTHS_AT, *addresses,
                *plan.constants,
            )
        except struct.error:
            raise self._beyond(plan) from None
        # fmt: on

    def _beyond(self, plan: LaunchPlan) -> Exception:
        for axis, count, most in zip("xyz", plan.grid, _MOST, strict=True):
            if count > most:
                sizes = ", ".join(f"{name} = {size}" for name, size in plan.sizes.items())
                return ArgumentError(f"{self._name}: {sizes} needs {count} workgroups along {axis}, a CPU has {most}.")
        return RuntimeError(f"{self._name}: takes other buffers or constants than the call has.")


def _most_threads(plan: LaunchPlan) -> int:
    """How many threads have enough work of a launch, however many there are."""
    return max(1, min(plan.workgroups, plan.work // _OWN_WORK))


@functools.cache
def _openmp() -> Any:
    """The OpenMP runtime that torch's operators run on; None where it has none that is called like GNU's."""
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    for name in (None, os.fspath(library)):  # as the linker looks for torch: a runtime that was preloaded comes first
        try:
            found = ctypes.CDLL(name)
            if found.GOMP_parallel and found.omp_get_thread_num:
                return found
        except (OSError, AttributeError):
            pass
    return None


def are_shared_out() -> bool:
    """Whether workgroups can be run by this module here: Linux, a processor that has a body, a torch with OpenMP."""
    return sys.platform == "linux" and architecture() in BODIES and _openmp() is not None


class _Entry:
    """What machine code is called by: the body itself, and the parallel region whose body it is."""

    def __init__(self, openmp: Any) -> None:
        self.memory, self.address = new_memory(mmap.PAGESIZE)
        body, zero = BODIES[architecture()]
        self.memory[: len(body + zero)] = body + zero
        self.zero = self.address + len(body)
        protect(self.address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC)
        keep(self.memory)  # Threads that ask first at once have an entry each, of which one is remembered.
        # Both get parameters that ctypes made before.
        self.body = ctypes.CFUNCTYPE(None)(self.address)
        self.region: Any = openmp.GOMP_parallel
        self.region.restype = None
        self.number = ctypes.cast(openmp.omp_get_thread_num, ctypes.c_void_p).value


_entry = functools.cache(lambda: _Entry(_openmp()))


class _Alone(NamedTuple):
    """What short launches run in, one at a time."""

    space: Workspace
    run: MachineFunction


@functools.cache
def launches_alone() -> _Alone | None:
    """None where no function of Python can be made of machine code, and where there is no room for one more stack."""
    if not can_run():
        return None
    try:
        space = Workspace(1, _LOCAL_BYTES)
        run = machine_function("run", body=address_of(_entry().body), space=space.address)
    except (OSError, MemoryError):
        return None
    keep(space.memory)  # by its address alone the function knows it
    return _Alone(space, run)


def _before_fork() -> None:
    # Threads of the runtime do not survive a fork, and a region would wait for them.
    try:
        _state["threads"] = _state["forked"] or len(os.listdir("/proc/self/task")) > 1
    except OSError:  # no /proc, or no file left to open
        _state["threads"] = True


def _after_fork() -> None:
    _state["forked"] = _state["threads"]


if hasattr(os, "register_at_fork") and sys.platform == "linux":
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)

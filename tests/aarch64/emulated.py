"""A kernel for aarch64 and torch tensors go in; what its machine code, run by qemu, leaves in them comes out.

`make_root.sh` makes what this needs: a Python for aarch64, in `build/aarch64` or wherever `WAVESPEC_AARCH64` says.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch
from torch import Tensor

from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.caller import Launcher, launch_nothing
from wavespec.runtime.launch_plan import LaunchPlan
from wavespec.runtime.steps_launcher import StepsLauncher

_REPOSITORY = Path(__file__).parents[2]
ROOT = Path(os.environ.get("WAVESPEC_AARCH64", _REPOSITORY / "build/aarch64"))
_EMULATOR = "qemu-aarch64"
_ALIGNMENT = 16
_MARGIN = 4096
"""Bytes around every buffer that nothing may change."""
_FILL = 0xA5

needs_emulator = pytest.mark.skipif(
    shutil.which(_EMULATOR) is None or not (ROOT / "usr/bin/python3").exists(),
    reason="needs qemu-user and a Python for aarch64: tests/aarch64/make_root.sh",
)


def emulated_launcher(artifact: KernelArtifact, device: torch.device) -> Launcher:
    """The launcher of one variant of a kernel; in place of `runtime.kernel.make_launcher`."""
    if artifact.steps:
        return StepsLauncher(artifact, [emulated_launcher(step, device) for step in artifact.steps], device)
    return EmulatedLauncher(artifact, device)


class EmulatedLauncher:
    """Launches one kernel in the emulator."""

    def __init__(self, artifact: KernelArtifact, device: torch.device) -> None:
        assert device.type == "cpu"
        (binary,) = artifact.binaries
        self._artifact = artifact
        self._code = _folder() / f"{binary.sha256}.vmfb"
        self._code.write_bytes(binary.data)

    def bind(self, addresses: Sequence[int], plan: LaunchPlan) -> Callable[[], object]:
        """Nothing: every call comes to `launch`."""
        return launch_nothing

    def launch(self, tensors: Sequence[Tensor], addresses: Sequence[int], plan: LaunchPlan) -> None:
        """Run on inputs, then outputs; raises `AssertionError` where memory around them is changed."""
        starts = plan.starts or (0,) * len(tensors)
        sizes = [size + start for size, start in zip(plan.tensor_bytes(self._artifact.tensors), starts, strict=True)]
        firsts = [address - start for address, start in zip(addresses, starts, strict=True)]
        places, end = _places([*sizes, *plan.scratch_bytes])
        held = bytearray([_FILL]) * end
        for place, size, first in zip(places, sizes, firsts, strict=False):
            held[place : place + size] = ctypes.string_at(first, size)
        memory = _folder() / "memory"
        memory.write_bytes(held)
        count = len(plan.constants)
        _ask(
            code=str(self._code),
            memory=str(memory),
            places=places,
            constants=plan.constants,
            grid=plan.grid,
            count=count,
        )
        after = memory.read_bytes()
        for place, size, first in zip(places, sizes, firsts, strict=False):
            ctypes.memmove(first, after[place : place + size], size)
        _check_margins(after, places, [*sizes, *plan.scratch_bytes])


def _places(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where buffers lie in a file, with room around each, and how long that is."""
    places, end = list[int](), _MARGIN
    for size in sizes:
        places.append(end)
        end = -(-(end + size) // _ALIGNMENT) * _ALIGNMENT + _MARGIN
    return places, end


def _check_margins(after: bytes, places: Sequence[int], sizes: Sequence[int]) -> None:
    begin = 0
    for number, (place, size) in enumerate(zip(places, sizes, strict=True)):
        assert after[begin:place].count(_FILL) == place - begin, f"memory in front of buffer {number} was changed"
        begin = place + size
    assert after[begin:].count(_FILL) == len(after) - begin, "memory behind the last buffer was changed"


def _ask(**launch: Any) -> None:
    """Have the emulated Python run a launch; `RuntimeError` says what it says, or that it died."""
    process = _process()
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(launch) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        _process.cache_clear()
        raise RuntimeError(f"the emulator ended with status {process.wait()}")
    if problem := json.loads(answer):
        raise RuntimeError(problem)


@cache
def _process() -> subprocess.Popen[str]:
    runner = Path(__file__).with_name("runner.py")
    command = [_EMULATOR, "-cpu", "max", "-L", ROOT, ROOT / "usr/bin/python3", "-S", runner]
    environment = {"PYTHONPATH": str(_REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1", "OMP_WAIT_POLICY": "passive"}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
    atexit.register(process.kill)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline()) == ["aarch64", True]
    return process


@cache
def _folder() -> Path:
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder

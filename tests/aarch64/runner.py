"""Launches of kernels go in on stdin, a JSON line each; they are run here, by the emulated Python of an aarch64 machine.

What runs them is wavespec's own: `load_code` maps the code, `Workgroups` has threads of OpenMP take workgroups.  They
ask torch for its library and the number of threads alone, so that a stand-in does, which this Python can have.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import platform
import sys
from typing import Any
from unittest import mock

THREADS = 3


def stand_in_for_torch() -> None:
    """What modules of `wavespec.runtime` find when they import torch."""
    torch = mock.MagicMock(__file__=os.devnull)
    torch.get_num_threads.return_value = THREADS
    sys.modules |= {"torch": torch, "torch.autograd": torch.autograd}
    ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL)  # as torch has it


def main() -> None:
    """Run launches until stdin ends; answers are JSON lines, too."""
    stand_in_for_torch()
    from wavespec.runtime.code import ArtifactError
    from wavespec.runtime.workgroups import are_shared_out

    print(json.dumps([platform.machine(), are_shared_out()]), flush=True)
    for line in sys.stdin:
        try:
            run(**json.loads(line))
            print(json.dumps(""), flush=True)
        except (ArtifactError, RuntimeError) as error:
            print(json.dumps(f"{type(error).__name__}: {error}"), flush=True)


def run(code: str, memory: str, places: list[int], constants: list[int], grid: list[int], count: int) -> None:
    """Run one kernel.

    Args:
        code: path of a vmfb.
        memory: path of a file with all buffers, which is changed in place.
        places: where each buffer begins in it.
        count: constants that the kernel takes.
    """
    from wavespec.runtime.launch_plan import LaunchPlan
    from wavespec.runtime.loaded_code import load_code
    from wavespec.runtime.workgroups import Workgroups

    with open(code, "rb") as file:
        loaded = load_code(file.read(), "kernel", count, len(places))
    with open(memory, "r+b") as file:
        shared = mmap.mmap(file.fileno(), 0)
    first: Any = ctypes.c_char.from_buffer(shared)
    start = ctypes.addressof(first)
    x, y, z = grid
    work = 1 << 20 if x * y * z > 1 else 1  # one workgroup is run by a function of `direct_code.py`
    plan = LaunchPlan({}, tuple(constants), (), (x, y, z), x * y * z, work, ())
    Workgroups("kernel", loaded, count, len(places)).run(plan, tuple(start + place for place in places))
    del first
    shared.close()


if __name__ == "__main__":
    main()

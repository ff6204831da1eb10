"""A vmfb and torch tensors go in; the kernel runs on torch's threads, reading and writing the tensors' own memory.

IREE compiles kernels for CPUs, and lays down what their machine code takes; its runtime is not needed to call that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import sub
from typing import Final

import torch
from torch import Tensor

from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.caller import launch_nothing
from wavespec.runtime.code import Binary
from wavespec.runtime.launch_plan import LaunchPlan
from wavespec.runtime.loaded_code import load_code
from wavespec.runtime.workgroups import Workgroups

_ALIGNMENT_BYTES: Final = 16
"""Of every tensor: kernels are compiled with that."""


class CpuLauncher:
    """Launches one kernel; calls return when the results are in memory."""

    def __init__(self, artifact: KernelArtifact, binary: Binary) -> None:
        buffers = len(artifact.tensors) + len(artifact.scratch_bytes)
        code = load_code(binary.data, f"{artifact.name}: '{binary.label}'", artifact.constant_count, buffers)
        self._is_written = tuple(tensor.written for tensor in artifact.tensors)
        self._workgroups = Workgroups(artifact.name, code, artifact.constant_count, buffers)

    def launch(self, tensors: Sequence[Tensor], addresses: Sequence[int], plan: LaunchPlan) -> None:
        """Run on inputs, then outputs, of the sizes and strides of `plan`, their memory at `addresses`."""
        places = _places(addresses, plan)
        if plan.scratch_bytes or not _are_aligned(places):
            self._launch_with_copies(tensors, places, plan)
        else:
            self._workgroups.run(plan, places)

    def bind(self, addresses: Sequence[int], plan: LaunchPlan) -> Callable[..., object]:
        """The launch on memory at these addresses; one that needs memory of its own is left to `launch`.

        What torch made starts at a multiple of 64 bytes (`c10/core/alignment.h`).
        """
        places = _places(addresses, plan)
        made = len(self._is_written) - len(places)
        if plan.scratch_bytes or not _are_aligned(places) or any(plan.starts[len(places) :]):
            return launch_nothing
        return self._workgroups.bind(plan, places, made)

    @torch.inference_mode()  # what autograd thinks of tensors is for callers to ask, before the kernel runs
    def _launch_with_copies(self, tensors: Sequence[Tensor], places: tuple[int, ...], plan: LaunchPlan) -> None:
        """The launch with copies of the tensors that start between two places where a kernel's tensor may."""
        copies = {number: tensors[number].clone() for number, place in enumerate(places) if place % _ALIGNMENT_BYTES}
        scratch = [torch.empty(size, dtype=torch.uint8) for size in plan.scratch_bytes]
        taken = list(places)
        for number, copy in copies.items():
            taken[number] = copy.data_ptr()
        self._workgroups.run(plan, (*taken, *(one.data_ptr() for one in scratch)))
        for number, copy in copies.items():
            if self._is_written[number]:
                tensors[number].copy_(copy)


def _places(addresses: Sequence[int], plan: LaunchPlan) -> tuple[int, ...]:
    """The addresses that the kernel gets: of strided tensors, rounded down."""
    return tuple(map(sub, addresses, plan.starts)) if plan.starts else tuple(addresses)


def _are_aligned(places: tuple[int, ...]) -> bool:
    return not any([place % _ALIGNMENT_BYTES for place in places])  # a generator takes twice as long

"""Launchers of the steps of a kernel go in; one that runs them one after another, with memory between, comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

import torch
from torch import Tensor

from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.caller import Launcher, launch_nothing
from wavespec.runtime.launch_plan import LaunchPlan
from wavespec.runtime.tensor_strides import DTYPES

_MOST_KEPT: Final = 256 << 20
"""Bytes of memory between steps on a CPU that stay for the next call; new memory takes ten times as long to write."""
_APART: Final = 64
"""Tensors begin at multiples of so many bytes."""

_spare: Final[list[Tensor]] = []
"""Memory that no call uses: a block of bytes, or nothing."""


class StepsLauncher:
    """Queues one step behind the other; what they hand on is memory of torch, which has it again when the call ends:
    a stream, and a graph that is captured, take it for others behind these launches alone.

    On a CPU, where torch would hand it back to the system, one block stays for the next call of any such kernel.
    """

    def __init__(self, artifact: KernelArtifact, launchers: Sequence[Launcher], device: torch.device) -> None:
        self._names = tuple(tensor.name for tensor in artifact.tensors)
        self._steps = tuple(zip(artifact.steps, launchers, strict=True))
        self._device = device

    def launch(self, tensors: Sequence[Tensor], addresses: Sequence[int], plan: LaunchPlan) -> None:
        """Run all steps on ``tensors`` (inputs, then outputs)."""
        del addresses
        known = dict(zip(self._names, tensors, strict=True))
        block = self._add_between(known, plan)
        for (step, launcher), own in zip(self._steps, plan.steps, strict=True):
            taken = [known[parameter.name] for parameter in step.tensors]
            if own.workgroups:
                launcher.launch(taken, [tensor.data_ptr() for tensor in taken], own)
        if block is not None and len(block) <= _MOST_KEPT and not _spare:
            _spare.append(block)

    def _add_between(self, known: dict[str, Tensor], plan: LaunchPlan) -> Tensor | None:
        """Memory for what steps hand on; on a CPU all of it is in one block, which is the result."""
        shapes = {
            parameter.name: (DTYPES[parameter.dtype], shape)
            for (step, _), own in zip(self._steps, plan.steps, strict=True)
            for parameter, shape in zip(step.tensors, own.shapes, strict=True)
            if parameter.name not in known
        }
        if self._device.type != "cpu":
            known |= {
                name: torch.empty(shape, dtype=dtype, device=self._device) for name, (dtype, shape) in shapes.items()
            }
            return None
        sizes = [dtype.itemsize * prod(shape) for dtype, shape in shapes.values()]
        starts = [0]
        for size in sizes:
            starts.append(-(-(starts[-1] + size) // _APART) * _APART)
        block = _block(starts[-1])
        for (name, (dtype, shape)), start, size in zip(shapes.items(), starts, sizes, strict=False):
            known[name] = block[start : start + size].view(dtype).view(shape)
        return block

    def bind(self, addresses: Sequence[int], plan: LaunchPlan) -> Callable[[], object]:
        """Nothing to keep: memory between the steps is another one in every call."""
        del addresses, plan
        return launch_nothing


def _block(size: int) -> Tensor:
    """That of an earlier call where it is large enough; calls of several Python threads use several."""
    try:
        block = _spare.pop()
    except IndexError:
        block = None
    if block is not None and len(block) >= size:
        return block
    return torch.empty(size, dtype=torch.uint8, device="cpu")

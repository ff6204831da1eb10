"""Launchers of the steps of a kernel go in; one that runs them one after another, with memory between, comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import itemgetter
from typing import Any, Final

import torch
from torch import Tensor

from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.caller import Launcher, launch_nothing
from wavespec.runtime.kept_plans import KeptPlans
from wavespec.runtime.launch_plan import LaunchPlan
from wavespec.runtime.tensor_strides import DTYPES

_MOST_KEPT: Final = 256 << 20
"""Bytes of memory between steps on a CPU that stay for the next call; new memory takes ten times as long to write."""
_APART: Final = 64
"""Tensors begin at multiples of so many bytes."""


@dataclass(frozen=True, slots=True)
class _Between:
    """What steps of one plan hand on, and where each of them finds its tensors: among those of the call, then these."""

    shapes: Mapping[str, tuple[torch.dtype, tuple[int, ...]]]
    starts: tuple[int, ...]
    """Bytes in front of each in a block that has all of them, and of the block."""
    steps: tuple[tuple[Launcher, Callable[[Sequence[Any]], tuple[Any, ...]], LaunchPlan], ...]

    def in_memory(self, memory: Tensor) -> _Block:
        tensors = tuple(
            memory[start : start + dtype.itemsize * prod(shape)].view(dtype).view(shape)
            for (dtype, shape), start in zip(self.shapes.values(), self.starts, strict=False)
        )
        return _Block(self, memory, tensors, tuple(tensor.data_ptr() for tensor in tensors))


@dataclass(frozen=True, slots=True)
class _Block:
    """Memory of a CPU with what the steps of a plan hand on."""

    between: _Between
    memory: Tensor
    tensors: tuple[Tensor, ...]
    addresses: tuple[int, ...]


_spare: Final[list[_Block]] = []
"""Memory that no call uses: one block, or nothing."""


class StepsLauncher:
    """Queues one step behind the other; what they hand on is memory of torch, which has it again when the call ends:
    a stream, and a graph that is captured, take it for others behind these launches alone.

    On a CPU, where torch would hand it back to the system, one block stays for the next call of any such kernel.
    """

    def __init__(self, artifact: KernelArtifact, launchers: Sequence[Launcher], device: torch.device) -> None:
        self._names = tuple(tensor.name for tensor in artifact.tensors)
        self._steps = tuple(zip(artifact.steps, launchers, strict=True))
        self._device = device
        self._known = KeptPlans(self._between)

    def launch(self, tensors: Sequence[Tensor], addresses: Sequence[int], plan: LaunchPlan) -> None:
        """Run all steps on ``tensors`` (inputs, then outputs)."""
        between = self._known.of(plan)
        if self._device.type != "cpu":
            made = [torch.empty(shape, dtype=dtype, device=self._device) for dtype, shape in between.shapes.values()]
            _run(between, (*tensors, *made), (*addresses, *(one.data_ptr() for one in made)))
            return
        block = _block(between)
        _run(between, (*tensors, *block.tensors), (*addresses, *block.addresses))
        if between.starts[-1] <= _MOST_KEPT and not _spare:
            _spare.append(block)

    def _between(self, plan: LaunchPlan) -> _Between:
        shapes = {
            parameter.name: (DTYPES[parameter.dtype], tuple(shape))
            for (step, _), own in zip(self._steps, plan.steps, strict=True)
            for parameter, shape in zip(step.tensors, own.shapes, strict=True)
            if parameter.name not in self._names
        }
        starts = [0]
        for dtype, shape in shapes.values():
            starts.append(-(-(starts[-1] + dtype.itemsize * prod(shape)) // _APART) * _APART)
        number = {name: at for at, name in enumerate((*self._names, *shapes))}
        steps = tuple(
            (launcher, _taking([number[parameter.name] for parameter in step.tensors]), own)
            for (step, launcher), own in zip(self._steps, plan.steps, strict=True)
            if own.workgroups
        )
        return _Between(shapes, tuple(starts), steps)

    def bind(self, addresses: Sequence[int], plan: LaunchPlan) -> Callable[[], object]:
        """Nothing to keep: memory between the steps is another one in every call."""
        del addresses, plan
        return launch_nothing


def _taking(places: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """What takes the elements at ``places`` of a sequence."""
    return itemgetter(*places) if len(places) > 1 else lambda every: tuple(every[at] for at in places)


def _run(between: _Between, tensors: Sequence[Tensor], addresses: Sequence[int]) -> None:
    for launcher, taken, own in between.steps:
        launcher.launch(taken(tensors), taken(addresses), own)


def _block(between: _Between) -> _Block:
    """That of an earlier call where it is large enough; calls of several Python threads use several."""
    size = between.starts[-1]
    try:
        block = _spare.pop()
    except IndexError:
        block = None
    if block is not None and (block.between is between or block.between.shapes == between.shapes):
        return block
    is_enough = block is not None and size <= block.memory.numel()
    memory = block.memory if block is not None and is_enough else torch.empty(size, dtype=torch.uint8, device="cpu")
    return between.in_memory(memory)

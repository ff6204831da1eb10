"""Launchers of the steps of a kernel go in; one that runs them one after another, with memory between, comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.caller import Launcher, launch_nothing
from wavespec.runtime.launch_plan import LaunchPlan
from wavespec.runtime.tensor_strides import DTYPES


class StepsLauncher:
    """Queues one step behind the other; what they hand on is memory of torch, which has it again when the call ends:
    a stream, and a graph that is captured, take it for others behind these launches alone."""

    def __init__(self, artifact: KernelArtifact, launchers: Sequence[Launcher], device: torch.device) -> None:
        self._names = tuple(tensor.name for tensor in artifact.tensors)
        self._steps = tuple(zip(artifact.steps, launchers, strict=True))
        self._device = device

    def launch(self, tensors: Sequence[Tensor], addresses: Sequence[int], plan: LaunchPlan) -> None:
        """Run all steps on ``tensors`` (inputs, then outputs)."""
        del addresses
        known = dict(zip(self._names, tensors, strict=True))
        for (step, launcher), own in zip(self._steps, plan.steps, strict=True):
            for parameter, shape in zip(step.tensors, own.shapes, strict=True):
                if parameter.name not in known:
                    dtype = DTYPES[parameter.dtype]
                    known[parameter.name] = torch.empty(shape, dtype=dtype, device=self._device)
            taken = [known[parameter.name] for parameter in step.tensors]
            if own.workgroups:
                launcher.launch(taken, [tensor.data_ptr() for tensor in taken], own)

    def bind(self, addresses: Sequence[int], plan: LaunchPlan) -> Callable[[], object]:
        """Nothing to keep: memory between the steps is another one in every call."""
        del addresses, plan
        return launch_nothing

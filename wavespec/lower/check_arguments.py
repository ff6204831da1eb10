"""A kernel and a machine go in; the error that a launch on it cannot pass so many tensors comes out."""

from __future__ import annotations

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.kernel import Kernel
from wavespec.targets.machine import Machine


class TooManyTensors(WavespecError, code="too-many-tensors"):
    def __init__(self, where: Where, count: int, machine: Machine) -> None:
        super().__init__(
            where,
            f"The kernel has {count} tensors; a launch on {machine.target} takes at most {machine.most_tensors}.",
            hints=["Join tensors of one shape along a new dim, or compute in two kernels."],
        )


def check_arguments(kernel: Kernel, machine: Machine) -> None:
    """
    Raises:
        TooManyTensors: at the first one too many.
    """
    tensors = [memory for memory in kernel.memories if memory.space == "global"]
    if machine.most_tensors and len(tensors) > machine.most_tensors:
        beyond = tensors[machine.most_tensors]
        raise TooManyTensors(beyond.span or beyond.name, len(tensors), machine)

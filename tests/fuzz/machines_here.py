"""A machine goes in; whether a GPU of that kind is here to run kernels comes out."""

from __future__ import annotations

import torch

from wavespec.targets.machine import Machine


def is_here(machine: Machine) -> bool:
    """Whether a GPU of this machine's kind can be asked: one of NVIDIA, by what it can compute."""
    if machine.backend != "cuda" or not torch.cuda.is_available():
        return False
    major, minor = torch.cuda.get_device_capability()
    return machine.target == f"sm_{major}{minor}"

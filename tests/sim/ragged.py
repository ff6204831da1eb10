"""Attention of sequences of different lengths on two processors, simulated."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from tests.kernels import subjects
from tests.lower.gemms import NVIDIA
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.sim.findings import SimulationReport
from wavespec.sim.interleaving import Order
from wavespec.sim.simt import simulate

FEW = replace(NVIDIA, processors=2)
STARTS = np.array([0, 200, 200, 230, 260, 290], np.int32)
"""Of the first rows of sequences."""


@cache
def ragged(case: int) -> Kernel:
    (subject,) = (subject for subject in subjects("sm_90") if subject.name == "attention_ragged_full")
    return lower(subject.cases("sm_90")[case].spec, FEW)


def run_ragged(
    kernel: Kernel, order: Order = "forward", *, elements: int, key_starts: NDArray[np.int32] = STARTS
) -> SimulationReport:
    """Of heads of so many elements, and keys of sequences that start there."""
    rows, keys = int(STARTS[-1]), int(key_starts[-1])
    sizes = {"T": rows, "S": keys, "H": 2, "G": 1, "D": elements, "E": elements, "L": len(STARTS), "B": len(STARTS) - 1}
    sizes |= {"M": rows, "N": keys}
    made, inputs = np.random.default_rng(0), [memory for memory in kernel.memories if memory.role == "input"]
    tensors = {memory.name: made.normal(size=[sizes[dim] for dim in memory.dims]).astype(bfloat16) for memory in inputs}
    tensors |= {"q_starts": STARTS, "k_starts": key_starts}
    return simulate(kernel, FEW, tensors, sizes, order=order, scalars={"scale": 0.25})

"""A product in; by how many waves its sums are shared out."""

from __future__ import annotations

from wavespec.ir.kernel import Kernel, Op
from wavespec.targets.machine import Machine


def waves_of_sum(kernel: Kernel, op: Op, machine: Machine) -> int:
    """How many waves have each a part of the elements that a product sums over: those that split this dim.

    Of waves that run one after another, and of a matrix unit that reads shared memory itself, each has all of them.
    """
    row = machine.instruction(op["instruction"])
    shares = machine.concurrent_waves and row is not None and not row.reads_shared
    return kernel.waves_along(op["k"]) if shares else 1

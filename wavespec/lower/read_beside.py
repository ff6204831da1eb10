"""A tile kernel goes in; which staged tiles its lanes read beside the products of a step comes out."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.tile_ops import ITERATE, MMA, READ
from wavespec.lower.choose_instructions import instruction_of
from wavespec.targets.machine import Machine


def read_beside(kernel: Kernel, machine: Machine) -> frozenset[str]:
    """Values beside waves that only copy that lanes read in a step of products of the matrix unit, and that are no
    factor of one, nor is what follows from them alone: what is added to sums, such as the biases of scores, or chooses
    among them.  No product reads their tensors."""
    products = [op for op in kernel.walk() if op.is_(MMA)]
    if not kernel.producers or not all(instruction_of(op, machine).reads_shared for op in products):
        return frozenset()
    factors = {value.name for op in products for value in op.operands[:2]}
    reads = [op for op in kernel.walk() if op.is_(READ) and kernel.memory(op["memory"]).staged]
    multiplied = {op["memory"] for op in reads if op.result.name in factors}
    steps = [op.body.ops for op in kernel.walk() if op.is_(ITERATE) and any(inner.is_(MMA) for inner in op.body.ops)]
    return frozenset(
        op.result.name
        for ops in steps
        for op in ops
        if op.is_(READ) and kernel.memory(op["memory"]).staged and op["memory"] not in multiplied
        if factors.isdisjoint(_made_alone(ops, op))
    )


def _made_alone(ops: Sequence[Op], read: Op) -> set[str]:
    """What follows from a read without sums of the step."""
    made, sums = {read.result.name}, set[str]()
    for op in ops:
        names, results = {value.name for value in op.operands}, {value.name for value in op.results}
        if op.is_(MMA) or not names.isdisjoint(sums):
            sums |= results
        elif not names.isdisjoint(made):
            made |= results
    return made

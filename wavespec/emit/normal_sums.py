"""A kernel goes in; the values that are results of products whose instruction rounds numbers below the smallest normal
one to zero come out, each with the instruction that rounds them to bf16."""

from __future__ import annotations

from collections.abc import Iterable

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import CONSTANT, DOT, FOR, MMA, PACK, SLICE
from wavespec.targets.machine import Machine


def normal_sums(kernel: Kernel, machine: Machine) -> dict[str, str]:
    """The instruction by the name of a value, none of whose elements is below the smallest normal number and not zero."""
    found = dict[str, str]()
    _look(kernel.body, machine, found)
    return {name: rounding for name, rounding in found.items() if rounding}


def _look(ops: Iterable[Op], machine: Machine, found: dict[str, str]) -> None:
    """Zeros are found as well, without an instruction."""
    for op in ops:
        if op.is_(CONSTANT) and op["value"] == 0:
            found[op.result.name] = ""
        elif op.is_(MMA, DOT):
            row = machine.instruction(op["instruction"].partition(":")[0])
            if row is not None and row.rounded:
                found[op.result.name] = row.rounded
        elif op.is_(SLICE, PACK):
            known = {found.get(value.name) for value in op.operands}
            if None not in known:
                found[op.result.name] = max(rounding or "" for rounding in known)
        elif op.is_(FOR):
            _look(op.body.ops, machine, found)
            for before, after, result in zip(op.operands, op.body.yields, op.results, strict=True):
                if before.name in found and after.name in found:
                    found[result.name] = found[after.name]
        elif op.region is not None:
            _look(op.region.ops, machine, found)

"""Tile kernel in, tile kernel out: what was read or computed is there, and is not read or computed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from wavespec.ir.comparing import key_of_attributes
from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.nodes import replace
from wavespec.ir.tile_ops import PAD, PURE, READ, WRITE
from wavespec.lower.base import Pass
from wavespec.lower.tile_properties import nothing_is_computed_twice, reads_are_for_one_use, tiles_have_layouts
from wavespec.targets.machine import Machine

_Key = tuple[Any, ...]


class ShareResults(Pass):
    """Keep the first of operations that give the same, and use its result for the others.

    Before: every statement of the graph is an operation of its own.
    After:  of reads of one place of a tensor with nothing written to it between, and of elementwise operations on the
            same values, in the same layout, only the first is left, in its block and the blocks inside it.  A row that
            lies in registers is so read once, and what is computed of it for its sum is there for its result.
            Kernels with schedules that name operations stay as they are.
    """

    name: ClassVar[str] = "share-results"
    requires = (tiles_have_layouts,)
    ensures = (nothing_is_computed_twice,)
    drops = (reads_are_for_one_use,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if kernel.distribution.schedules:
            return kernel
        tensors = {memory.name for memory in kernel.memories if memory.space == "global"}
        return replace(kernel, body=_block(kernel.body, {}, {}, {}, tensors)[0])


def _block(
    ops: Sequence[Op],
    names: Mapping[str, Value],
    known: Mapping[_Key, Value],
    writes: dict[str, int],
    tensors: set[str],
) -> tuple[tuple[Op, ...], dict[str, Value]]:
    """The operations that are left, and what stands for the results of the others.

    ``writes``: how often each memory was written to so far.  What copies fill is read where the graph says so.
    """
    names, known = dict(names), dict(known)
    result: list[Op] = []
    for op in ops:
        op = replace(op, operands=tuple(names.get(value.name, value) for value in op.operands))
        for inner in op.walk():
            if inner.is_(WRITE):
                writes[inner["memory"]] = writes.get(inner["memory"], 0) + 1
        if op.region:
            inside, replaced = _block(op.region.ops, names, known, writes, tensors)
            yields = tuple(replaced.get(value.name, value) for value in op.region.yields)
            op = replace(op, region=replace(op.region, ops=inside, yields=yields))
        elif op.is_(PURE, PAD) or (op.is_(READ) and op["memory"] in tensors and not op.get("by_unit")):
            key = _key(op, writes)
            if key in known:
                names[op.result.name] = known[key]
                continue
            known[key] = op.result
        result.append(op)
    return tuple(result), names


def _key(op: Op, writes: Mapping[str, int]) -> _Key:
    operands = tuple(value.name for value in op.operands)
    return op.name, operands, key_of_attributes(op), op.result.type, writes.get(op.get("memory", ""), 0)

"""Tile kernel in, tile kernel out: what is read for a product is read for products alone that want it alike."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.tile_ops import MMA, READ
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.decoded_operands import laid_down_values
from wavespec.lower.tile_properties import products_have_instructions, reads_are_for_one_use
from wavespec.targets.machine import Machine

_Way = tuple[object, ...]
_OTHER: _Way = ()
_TILES = 8
"""Small is a tile of which shared memory has room for so many."""


class SeparateOperands(Pass):
    """Read again what is used in several ways.

    Before: products of different instructions, and other operations, may use the result of one read.
    After:  each way has a read of its own, one behind the other.  Products read operands as their instruction wants
            them: staged, step by step, in its layout and of its type.  ``direct`` marks the read of the others, which
            is not staged, unless waves lay down an operand that is computed from it.  It marks as well, outside of
            loops, the read of a tile that no product takes, where products take other tiles of the same staged tensor:
            as of one that is added to a product of it.  A small tile that all waves copy is staged, by wide rows.
    """

    name: ClassVar[str] = "separate-operands"
    requires = (products_have_instructions,)
    ensures = (reads_are_for_one_use,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        ways: dict[str, dict[_Way, None]] = {}
        for op in kernel.walk():
            for value, way in _uses(op, machine):
                ways.setdefault(value.name, {})[way] = None
        several = {name: sorted(every, key=_OTHER.__eq__) for name, every in ways.items() if len(every) > 1}
        kernel = _with_direct_reads(kernel, ways, machine)
        reads = [op for op in kernel.walk() if op.is_(READ) and op.result.name in several]
        if not reads:
            return kernel
        fresh, values = fresh_names(kernel), dict[tuple[str, _Way], Value]()
        staged = laid_down_values(kernel)
        for op in reads:
            first, *others = several[op.result.name]
            values[op.result.name, first] = op.result
            values |= {(op.result.name, way): replace(op.result, name=fresh(op.result.name)) for way in others}
        return replace(kernel, body=_separated(kernel.body, values, staged, machine))


def _with_direct_reads(kernel: Kernel, ways: dict[str, dict[_Way, None]], machine: Machine) -> Kernel:
    """The kernel with reads outside of loops marked that no product takes, where products take others of the tensor."""
    reads = [op for op in kernel.walk() if op.is_(READ) and kernel.memory(op["memory"]).staged]
    multiplied = {op["memory"] for op in reads if ways.get(op.result.name, {}).keys() - {_OTHER}}
    computed = laid_down_values(kernel) if multiplied else frozenset[str]()

    def is_beside(op: Op) -> bool:
        if not op.is_(READ) or op["memory"] not in multiplied or op.result.name in computed:
            return False
        if not kernel.distribution.roles.producers and _bytes_of(kernel, op.result) * _TILES <= machine.shared.bytes:
            return False
        return ways.get(op.result.name, {}).keys() == {_OTHER}

    if not any(map(is_beside, kernel.body)):
        return kernel
    return replace(kernel, body=tuple(op.with_(direct=True) if is_beside(op) else op for op in kernel.body))


def _bytes_of(kernel: Kernel, value: Value) -> float:
    """What a tile takes; of a dim without one, all of it."""
    plan = kernel.distribution
    tiles: dict[str, int | None] = {split.dim: split.tile for split in (*plan.workgroup, *plan.loops)}
    sizes = [tiles.get(dim, kernel.all_sizes[dim].high) for dim in value.tile.dims]
    return math.inf if None in sizes else value.tile.dtype.bytes * math.prod(size or 1 for size in sizes)


def _uses(op: Op, machine: Machine) -> Iterator[tuple[Value, _Way]]:
    """What an operation, and its region in the end, uses, and what has to be alike for uses to share a read."""
    fragments = {}
    if op.is_(MMA):
        row = instruction_of(op, machine)
        fragments = {0: row.a, 1: row.b}
    for number, value in enumerate(op.operands):
        part = fragments.get(number)
        yield value, (part.dtype, part.bias, part.staging, part.from_shared) if part else _OTHER
    for value in op.region.yields if op.region else ():
        yield value, _OTHER


def _separated(
    ops: tuple[Op, ...], values: dict[tuple[str, _Way], Value], staged: frozenset[str], machine: Machine
) -> tuple[Op, ...]:
    result: list[Op] = []
    for op in ops:
        used = [values.get((value.name, way), value) for value, way in _uses(op, machine)]
        region = op.region
        if region:
            inside = _separated(region.ops, values, staged, machine)
            region = replace(region, ops=inside, yields=tuple(used[len(op.operands) :]))
        op = replace(op, operands=tuple(used[: len(op.operands)]), region=region)
        made = [(way, value) for (name, way), value in values.items() if op.is_(READ) and name == op.result.name]
        for way, value in made:
            is_direct = way == _OTHER and op.result.name not in staged
            result.append(replace(op.with_(direct=True) if is_direct else op, results=(value,)))
        if not made:
            result.append(op)
    return tuple(result)

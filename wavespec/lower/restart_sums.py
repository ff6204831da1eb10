"""Tile kernel in, tile kernel out: where long sums lose bits, each step sums from zero."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Region, Value, attribute_pairs, rewrite
from wavespec.ir.tile_ops import DOT, ITERATE, MMA
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.tile_properties import products_have_three_operands
from wavespec.schedule.buffer_ring import TURN
from wavespec.schedule.use_beside_products import has_room_beside
from wavespec.targets.machine import Machine

_LONG = 2048
"""Elements of a sum up to which what is cut off is little."""
_LEAST = 64
"""Elements of a step whose sums are worth an addition."""
_LEAST_OF_VECTORS = 16
"""The same of vectors that go to memory and back in each step, as waves that take turns have them."""
_FREE_SUMS = 32
"""Of a lane, whose additions take no time that was measured beside products."""
_MOST_SUMS = 48
"""Of a lane, where memory is what a product waits for: they take 1 to 7 %, and in tiles of many rows 5 to 20 %."""
_TILES_OF_FEW = 2
"""As many have all rows, or all columns, where these are few."""


class RestartSums(Pass):
    """Add up the sums of steps in f32, where products that are added to long sums would err by more than they need to.

    Before: a loop carries sums that its products add to.
    After:  where these may be long, come out in f32, and are few, the products of a step start at zero, and an
            addition follows them.  What is cut off of a sum then grows with the length of a step, not with that of the
            row.
            So they do where an instruction should add up few elements at once (`MatrixInstruction.chain`), and there
            are more: a chain of roundings is as long as a step, or as there are steps, not their product.
    Cases:  results of 16 bits hide it.  Few are sums that cost no time, and more where few tiles have all rows or all
            columns: memory is what such a product waits for, and libraries add up parts of K.  Large tiles have no
            registers left for two sums, and are as exact as those of libraries.
    """

    name: ClassVar[str] = "restart-sums"
    requires = (products_have_three_operands,)

    def applies_to(self, machine: Machine) -> bool:
        if not machine.concurrent_waves:
            return any(row.of_lanes for row in machine.instructions)
        return any(row.truncates or row.chain for row in machine.instructions)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if all(one.dtype.bits <= 16 for one in kernel.memories if one.role in ("output", "inout")):
            return kernel
        fresh = fresh_names(kernel)

        def change(loop: Op) -> tuple[Op, ...]:
            length, step = loop["extent"].high, loop["step"]
            if loop.get("once") or not step.is_const:
                return (loop,)
            body = loop.body
            for argument, last in zip(body.arguments, body.yields, strict=True):
                chain = _chain(body, argument, last)
                if chain and _loses(chain, step.value, length, kernel, machine):
                    body = _restarted(body, argument, chain, fresh)
            return (loop if body is loop.body else replace(loop, region=body),)

        return replace(kernel, body=rewrite(kernel.body, change, ITERATE))


def _chain(body: Region, start: Value, last: Value) -> list[Op]:
    """The products that add to ``start``, one behind the other, the last of which makes ``last``; none where something
    else uses their sums."""
    found, value = list[Op](), start
    while value != last:
        uses = [op for op in body.ops if any(value in inner.operands for inner in op.walk())]
        if len(uses) != 1 or not uses[0].is_(MMA, DOT) or value not in uses[0].operands[2:]:
            return []
        found.append(uses[0])
        value = uses[0].result
    return found


def _loses(chain: list[Op], step: int, length: int | None, kernel: Kernel, machine: Machine) -> bool:
    """Whether products that are added to a long sum err by more than they need to."""
    are_vectors = any(op.is_(DOT) for op in chain)
    if machine.concurrent_waves:
        return not are_vectors and (_is_long(chain, length, machine) or _is_cut(chain, step, length, kernel, machine))
    return are_vectors and step >= _LEAST_OF_VECTORS and (length is None or length > _LONG)


def _is_long(chain: list[Op], length: int | None, machine: Machine) -> bool:
    """Whether more elements are added up than the instructions should at once."""
    most = [instruction_of(op, machine).chain for op in chain]
    return all(most) and (length is None or length > min(most))


def _is_cut(chain: list[Op], step: int, length: int | None, kernel: Kernel, machine: Machine) -> bool:
    """Whether the unit cuts off bits of sums that may be long, and that are few; waves in turn have a tile each."""
    if step < _LEAST or (length is not None and length <= _LONG):
        return False
    sharing = prod(count for name, count in kernel.waves if name != TURN) * kernel.lanes
    tile = chain[0].result.tile
    sums = prod(tile.extents) // sharing
    registers = kernel.distribution.roles.registers[1] or machine.registers_of(kernel.threads)
    sizes = [(kernel.all_sizes.get(dim), tile.extent(dim)) for dim in tile.dims]
    most = [(size.high, extent) for size, extent in sizes if size is not None]
    is_few = any(size is not None and size <= _TILES_OF_FEW * extent for size, extent in most)
    is_cheap = sums <= (_MOST_SUMS if is_few else _FREE_SUMS) and has_room_beside(sums, sums, registers)
    return is_cheap and all(instruction_of(op, machine).truncates for op in chain)


def _restarted(body: Region, start: Value, chain: list[Op], fresh: Callable[[str], str]) -> Region:
    first, last = chain[0], chain[-1]
    zero, part = (Value(fresh(start.name), start.type) for _ in range(2))
    ops: list[Op] = []
    for op in body.ops:
        if op is first:
            ops.append(Op("register", (), (zero,), attribute_pairs({"value": 0.0}), None, op.span, op.node))
            op = replace(op, operands=(*op.operands[:2], zero))
        if op.results == last.results:
            total = attribute_pairs({"function": "add"})
            ops.append(replace(op, results=(part,)))
            op = Op("elementwise", (start, part), last.results, total, None, op.span, op.node)
        ops.append(op)
    return replace(body, ops=tuple(ops))

"""Tile kernel in, tile kernel out: a reduction that goes on from step to step joins lanes and waves at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.dtype import computed
from wavespec.ir.kernel import Kernel, Op, TileType, Value, attribute_pairs, rewrite
from wavespec.ir.tile_ops import ITERATE, REDUCE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.tile_properties import parts_are_joined, tiles_are_placed, tiles_have_extents
from wavespec.ops.reduce import identity
from wavespec.targets.machine import Machine

_VECTORS, _BYTES = 16, 256
"""What partial results may take of a lane: vector registers where it has some, else bytes of registers."""


class DeferReductions(Pass):
    """Carry what each register has so far in place of what all of them have together.

    Before: a loop along a dim carries a ``reduce`` along it, or on machines whose waves take turns along another dim,
            which starts from the carried value.
    After:  where nothing else in the loop uses it, the loop carries a tile that starts as the function's identity and
            that each step is joined to element by element (``join``), small floats in f32; behind the loop one
            ``reduce`` joins the rest and what the loop started from.  Sums so have shorter chains, and fewer
            roundings.  A reduction ``by_lane`` carries one number of each lane for all that this has along the dim.
    """

    name: ClassVar[str] = "defer-reductions"
    requires = (tiles_have_extents, tiles_are_placed)
    ensures = (parts_are_joined,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh = fresh_names(kernel)

        def change(op: Op) -> tuple[Op, ...]:
            starts: list[Op] = []
            ends: list[Op] = []
            for number in range(len(op.operands)):
                made = reduction_carried(op, number)
                if made is not None and is_deferred(kernel, op, number, machine):
                    op = _deferred(op, number, made, fresh, starts, ends)
            return (*starts, op, *ends)

        return replace(kernel, body=rewrite(kernel.body, change, ITERATE))


def is_deferred(kernel: Kernel, loop: Op, number: int, machine: Machine) -> bool:
    """Whether the loop carries parts of that value, which fit the registers of all lanes, and is done with them."""
    made = reduction_carried(loop, number)
    if made is not None and made["dim"] != loop["dim"] and (machine.concurrent_waves or made["divided"]):
        return False  # lanes that each have all of the dim join it at once, and have few registers
    room = (machine.vector_bytes * _VECTORS or _BYTES) * kernel.wave_count * kernel.lanes
    return made is not None and (bool(made.get("by_lane")) or _bytes(made.operands[0]) <= room)


def reduction_carried(loop: Op, number: int) -> Op | None:
    """The reduction that makes a carried value, if it is all that the loop has to do with it."""
    argument, last = loop.body.arguments[number], loop.body.yields[number]
    made = next((op for op in loop.body.ops if last in op.results), None)
    if made is None or not made.is_(REDUCE) or made.operands[1:] != (argument,):
        return None
    used = [v for op in loop.body.ops for inner in op.walk() for v in _used(inner)]
    alone = used.count(argument) == 1 and last not in used and loop.body.yields.count(last) == 1
    return made if alone and argument not in loop.body.yields else None


def _used(op: Op) -> tuple[Value, ...]:
    return (*op.operands, *(op.region.yields if op.region else ()))


def _bytes(value: Value) -> int:
    elements = 1
    for extent in value.tile.extents:
        elements *= extent
    return elements * _partial(value.tile).dtype.bits // 8


def _partial(tile: TileType) -> TileType:
    dtype = tile.dtype
    return replace(tile, dtype=computed(dtype))


def identity_tile(made: Op, tile: TileType, fresh: Callable[[str], str]) -> Op:
    """What the elements of a reduction's operand, a tile of it, are joined to first."""
    start = Value(fresh(made.result.name), _partial(tile))
    number = attribute_pairs({"value": identity(made["function"], start.tile.dtype)})
    return Op("register", (), (start,), number, None, made.span, made.node)


def joined_parts(made: Op, argument: Value, operand: Value, fresh: Callable[[str], str]) -> tuple[Op, Op]:
    """A reduction in two parts: ``operand`` joined to the carried ``argument`` in a loop, and what joins the rest."""
    joined, parts = (Value(fresh(made.result.name), argument.type) for _ in range(2))
    kept = ("dim", "function", "origin", "size", "by_lane", "skips_nan")
    place = attribute_pairs({key: made[key] for key in kept if made.get(key) is not None})
    kept = ("dim", "divided", "function", "size", "signal", "index", "skips_nan")
    whole = attribute_pairs({key: made[key] for key in kept if made.get(key) is not None})
    join = Op("join", (argument, operand), (joined,), place, None, made.span, made.node)
    return join, Op("reduce", (parts, *made.operands[1:]), made.results, whole, None, made.span, made.node)


def _deferred(loop: Op, number: int, made: Op, fresh: Callable[[str], str], starts: list[Op], ends: list[Op]) -> Op:
    """The loop with the carried value of that number as a tile; what comes before and behind it is appended."""
    body, start = loop.body, identity_tile(made, made.operands[0].tile, fresh)
    argument = Value(fresh(made.result.name), start.result.type)
    join, end = joined_parts(made, argument, made.operands[0], fresh)
    starts.append(start)
    ends.append(replace(end, operands=(end.operands[0], loop.operands[number]), results=(loop.results[number],)))

    def put(values: tuple[Value, ...], value: Value) -> tuple[Value, ...]:
        return (*values[:number], value, *values[number + 1 :])

    region = replace(
        body,
        arguments=put(body.arguments, argument),
        ops=tuple(join if op is made else op for op in body.ops),
        yields=put(body.yields, join.result),
    )
    operands, results = put(loop.operands, start.result), put(loop.results, end.operands[0])
    return replace(loop, operands=operands, results=results, region=region)

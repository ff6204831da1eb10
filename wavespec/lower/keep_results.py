"""Tile kernel in, tile kernel out: what one loop computed with many steps is kept for a later loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

from wavespec.ir.comparing import key_of_attributes
from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import ceildiv, const
from wavespec.ir.kernel import Kernel, Memory, Op, Value, VectorType, attribute_pairs
from wavespec.ir.layout import row_major
from wavespec.ir.names import dim_of_wave
from wavespec.ir.thread import ThreadBuilder
from wavespec.ir.thread_ops import CONSTANT
from wavespec.ir.tile_ops import ELEMENTWISE, ITERATE, PURE, READ, WRITE
from wavespec.lower.base import Pass
from wavespec.lower.stage_operands import origin_in
from wavespec.lower.tile_properties import edges_are_masked, tiles_are_placed, tiles_have_layouts
from wavespec.ops.elementwise import MEANINGS
from wavespec.ops.steps import Steps
from wavespec.targets.machine import Machine

_STEPS = 10
"""Of arithmetic that a store and a load of the nearest cache are cheaper than."""

_PLACE = ("memory", "origin", "masked")
_REPEATABLE = PURE | READ

_Key = tuple[Any, ...]


class KeepResults(Pass):
    """Let a loop leave in memory what a later one over the same dim would compute again.

    Before: two loops over the tiles of a dim compute the same of the same elements, a function of many steps.
    After:  where the later one ends in the only write of a tensor of that type, at the same places, the first writes
            what it has there, and the later one reads it.  That is for machines whose cores have caches of their
            own, where the rows still are then; where all share one, arithmetic is there to spare.
    Cases:  a streamed output is written once, and one that lacks a dim of the grid, or of waves, is another's as well,
            which may be done with it already.  What is kept is in a private memory ``<name>.kept`` then, where the
            rows of a wave have a largest size that fits; else the later loop computes it again.
    """

    name: ClassVar[str] = "keep-results"
    requires = (tiles_are_placed, tiles_have_layouts, edges_are_masked)

    def applies_to(self, machine: Machine) -> bool:
        return machine.core_cache_bytes > 0

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        outputs = {memory.name for memory in kernel.memories if memory.role == "output"}
        written = {memory.name for memory in kernel.memories if memory.role in ("output", "inout")}
        changing = any(op.is_(READ) and op["memory"] in written for op in kernel.walk())
        if kernel.distribution.schedules or changing:
            return kernel
        body, memories = list(kernel.body), dict[str, Memory]()
        room = machine.core_cache_bytes // 2  # beside what else the loops read
        for later in range(len(body)):
            write = _only_write(kernel, body[later], outputs)
            for first in range(later) if write else ():
                found = _kept(kernel, body[first], body[later], write, room) if write else None
                if found is not None:
                    body[first], body[later], memory = found
                    memories[memory.name] = memory
                    break
        added = [memory for memory in memories.values() if memory not in kernel.memories]
        return replace(kernel, body=tuple(body), memories=(*kernel.memories, *added))


def _only_write(kernel: Kernel, loop: Op, outputs: set[str]) -> Op | None:
    """The write of a loop to a tensor that nothing else touches."""
    writes = [op for op in loop.body.ops if op.is_(WRITE)] if loop.is_(ITERATE) else []
    if len(writes) != 1 or writes[0]["memory"] not in outputs or writes[0].get("at"):
        return None
    return writes[0] if sum(op.get("memory") == writes[0]["memory"] for op in kernel.walk()) == 1 else None


def _kept(kernel: Kernel, first: Op, later: Op, write: Op, room: int) -> tuple[Op, Op, Memory] | None:
    """Both loops with what the first leaves to the later one, and where, if they have something in common."""
    same = ("dim", "lower", "extent", "step", "stride", "induction")
    if not first.is_(ITERATE) or "goes_on" in {key for loop in (first, later) for key, _ in loop.attributes}:
        return None
    if any(first.get(key) != later.get(key) for key in same):
        return None
    made = {_key(op, _makers(first)): op for op in first.body.ops if op.is_(ELEMENTWISE)}
    for op in reversed(later.body.ops):
        if not op.is_(ELEMENTWISE) or op.result.type != write.operands[0].type or _cost(op, _makers(later)) < _STEPS:
            continue
        known = made.get(_key(op, _makers(later)))
        if known is None or known.result.type != op.result.type:
            continue
        memory, place = kernel.memory(write["memory"]), attribute_pairs({key: write[key] for key in _PLACE})
        if write.get("cache") or _has_several_writers(kernel, memory):
            memory = _private(kernel, first, known.result, room)
            if memory is None:
                continue
            origin = origin_in(kernel, memory, known.result.tile) | {first["dim"]: kernel.symbol(first["induction"])}
            place = attribute_pairs({"memory": memory.name, "origin": tuple(origin.items()), "masked": ()})
        stored = Op("write", (known.result,), (), place, None, known.span, "")
        read = Op("read", (), (op.result,), place, None, op.span, op.node)
        ops = [one for inner in first.body.ops for one in ((inner, stored) if inner is known else (inner,))]
        rest = _needed([read if inner is op else inner for inner in later.body.ops], later.body.yields)
        return _with(first, ops), _with(later, rest), memory
    return None


def _has_several_writers(kernel: Kernel, memory: Memory) -> bool:
    """Whether workgroups, or waves, may have the same elements of an output."""
    waves = {dim_of_wave(name) for name, count in kernel.waves if count > 1}
    return not {split.dim for split in kernel.distribution.workgroup} | waves <= {*memory.dims}


def _private(kernel: Kernel, loop: Op, value: Value, room: int) -> Memory | None:
    """Where the whole loop leaves what it makes of the rows of one wave; None where that is not known, or more than
    ``room`` bytes."""
    tile, dim, most = value.tile, loop["dim"], kernel.size(loop["dim"]).high
    if most is None or kernel.waves_along(dim) > 1:
        return None
    extents = {d: tile.extent(d) // kernel.waves_along(d) for d in tile.dims}
    extents[dim] *= ceildiv(const(most), loop["step"].value).value
    arrangement = row_major(tile.dims, tuple(extents.values()))
    if arrangement.elements * tile.dtype.bytes > room:
        return None
    sizes = tuple(map(const, extents.values()))
    return Memory(f"{value.name}.kept", tile.dtype, tile.dims, sizes, "private", arrangement=arrangement)


def _makers(loop: Op) -> dict[str, Op]:
    return {value.name: op for op in loop.body.ops for value in op.results}


def _key(op: Op, makers: Mapping[str, Op]) -> _Key:
    """What is equal for operations that compute the same; values from outside the loop go by name."""
    operands = tuple(_key(makers[v.name], makers) if v.name in makers else v.name for v in op.operands)
    same = op.is_(_REPEATABLE)
    return op.name, key_of_attributes(op), operands, op.result.type, "" if same else op.result.name


def _cost(op: Op, makers: Mapping[str, Op]) -> int:
    """Steps for one element, from the reads on."""
    inside = (makers[v.name] for v in op.operands if v.name in makers)
    own = _steps(op["function"], len(op.operands)) if op.is_(ELEMENTWISE) else 0
    return own + sum(_cost(one, makers) for one in inside)


@cache
def _steps(function: str, operands: int) -> int:
    numbers = iter(range(10**6))
    build = ThreadBuilder(lambda hint: f"{hint}.{next(numbers)}")
    values = [Value(f"operand.{i}", VectorType(DTYPES["f32"], 1)) for i in range(operands)]
    MEANINGS[function].steps(Steps(build, values[-1], "step"), *values)
    return sum(not op.is_(CONSTANT) for op in build.ops)


def _needed(ops: Sequence[Op], yields: Sequence[Value]) -> list[Op]:
    """The operations without those whose results nothing uses any more."""
    used = {value.name for value in yields}
    kept: list[Op] = []
    for op in reversed(ops):
        if op.is_(_REPEATABLE) and op.result.name not in used:
            continue
        used |= {value.name for inner in op.walk() for value in (*inner.operands, *_yields(inner))}
        kept.append(op)
    return kept[::-1]


def _yields(op: Op) -> tuple[Value, ...]:
    return op.region.yields if op.region else ()


def _with(loop: Op, ops: Sequence[Op]) -> Op:
    return replace(loop, region=replace(loop.body, ops=tuple(ops)))

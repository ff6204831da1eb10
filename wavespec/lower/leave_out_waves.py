"""Thread kernel in, thread kernel out: waves whose rows are not there signal, and leave out what only results need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import ClassVar

from wavespec.ir.expr import Expr, const, minimum
from wavespec.ir.kernel import Kernel, Op, Region, Value, rewrite
from wavespec.ir.names import wave_name
from wavespec.ir.rewriting import copied
from wavespec.ir.thread_ops import (
    BARRIER,
    BIND,
    FOR,
    LET,
    LOAD,
    NAMES_A_SYMBOL,
    PURE,
    SEND,
    SIGNAL_ARRIVE,
    SIGNAL_WAIT,
    TILES_END,
)
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.schedule.buffer_ring import in_first_lane, make, only_if
from wavespec.schedule.feeding import feeding
from wavespec.targets.machine import Machine

_SIGNALS = SIGNAL_WAIT | SIGNAL_ARRIVE
_NUMBERS = _SIGNALS | PURE | LOAD | LET | BIND
"""What lies behind the results of a tile, for the next one."""
_LEAST_REGISTERS = 200
"""Of a lane: three waves of 64 rows share a processor with fewer, and some are written to memory in a branch."""
_TOGETHER = BARRIER | SEND


class LeaveOutWaves(Pass):
    """Have a wave none of whose rows has something to write only signal, so that others multiply alone.

    Before: ``tiles_end`` in the loop over tiles: so many elements of a dim have something to write, which values say.
            Waves of which some only copy; all that compute multiply in every step of a tile.
    After:  from its first step up to its results a tile stands in a branch for waves that have an element below the
            end.  In another one, for the others, a lane awaits the same signals and gives the same ones, one behind the
            other, and then the wave meets: what lies behind both needs all of its lanes.  No ``tiles_end`` is left.
    Cases:  a tile stays as it is where waves do not share it along the dim, or where its waves need more of each other
            than signals of their first lanes: they meet, or results are used behind.  Nor has it branches where lanes
            have no registers for them, or where all tiles have as many steps: workgroups that stay in step find in the
            cache what their neighbours read.
    """

    name: ClassVar[str] = "leave-out-waves"
    requires = (is_of_lanes,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if not any(op.is_(TILES_END) for op in kernel.walk()):
            return kernel
        own = kernel.distribution.roles.registers[1] or machine.registers_of(kernel.threads)
        has_room = kernel.producers > 0 and own >= _LEAST_REGISTERS

        def change(op: Op) -> tuple[Op, ...]:
            ends = [inner for inner in op.body.ops if inner.is_(TILES_END)]
            if not ends:
                return (op,)
            body = replace(op.body, ops=tuple(inner for inner in op.body.ops if inner not in ends))
            is_taken, missing = op.get("goes_on") is not None, _elements(kernel, ends)
            branched = _branched(kernel, body, missing) if missing is not None and is_taken and has_room else None
            return (replace(op, region=body if branched is None else replace(body, ops=branched)),)

        return replace(kernel, body=rewrite(kernel.body, change, FOR))


def _elements(kernel: Kernel, ends: Sequence[Op]) -> Expr | None:
    """How many elements of a wave, from its first one on, have something to write; 0 or less for none."""
    tiles, found = {split.dim: split for split in kernel.distribution.workgroup}, list[Expr]()
    own, counts = {split.dim: split.tile for split in kernel.distribution.waves}, dict(kernel.waves)
    for end in ends:
        tile, wave = tiles[end["dim"]], wave_name(end["dim"])
        if counts.get(wave, 1) > 1 and counts[wave] * own[end["dim"]] == tile.tile:
            first = kernel.symbol(f"wg{tile.axis}") * tile.tile + kernel.symbol(wave) * own[end["dim"]]
            found.append(end["extent"] - first)
    return reduce(minimum, found) if found else None


def _branched(kernel: Kernel, body: Region, elements: Expr) -> tuple[Op, ...] | None:
    """A tile in two branches; None where it has to stay one."""
    ops, steps = body.ops, [number for number, op in enumerate(body.ops) if op.is_(FOR) and op.contains(SIGNAL_WAIT)]
    if not steps:
        return None
    begin, end = steps[0], max(number for number, op in enumerate(ops) if not op.is_(_NUMBERS)) + 1
    inside, behind = ops[begin:end], ops[end:]
    signals = _Signals(kernel)(inside)
    if signals is None or _uses(behind, body.yields) & _makes(inside):
        return None
    own = make("barrier", first=kernel.wave_number, waves=1)
    present = only_if(((const(0), elements),), *inside)
    missing = only_if(((elements, const(1)),), in_first_lane(kernel, *signals), own)
    return (*ops[:begin], missing, present, *behind)  # what the first one needs lies in no register beside the steps


class _Signals:
    """Of what a wave does, what one of its lanes awaits and gives; None where that takes more of the wave."""

    def __init__(self, kernel: Kernel) -> None:
        self.fresh, self.wave = fresh_names(kernel), kernel.wave_number
        self.lane, self.first = "lane", (kernel.symbol("lane"), const(1))

    def __call__(self, ops: Sequence[Op]) -> tuple[Op, ...] | None:
        if any(self._is_of_several(op) for inner in ops for op in inner.walk()):
            return None
        kept = self._kept(ops, is_first=False)
        if kept is None or _uses(kept, ()) & (_makes(ops) - _makes(kept)):
            return None
        names: dict[str, Value] = {}
        return tuple(copied(op, self.fresh, names) for op in kept)

    def _is_of_several(self, op: Op) -> bool:
        """Whether lanes do something with other waves."""
        apart = op.is_(BARRIER) and (op.get("first"), op.get("waves")) == (self.wave, 1)
        return op.is_(_TOGETHER) and not apart

    def _kept(self, ops: Sequence[Op], *, is_first: bool) -> tuple[Op, ...] | None:
        found, own = list(ops), list[int]()
        for number, op in enumerate(ops):
            if op.is_(SIGNAL_ARRIVE) and not is_first:
                return None
            if op.is_(_SIGNALS | LET):
                own.append(number)
            elif op.region is not None and op.contains(_SIGNALS):
                mask = {pair for pair in op.get("mask", ()) if any(self.lane in side.symbols for side in pair)}
                inner = self._kept(op.body.ops, is_first=is_first or mask == {self.first})
                if inner is None or mask - {self.first}:
                    return None
                found[number] = replace(op, operands=(), results=(), region=Region((), inner, ()))
                own.append(number)
        kept = sorted({*own, *feeding(found, own)})
        return tuple(found[number] for number in kept)


def _makes(ops: Sequence[Op]) -> frozenset[str]:
    """Values, and symbols that stand for some."""
    every = [inner for op in ops for inner in op.walk()]
    values = {value.name for op in every for value in (*op.results, *(op.region.arguments if op.region else ()))}
    return frozenset(values | {op["symbol"] for op in every if op.is_(NAMES_A_SYMBOL)})


def _uses(ops: Sequence[Op], yields: Sequence[Value]) -> frozenset[str]:
    every = [inner for op in ops for inner in op.walk()]
    values = {value.name for op in every for value in (*op.operands, *(op.region.yields if op.region else ()))}
    return frozenset(values | {value.name for value in yields}).union(*(op.symbols for op in every))

"""The places that a `take` wants go in; the registers and lanes that have them come out, where lanes move alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.layout import Layout
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.index_map import index_of

_MOST_RUNS = 64
"""Of registers that move together; memory takes fewer steps than more of them."""
_LARGEST_TABLE = 1 << 22
"""Threads times elements of the value; larger ones take longer than they save."""
_NOBODY, _NOTHING = -1, -2

Numbers = Any
"""A numpy array of integers."""


@dataclass(frozen=True, slots=True)
class Held:
    """``count`` registers of the result: those of the value from ``register`` on, in the lane whose number differs in
    the bits of ``mask``; zeros where ``register`` is None."""

    register: int | None
    count: int
    mask: int = 0


def held_places(op: Op, context: ThreadContext) -> list[Held] | None:
    """Where every register of the result comes from; None where lanes differ in that, or it is not known yet."""
    value, lanes = op.operands[0].tile, context.kernel.lanes
    elements, threads = math.prod(value.extents), context.kernel.wave_count * lanes
    wanted = _wanted(op, context) if threads * elements <= _LARGEST_TABLE else None
    if wanted is None:
        return None
    assert value.layout is not None
    own = _flat(value.dims, value.extents, _coordinates(value.layout, context.kernel))
    registers = np.full((threads, elements), _NOBODY)
    for register in reversed(range(len(own))):  # of several the first
        registers[np.arange(threads), own[register]] = register
    count = value.layout.fragment_elements
    found: list[Held] = []
    for places in wanted:
        one = _holder(places, registers, lanes)
        if one is None or one.mask >= context.machine.lanes:  # those do not exchange registers
            return None
        if found and _follows(found[-1], one, count):
            found[-1] = Held(found[-1].register, found[-1].count + 1, one.mask)
        else:
            found.append(one)
        if len(found) > _MOST_RUNS:
            return None
    return found


def _wanted(op: Op, context: ThreadContext) -> Numbers | None:
    """For every register of the result and every thread the number of the element in the tile of the value, or
    `_NOTHING`; None where that depends on more than the thread."""
    kernel, layout, value = context.kernel, op.result.tile.layout, op.operands[0].tile
    assert layout is not None
    inside, origin = _coordinates(layout, kernel), context.origin(op)
    known: dict[str, Any] = {}
    for dim, start in origin.items():
        if start.is_const:
            known[index_of(dim).args[0]] = inside[dim] + start.value if dim in inside else start.value
    shape = next(iter(inside.values())).shape if inside else (1, len(_threads(kernel)["lane"]))
    found: dict[str, Numbers] = {}
    exists = np.ones(shape, bool)
    for dim, place in op["at"]:
        if dim not in value.dims:
            continue
        if place is index_of(dim):
            found[dim] = inside[dim]
            continue
        size = kernel.size(dim)
        if not size.is_const or not place.symbols <= known.keys():
            return None
        found[dim] = np.broadcast_to(place.evaluate(known), shape)
        exists &= (found[dim] >= 0) & (found[dim] < size.value)
    return np.where(exists, _flat(value.dims, value.extents, found), _NOTHING)


def _holder(places: Numbers, registers: Numbers, lanes: int) -> Held | None:
    """Who has, for every thread, the element that it wants: the same register of a lane at the same distance."""
    if (places == _NOTHING).all():
        return Held(None, 1)
    if (places == _NOTHING).any():
        return None
    threads = np.arange(len(places))
    for mask in range(1 << (lanes - 1).bit_length()):
        other = threads - threads % lanes + (threads % lanes ^ mask)
        held = registers[other, places]
        if held[0] != _NOBODY and (held == held[0]).all():
            return Held(int(held[0]), 1, mask)
    return None


def _follows(run: Held, one: Held, size: int) -> bool:
    """Whether a register comes behind a run of others, in the same fragment."""
    if run.register is None or one.register is None:
        return run.register is one.register
    end = run.register + run.count
    return one.register == end and end % size != 0 and one.mask == run.mask


def _coordinates(layout: Layout, kernel: Kernel) -> dict[str, Numbers]:
    """For every dim the places of all registers of all threads, ``[registers, threads]``."""
    threads, offsets = _threads(kernel), list(layout.register_offsets())
    found: dict[str, Numbers] = {}
    for dim in layout.dims:
        base = np.broadcast_to(layout.base_of(dim).evaluate(threads), threads["lane"].shape)
        found[dim] = np.array([one[dim] for one in offsets])[:, None] + base
    return found


def _threads(kernel: Kernel) -> dict[str, Numbers]:
    """The symbols of every thread of a workgroup that computes."""
    thread = np.arange(kernel.wave_count * kernel.lanes)
    known, rest = {"lane": thread % kernel.lanes}, thread // kernel.lanes
    for name, count in reversed(kernel.waves):
        known[name], rest = rest % count, rest // count
    return known


def _flat(dims: tuple[str, ...], extents: tuple[int, ...], places: dict[str, Numbers]) -> Numbers:
    """Element numbers, row after row."""
    number: Numbers = 0
    for dim, extent in zip(dims, extents, strict=True):
        number = number * extent + places[dim]
    return number

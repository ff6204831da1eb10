"""What is done for a tile goes in; a loop comes out in which a workgroup takes tiles from a counter until none is left.

The first tile of a workgroup is the one with its number, those behind are given to whoever asks next.  For each tile
that somebody has there is one question, so who is given the last number of all is the last one to ask, and sets the
counter back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, const, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, Value, attribute_pairs
from wavespec.ir.thread_ops import BIND, FOR, MMA, MMA_ASYNC
from wavespec.lower.base import fresh_names
from wavespec.lower.carried_numbers import COUNT, Numbers, bind, computed, constant, loop_with
from wavespec.lower.ended_tiles import BEFORE, HERE, PART, EndedTiles
from wavespec.lower.tile_walk import MOST_TILES, Walk
from wavespec.schedule.taken_numbers import NUMBER
from wavespec.targets.machine import Machine

_TAKEN = Memory("tiles.taken", DTYPES["i32"], (), (), "counter")
"""How many tiles were given away beside the first one of each workgroup."""
_ROUNDS = symbol("rounds_before", 0, MOST_TILES)
"""Tiles that this workgroup had of the parts before."""


def may_be_taken(kernel: Kernel, machine: Machine) -> bool:
    """Whether no formula of the round shares steps out evenly, and waves that only copy can ask for the next tile.

    That is so where values say how tiles differ in steps, and where places along an axis do that has an order and
    others around it: a worker would meet the short ones of several planes in step with them, or never.
    """
    roles = kernel.distribution.roles
    can_ask = kernel.producers > 0 and kernel.cluster == 1 and roles.order != "ping_pong"
    ordered = {f"wg{split.axis}" for split in kernel.distribution.workgroup if split.order is not None}
    inner = ordered - {f"wg{len(kernel.grid) - 1}"}
    loaded = {op["symbol"] for op in kernel.walk() if op.is_(BIND)}
    return machine.counters and can_ask and differ_in_steps(kernel, loaded | inner)


def differ_in_steps(kernel: Kernel, said: Collection[str]) -> bool:
    """Whether some tiles take more steps than others, as the extent of a loop of products has it, by what some symbols
    stand for."""
    loops = [op for op in kernel.walk() if op.is_(FOR) and any(one.is_(MMA, MMA_ASYNC) for one in op.walk())]
    return any(not (loop["upper"] - loop["lower"]).symbols.isdisjoint(said) for loop in loops)


def taken(kernel: Kernel, worker: Expr, workers: Expr, tiles: Expr, ended: EndedTiles | None) -> Walk:
    """Tiles that a worker takes when it is done with the one before."""

    def loops(inside: Sequence[Op]) -> tuple[Op, ...]:
        fresh = fresh_names(kernel)
        first, rounds, before = (Value(fresh(name), COUNT) for name in ("number", "rounds", "tiles"))
        if ended is None:
            start = (computed(first, worker), bind(first, NUMBER))
            walk = _rounds(tiles, workers, inside, {NUMBER: first}, fresh)
            return (*start, walk, bind(walk.results[0], NUMBER), *_set_back(kernel, workers, tiles, fresh))

        def part(here: Numbers) -> tuple[Sequence[Op], Numbers]:
            walk = _rounds(BEFORE + HERE, workers, inside, {one: here[one] for one in (NUMBER, _ROUNDS)}, fresh)
            following = Value(fresh("tiles"), COUNT)
            end = dict(zip((NUMBER, _ROUNDS), walk.results, strict=True))
            return (walk, computed(following, BEFORE + HERE)), {**end, BEFORE: following}

        walk = ended.around({NUMBER: first, _ROUNDS: rounds, BEFORE: before}, part, fresh)
        last, _, all_ = walk.results
        start = (computed(first, worker), constant(rounds, 0), constant(before, 0))
        return (*start, walk, bind(last, NUMBER), bind(all_, BEFORE), *_set_back(kernel, workers, BEFORE, fresh))

    if ended is None:
        return Walk(NUMBER, loops, (NUMBER,), (_TAKEN,))
    return Walk(NUMBER - BEFORE, loops, (NUMBER, PART, BEFORE, HERE, _ROUNDS), (_TAKEN,))


def _rounds(end: Expr, workers: Expr, inside: Sequence[Op], starts: Numbers, fresh: Callable[[str], str]) -> Op:
    """The loop over tiles with numbers below ``end``; it carries the number that this workgroup has, and how many tiles
    it had, where there are parts."""
    turn, asked = symbol("round", 0, MOST_TILES), Value(fresh("number"), COUNT)
    take = Op("take_number", (), (asked,), attribute_pairs({"memory": _TAKEN.name, "first": workers, "step": turn}))
    body, following = [*inside, take, bind(asked, NUMBER)], {NUMBER: asked}
    bounds = {"induction": turn.args[0], "lower": const(0), "upper": const(MOST_TILES)}
    if _ROUNDS in starts:
        bounds |= {"lower": _ROUNDS, "counts_on": True}
        following[_ROUNDS] = Value(fresh("rounds"), COUNT)
        body.append(computed(following[_ROUNDS], turn + 1))
    goes_on = minimum(1, maximum(0, end - NUMBER))
    return loop_with({**bounds, "goes_on": goes_on}, starts, lambda _: (body, following), fresh)


def _set_back(kernel: Kernel, workers: Expr, tiles: Expr, fresh: Callable[[str], str]) -> tuple[Op, Op]:
    """What the last workgroup of all does when it has asked for the last time, of so many tiles."""
    zero, last = Value(fresh("zero"), COUNT), workers + tiles - 1
    mask = ((kernel.symbol("lane"), const(1)), (last - 1, NUMBER), (NUMBER, last + 1))
    exchange = {"memory": _TAKEN.name, "offset": const(0), "function": "exchange", "mask": mask}
    return constant(zero, 0), Op("atomic", (zero,), (), attribute_pairs(exchange))

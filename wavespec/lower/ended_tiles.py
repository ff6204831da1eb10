"""A thread kernel goes in whose tiles end where values say; a loop over those that are there comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.ir.expr import Expr, ceildiv, const, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.rewriting import copied
from wavespec.ir.thread_ops import BIND, LOAD, PURE, TILES_END
from wavespec.lower.base import fresh_names
from wavespec.lower.carried_numbers import COUNT, Body, Numbers, computed, constant, loop_with
from wavespec.lower.tile_walk import MOST_TILES, Walk, in_order, let, product
from wavespec.schedule.feeding import feeding

PART = symbol("part", 0, MOST_TILES)
"""Which of the parts that end by themselves, such as groups, a tile is of."""
BEFORE = symbol("tiles_before", 0, MOST_TILES)
"""Tiles of the parts before."""
HERE = symbol("tiles_here", 0, MOST_TILES)
"""Tiles of this part."""


class EndNotUniform(WavespecError, code="end-not-uniform"):
    def __init__(self, where: Where, dim: str) -> None:
        super().__init__(
            where,
            f"Where the tiles of {quote(dim)} end has to be known before a workgroup takes one of them: from what is "
            "read of an input, at places along other dims.",
            hints=["Read it at the index of a dim that the grid counts one by one, such as 'at: {B: G}'."],
        )


class EndedTiles:
    """The tiles of a kernel, in parts that say how many they have.

    ``outer``: which part a tile is of, ``inner``: which one of a part, as places along axes with their extents;
    ``rest``: what is done for a tile, and which of its elements have something to write.
    """

    def __init__(self, kernel: Kernel, places: Sequence[Expr]) -> None:
        body = kernel.body
        ends = [number for number, op in enumerate(body) if op.is_(TILES_END)]
        loads = feeding(body, ends)
        self._kernel, self._loads = kernel, tuple(body[number] for number in loads)
        self.rest = tuple(op for number, op in enumerate(body) if number not in loads)
        used = frozenset[str]().union(*(op.symbols for op in self._loads))
        tiles = {split.dim: split for split in kernel.distribution.workgroup}
        extents = {f"wg{axis}": extent for axis, extent in enumerate(places)}
        for end in (body[number] for number in ends):
            split = tiles[end["dim"]]
            own = {f"wg{split.axis}", *({"wg0"} if kernel.cluster > 1 else ())}
            if not self._is_uniform(used, own):
                raise EndNotUniform(end.span, end["dim"])
            name, rows = f"wg{split.axis}", kernel.cluster if split.axis == 0 else 1
            count = ceildiv(end["extent"], split.tile * rows)
            extents[name] = maximum(0, minimum(count, extents[name]))
        self.outer = {name: extent for name, extent in extents.items() if name in used}
        self.inner = {name: extent for name, extent in extents.items() if name not in used}

    def _is_uniform(self, used: frozenset[str], own: set[str]) -> bool:
        """Whether what says where tiles end is the same for all lanes, and for all places that are its ``own``."""
        inputs = {memory.name for memory in self._kernel.memories if memory.role == "input"}
        is_loaded = all(op.is_(PURE, BIND) or (op.is_(LOAD) and op["memory"] in inputs) for op in self._loads)
        waves = {name for name, _ in self._kernel.waves}
        return is_loaded and used.isdisjoint({"lane", *own, *waves})

    def around(self, starts: Numbers, body: Body, fresh: Callable[[str], str], *, apart: bool = False) -> Op:
        """A loop over all parts, which carries numbers, with what is done for one of them inside; ``apart``: it loads
        values of its own."""
        places = in_order(PART, self.outer) if self.outer else {}
        names: dict[str, Value] = {}
        loads = [copied(op, fresh, names) for op in self._loads] if apart else self._loads

        def part(here: Numbers) -> tuple[Sequence[Op], Numbers]:
            inside, following = body(here)
            known = [let(name, place) for name, place in places.items() if not self._kernel.symbol(name).is_const]
            return (*known, *loads, let(HERE.args[0], product(self.inner.values())), *inside), following

        bounds = {"induction": PART.args[0], "lower": const(0), "upper": product(self.outer.values())}
        return loop_with(bounds, starts, part, fresh)


def parts_in_turn(kernel: Kernel, worker: Expr, workers: Expr, ended: EndedTiles) -> Walk:
    """Tiles one after another, whatever part they are of; rounds are counted over all parts."""
    turn, most = symbol("round", 0, MOST_TILES), workers.high or 1
    late, end = symbol("late", 0, most - 1), BEFORE + HERE  # how many workers take a tile behind this one
    bounds = {"induction": turn.args[0], "lower": (BEFORE + late) // workers, "upper": (end + late) // workers}

    def loops(inside: Sequence[Op]) -> tuple[Op, ...]:
        fresh = fresh_names(kernel)
        start = Value(fresh("tiles"), COUNT)

        def part(_: Numbers) -> tuple[Sequence[Op], Numbers]:
            following = Value(fresh("tiles"), COUNT)
            loop = loop_with({**bounds, "counts_on": True}, {}, lambda _: (inside, {}), fresh)
            return (loop, computed(following, end)), {BEFORE: following}

        walk = ended.around({BEFORE: start}, part, fresh)
        known = () if late.is_const else (let(late.args[0], workers - 1 - worker),)
        return (*known, constant(start, 0), walk)

    return Walk(worker + turn * workers - BEFORE, loops, (late, PART, BEFORE, HERE))

"""A thread kernel goes in whose tiles end where values say; a loop over those that are there comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, ceildiv, const, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel, Op, Region, Value, VectorType, attribute_pairs
from wavespec.ir.thread_ops import BIND, LOAD, PURE, TILES_END
from wavespec.lower.base import fresh_names
from wavespec.lower.dealt_tiles import DealtTiles
from wavespec.lower.tile_walk import MOST_TILES, in_order, let, product
from wavespec.schedule.feeding import feeding

PART = symbol("part", 0, MOST_TILES)
"""Which of the parts that end by themselves, such as groups, a tile is of."""
BEFORE = symbol("tiles_before", 0, MOST_TILES)
"""Tiles of the parts before."""
HERE = symbol("tiles_here", 0, MOST_TILES)
"""Tiles of this part."""
ROUNDS = symbol("rounds_before", 0, MOST_TILES)
"""Rounds in which this worker had a tile of the parts before."""


@dataclass(frozen=True, slots=True)
class DealtParts:
    """How the tiles of parts are dealt out.

    ``number`` of a tile in its part, in a round; ``lower``, ``upper``: the rounds of this worker; ``once``: values of
    symbols in a part; ``carried``: numbers that are 0 in the first part, and what they are in the next one.
    """

    number: Expr
    lower: Expr
    upper: Expr
    once: Mapping[Expr, Expr]
    carried: Mapping[Expr, Expr]

    @classmethod
    def in_turn(cls, worker: Expr, workers: Expr, late: Expr, turn: Expr) -> DealtParts:
        """One after another, whatever part they are of; ``late``: how many workers take a tile behind this one."""
        end = BEFORE + HERE
        lower, upper = (BEFORE + late) // workers, (end + late) // workers
        return cls(worker + turn * workers - BEFORE, lower, upper, {}, {BEFORE: end})

    @classmethod
    def back_and_forth(cls, worker: Expr, workers: Expr, turn: Expr) -> DealtParts:
        """Those of a part back and forth, so that nobody always has the longer ones of tiles that get shorter.

        The next part begins with whom the last round of this one has not reached: those behind the others where it
        went forth, and the first ones where it came back.
        """
        first, place = (symbol(name, 0, workers.high) for name in ("first_worker", "worker_place"))
        dealt = DealtTiles.back_and_forth(place, workers, turn - ROUNDS, HERE)
        reached = HERE % workers * (1 - HERE // workers % 2)
        carried = {ROUNDS: ROUNDS + dealt.rounds, first: (first + reached) % workers}
        once = {place: (worker + workers - first) % workers}  # counted from who takes the first tile of this part
        return cls(dealt.number, ROUNDS, ROUNDS + dealt.rounds, once, carried)

    @property
    def symbols(self) -> tuple[Expr, ...]:
        """Those that have a value in a part."""
        return (*self.carried, *self.once)


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
    ``rest``: what is done for a tile.
    """

    def __init__(self, kernel: Kernel, places: Sequence[Expr]) -> None:
        body = kernel.body
        ends = [number for number, op in enumerate(body) if op.is_(TILES_END)]
        loads = feeding(body, ends)
        self._kernel, self._loads = kernel, tuple(body[number] for number in loads)
        self.rest = tuple(op for number, op in enumerate(body) if number not in (*ends, *loads))
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

    def around(self, loop: Op, dealt: DealtParts) -> tuple[Op, ...]:
        """A loop over all parts, with ``loop`` in it over those tiles of a part that a workgroup takes.

        Rounds are counted over all parts.
        """
        fresh, number = fresh_names(self._kernel), VectorType(DTYPES["i32"], 1)
        values = ([Value(fresh("tiles"), number) for _ in range(4)] for _ in dealt.carried)
        start, before, following, all_ = zip(*values, strict=True)
        loop = loop.with_(lower=dealt.lower, upper=dealt.upper, counts_on=True)
        places = in_order(PART, self.outer) if self.outer else {}
        carried = zip(before, following, dealt.carried.items(), strict=True)
        known = [(old, new, symbol.args[0], value) for old, new, (symbol, value) in carried]
        inside = (
            *(let(name, place) for name, place in places.items() if not self._kernel.symbol(name).is_const),
            *self._loads,
            *(Op("bind", (old,), attributes=attribute_pairs({"symbol": name})) for old, _, name, _ in known),
            let(HERE.args[0], product(self.inner.values())),
            *(let(symbol.args[0], value) for symbol, value in dealt.once.items()),
            loop,
            *(Op("coordinates", (), (new,), attribute_pairs({"places": (value,)})) for _, new, _, value in known),
        )
        parts = product(self.outer.values())
        bounds = {"induction": PART.args[0], "lower": const(0), "upper": parts, "step": const(1), "unroll": 1}
        region = Region(before, inside, following)
        return (
            *(Op("constant", (), (one,), attribute_pairs({"value": 0})) for one in start),
            Op("for", start, all_, attribute_pairs(bounds), region),
        )

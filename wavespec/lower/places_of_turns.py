"""Loops over waves in turn go in; the same, with a place for each wave where one of them leaves others something in
memory, comes out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Op, rewrite
from wavespec.ir.thread_ops import FOR, READS_MEMORY, WRITES_MEMORY


@dataclass(frozen=True, slots=True)
class _Access:
    """How a memory is accessed: ``own`` symbols of waves tell the place, and ``turns`` are the wave loops around it,
    outermost first, by symbol and number.  Thousands of operations come down to a few of these."""

    memory: str
    stores: bool
    loads: bool
    own: frozenset[str]
    turns: tuple[tuple[str, int], ...]


class PlacesOfTurns:
    """Keep what each wave laid down until its turn in another loop over waves.

    Before: memories hold what one wave lays down, at the same place for all waves; another wave loop than the one that
            stores there loads it, when only what the last wave laid down would be left.
    After:  such memories have a copy for each of the waves that its places do not tell apart.

    Args:
        waves: how many there are of each symbol, slowest first.
        memories: those of a workgroup.
        symbol: the expression that a name stands for.
    """

    def __init__(self, waves: Mapping[str, int], memories: Collection[str], symbol: Callable[[str], Expr]) -> None:
        self.waves, self.memories, self.symbol = waves, memories, symbol
        self.copies: dict[str, int] = {}
        """Of each memory that needs several."""

    def __call__(self, ops: tuple[Op, ...]) -> tuple[Op, ...]:
        accesses = dict.fromkeys(self._accesses(ops, (), itertools.count()))
        apart = {name: self._apart([one for one in accesses if one.memory == name]) for name in self.memories}
        buffers: dict[str, Expr] = {}
        for name, symbols in apart.items():
            if symbols:
                self.copies[name] = math.prod(self.waves[symbol] for symbol in symbols)
                buffers[name] = const(0)
                for symbol in symbols:
                    buffers[name] = buffers[name] * self.waves[symbol] + self.symbol(symbol)

        def change(op: Op) -> tuple[Op, ...]:
            if not op.is_(WRITES_MEMORY, READS_MEMORY) or op["memory"] not in buffers:
                return (op,)
            return (op.with_(buffer=op["buffer"] * self.copies[op["memory"]] + buffers[op["memory"]]),)

        return rewrite(ops, change) if buffers else ops

    def _accesses(
        self, ops: Sequence[Op], turns: tuple[tuple[str, int], ...], numbers: Iterator[int]
    ) -> Iterator[_Access]:
        for op in ops:
            if op.region:
                turn = op.is_(FOR) and op["induction"] in self.waves
                inner = (*turns, (op["induction"], next(numbers))) if turn else turns
                yield from self._accesses(op.region.ops, inner, numbers)
            elif op.is_(WRITES_MEMORY, READS_MEMORY) and op["memory"] in self.memories:
                own = op["offset"].symbols | op["buffer"].symbols
                stores, loads = op.is_(WRITES_MEMORY), op.is_(READS_MEMORY)
                yield _Access(op["memory"], stores, loads, own.intersection(self.waves), turns)

    def _apart(self, accesses: Sequence[_Access]) -> list[str]:
        """Symbols of the waves that store to one place before any of them loads."""
        found: set[str] = set()
        for store in (one for one in accesses if one.stores):
            for load in (one for one in accesses if one.loads):
                common = sum(1 for a, b in zip(store.turns, load.turns, strict=False) if a == b)
                found |= {symbol for symbol, _ in store.turns[common:]} - store.own
        return [symbol for symbol in self.waves if symbol in found]

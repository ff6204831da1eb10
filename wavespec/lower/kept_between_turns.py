"""Loops over waves in turn go in; the same, with what one of them leaves to another in private memories, comes out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Op, Value, rewrite
from wavespec.ir.rewriting import renamed
from wavespec.ir.thread import ThreadBuilder
from wavespec.ir.thread_ops import BIND, BROADCAST, CONSTANT, COORDINATES, FOR, LOAD, SLICE, WRITES_MEMORY

_Place = tuple[str, Expr]
"""A memory, and the offset at which the place of a wave starts in it."""


@dataclass(frozen=True, slots=True)
class _Made:
    """What makes a value or binds a symbol, in how many wave loops, and its number in program order."""

    op: Op
    depth: int
    number: int


@dataclass(slots=True)
class _Scope:
    """What can be used in a block, and the values that stand there for those of other turns."""

    known: set[str] = field(default_factory=set[str])
    values: dict[str, Value] = field(default_factory=dict[str, Value])

    def inner(self) -> _Scope:
        return _Scope(set(self.known), dict(self.values))


class KeptBetweenTurns:
    """Give what one loop over waves makes to the others that use it.

    Before: values, and symbols bound to values, are used in wave loops beside the one that they are made in, behind it
            in program order, and in as many wave loops.
    After:  what was loaded from where nothing was stored since is loaded again, what such a load, a constant or a
            number in all places makes is made again.  Any other value is stored where it is made to a private memory
            with one place for each wave, and loaded where it is used.

    Args:
        waves: symbols of the waves; loops over them are the turns.
        own: memories in which each wave has places of its own, so that no other wave's turn changes them.
        place: makes a private memory for a value, one place for each of the waves of that many loops.
        fresh: names for values.
    """

    def __init__(
        self,
        waves: Sequence[str],
        own: Collection[str],
        place: Callable[[Value, int], _Place],
        fresh: Callable[[str], str],
    ) -> None:
        self.waves, self.own, self.place, self.fresh = waves, own, place, fresh
        self._made: dict[str, _Made] = {}
        self._kept: dict[str, _Place] = {}
        self._stored: dict[str, int] = {}  # the number of the last store to each memory
        self._number = 0

    def __call__(self, ops: Sequence[Op]) -> tuple[Op, ...]:
        ops = self._block(ops, _Scope(), 0)
        return rewrite(ops, self._with_store) if self._kept else ops

    def _block(self, ops: Sequence[Op], scope: _Scope, depth: int) -> tuple[Op, ...]:
        result: list[Op] = []
        for op in ops:
            self._number += 1
            if op.region and any(self._is_turn(inner) for inner in op.walk()):
                result.append(self._loop(op, scope.inner(), depth))
                continue
            result += self._missing(op, scope)
            self._note_stores(op, ())
            for key in _makes(op):
                self._made[key] = _Made(op, depth, self._number)
                scope.known.add(key)
            result.append(renamed(op, scope.values) if scope.values else op)
        return tuple(result)

    def _is_turn(self, op: Op) -> bool:
        return op.is_(FOR) and op["induction"] in self.waves

    def _loop(self, op: Op, scope: _Scope, depth: int) -> Op:
        """A loop with turns inside: what it stores may be there from the step before, or from another wave's turn,
        which may also come after what this one did."""
        without = self.own if self._is_turn(op) else ()
        self._note_stores(op, without)
        inside = self._block(op.body.ops, scope, depth + self._is_turn(op))
        self._number += 1
        self._note_stores(op, without)
        return replace(op, region=replace(op.body, ops=inside))

    def _note_stores(self, op: Op, without: Collection[str]) -> None:
        stores = (inner["memory"] for inner in op.walk() if inner.is_(WRITES_MEMORY))
        self._stored |= {name: self._number for name in stores if name not in without}

    # ----------------------------------------------------------------------------------------------------------- uses

    def _missing(self, op: Op, scope: _Scope) -> Iterator[Op]:
        """Operations in front of ``op`` that make what it uses of other turns."""
        made, known = self._made, scope.known
        used = (key for inner in op.walk() for key in _uses(inner) if key in made and key not in known)
        missing = list(dict.fromkeys(used))
        own = {key for inner in op.walk() for key in _makes(inner)} if missing else ()
        for key in missing:
            if key not in own:
                yield from self._again(key, scope)

    def _again(self, key: str, scope: _Scope) -> Iterator[Op]:
        if key in scope.known:
            return
        scope.known.add(key)
        made = self._made[key].op
        if not made.is_(BIND) and not self._is_repeated(key, scope):
            build, value = ThreadBuilder(self.fresh), next(v for v in made.results if v.name == key)
            build.span, build.node = made.span, made.node
            if key not in self._kept:
                self._kept[key] = self.place(value, self._made[key].depth)
            name, start = self._kept[key]
            scope.values[key] = build.load(name, value.vector.dtype, value.vector.elements, start, hint=key)
            yield from build.ops
            return
        for needed in _uses(made):
            if needed in self._made:
                yield from self._again(needed, scope)
        results = tuple(replace(value, name=self.fresh(value.name)) for value in made.results)
        scope.values |= {value.name: again for value, again in zip(made.results, results, strict=True)}
        yield replace(renamed(made, scope.values), results=results)

    def _is_repeated(self, key: str, scope: _Scope) -> bool:
        """Whether a value is made again rather than kept."""
        made = self._made[key]
        if made.op.is_(SLICE):
            (whole,) = made.op.operands
            return whole.name in scope.known or self._is_repeated(whole.name, scope)
        if made.op.is_(LOAD):
            return self._stored.get(made.op["memory"], -1) < made.number
        return made.op.is_(CONSTANT, COORDINATES, BROADCAST)

    def _with_store(self, op: Op) -> tuple[Op, ...]:
        kept = [value for value in op.results if value.name in self._kept]
        if not kept:
            return (op,)
        build = ThreadBuilder(self.fresh)
        build.span, build.node = op.span, op.node
        for value in kept:
            build.store(value, *self._kept[value.name])
        return (op, *build.ops)


def _makes(op: Op) -> Iterator[str]:
    """Names of the values, or the name of the symbol, that an operation makes."""
    yield from (value.name for value in op.results)
    if op.is_(BIND):
        yield op["symbol"]


def _uses(op: Op) -> list[str]:
    """Names of the values and symbols that an operation uses, and of those its region hands on."""
    handed_on = op.region.yields if op.region else ()
    return [*[value.name for value in op.operands], *op.symbols, *[value.name for value in handed_on]]

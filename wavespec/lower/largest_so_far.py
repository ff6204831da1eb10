"""A thread kernel goes in; what its loops carry as the largest score so far, and what they make of it, comes out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.rewriting import uses_of
from wavespec.ir.thread_ops import BROADCAST, ELEMENTWISE, FOR, MMA_ASYNC, MMA_WAIT, PACK, SHUFFLE, SLICE

_SHAPES = SLICE | PACK | BROADCAST


@dataclass(frozen=True, slots=True)
class LargestSoFar:
    """Of a loop: ``highest = max(max(largest, top), least)`` is carried into ``largest``."""

    place: int
    """Among what the loop carries."""
    largest: Value
    own: Value
    """The largest score of a lane, which `chain` joins to ``top``."""
    least: Value
    chain: tuple[Op, ...]
    """From `own` to ``highest``, which is the last one's result."""
    rates: tuple[Value, ...]
    """One of these is what differences of scores are multiplied by."""
    shrink: Value
    scaled: tuple[Op, ...]
    """What multiplies sums of asynchronous products by `shrink`."""


def largest_so_far(kernel: Kernel) -> Mapping[str, LargestSoFar]:
    """By the name of a loop's first result.  Loops whose largest score something else uses are left out."""
    loops = [op for op in kernel.walk() if op.is_(FOR) and op.results]
    found = {loop.results[0].name: one for loop in loops if (one := _of_loop(loop)) is not None}
    others = defaultdict[str, list[tuple[Op, int]]](list)
    for op in kernel.walk():
        for number, value in enumerate((*op.operands, *(op.region.yields if op.region else ()))):
            others[value.name].append((op, number))
    changed = True
    while changed:
        changed = False
        for loop in loops:
            one = found.get(loop.results[0].name)
            if one is not None and not all(
                user.is_(FOR)
                and user.results
                and (behind := found.get(user.results[0].name)) is not None
                and behind.place == number
                for user, number in others[loop.results[one.place].name]
            ):
                del found[loop.results[0].name]
                changed = True
    return found


def _of_loop(loop: Op) -> LargestSoFar | None:
    if not loop.region or loop.get("once"):
        return None
    body = loop.body
    made = {result.name: op for op in body.ops for result in op.results}
    users = defaultdict[str, list[Op]](list)
    for op in body.ops:
        for value in {value.name for value in uses_of(op)}:
            users[value].append(op)
    for place, (largest, highest) in enumerate(zip(body.arguments, body.yields, strict=True)):
        others = {value.name for number, value in enumerate(body.yields) if number != place}
        if (one := _Steps(made, users, others).carried(place, largest, highest)) is not None:
            return one
    return None


@dataclass(frozen=True, slots=True)
class _Steps:
    made: Mapping[str, Op]
    users: Mapping[str, list[Op]]
    others: Set[str]
    """What else the loop carries on."""

    def carried(self, place: int, largest: Value, highest: Value) -> LargestSoFar | None:
        last = self._of(highest, "maximum")
        if last is None:
            return None
        outer, least = last.operands
        joined = self._of(outer, "maximum")
        if joined is None or least.name in self.made or joined.operands[0] != largest:
            return None
        chain, own = [joined, last], joined.operands[1]
        while (step := self._of(own, "maximum")) is not None:
            moved = self.made.get(step.operands[1].name)
            if moved is None or not moved.is_(SHUFFLE) or moved.operands != step.operands[:1]:
                break
            chain[:0], own = [moved, step], step.operands[0]
        if len(chain) == 2 or any(self._is_used_beside(op, chain) for op in chain[:-1]):
            return None
        less = [op for op in self.users[highest.name] if self._is(op, "sub") and op.operands == (largest, highest)]
        rest = [op for op in self.users[highest.name] if op not in less and not self._is(op, "mul")]
        if len(less) != 1 or rest or {id(op) for op in self.users[largest.name]} != {id(joined), id(less[0])}:
            return None
        if self.others & {largest.name, less[0].result.name, *(op.result.name for op in chain)}:
            return None
        return self._scaled(place, largest, own, least, tuple(chain), less[0])

    def _scaled(
        self, place: int, largest: Value, own: Value, least: Value, chain: tuple[Op, ...], less: Op
    ) -> LargestSoFar | None:
        (times,) = self.users[less.result.name] if len(self.users[less.result.name]) == 1 else (less,)
        if not self._is(times, "mul") or len(self.users[times.result.name]) != 1:
            return None
        (power,) = self.users[times.result.name]
        rate = (
            next(value for value in times.operands if value != less.result)
            if times.operands[0] != times.operands[1]
            else None
        )
        if rate is None or not self._is(power, "exp2"):
            return None
        choice = self._of(rate, "where")
        rates = choice.operands[1:] if choice is not None else (rate,)
        if any(value.name in self.made or value.type != largest.type for value in rates):
            return None
        scaled = tuple(op for op in self._products_of(power.result) if self._is_sum_of_products(op.operands[0]))
        return LargestSoFar(place, largest, own, least, chain, rates, power.result, scaled)

    def _products_of(self, factor: Value) -> Iterator[Op]:
        """Multiplications by a factor of rows, in order."""
        names, waiting = set[str](), [factor.name]
        while waiting:
            if (name := waiting.pop()) not in names:
                names.add(name)
                waiting += [result.name for op in self.users[name] if op.is_(_SHAPES) for result in op.results]
        for op in self.made.values():
            if self._is(op, "mul") and op.operands[1].name in names:
                yield op

    def _is_sum_of_products(self, value: Value) -> bool:
        op = self.made.get(value.name)
        while op is not None and op.is_(_SHAPES):
            op = self.made.get(op.operands[0].name)
        return op is not None and op.is_(MMA_WAIT | MMA_ASYNC)

    def _is_used_beside(self, op: Op, chain: list[Op]) -> bool:
        return any(user not in chain for result in op.results for user in self.users[result.name])

    def _of(self, value: Value, function: str) -> Op | None:
        op = self.made.get(value.name)
        return op if op is not None and self._is(op, function) else None

    @staticmethod
    def _is(op: Op, function: str) -> bool:
        return op.is_(ELEMENTWISE) and op["function"] == function

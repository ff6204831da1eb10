"""The body of a loop goes in; its extremes come out, and the sums that steps scale by what these become.

Such a loop, as that of attention, carries the largest score so far and sums of what is relative to it: a step
multiplies the sums by `shrink`, which is made of the extreme before the step and that behind it, and adds its own.  A
loop over tiles makes the same of any tiles.  So what two workgroups have found of tiles of their own is joined as a
step would do it: the extreme of both, and the sums of each, scaled from its own extreme to that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wavespec.ir.kernel import Op, Region, Value
from wavespec.ir.rewriting import copied
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, MMA, REDUCE, REGISTER

_EXTREMES = ("maximum", "minimum")


@dataclass(frozen=True, slots=True)
class Extreme:
    """A carried value that is compared with what a step has found."""

    function: str
    found: Value


@dataclass(frozen=True, slots=True)
class ScaledSum:
    """A carried value that a step multiplies by ``factor`` before it adds its own."""

    factor: Value


class CarriedValues:
    """What the results of a loop's body are to the next step, by their number; others are in neither."""

    def __init__(self, dim: str, body: Region) -> None:
        self.dim, self.body = dim, body
        self.makers = {value.name: op for op in body.ops for value in op.results}
        self.depends = self._dependences()
        numbers = range(len(body.arguments))
        self.extremes = {number: found for number in numbers if (found := self._extreme(number))}
        self.sums = {number: found for number in numbers if (found := self._scaled_sum(number))}

    def scaling(
        self, joined: Mapping[int, Value], own: Sequence[Value], fresh: Callable[[str], str]
    ) -> tuple[list[Op], dict[int, Value]]:
        """What a step does with the sums of a workgroup whose loop ended with ``own``, where all of them together have
        found the extremes ``joined``: operations, and the factor of each sum."""
        names = {self.body.arguments[number].name: own[number] for number in self.extremes}
        names |= {self.extremes[number].found.name: value for number, value in joined.items()}
        needed = {one.factor.name for one in self.sums.values()}
        kept: list[Op] = []
        for op in reversed(self.body.ops):
            if op.results and op.result.name in needed and op.result.name not in names:
                kept.insert(0, op)
                needed.update(value.name for value in op.operands)
        ops = [copied(op, fresh, names) for op in kept]
        return ops, {number: names.get(one.factor.name, one.factor) for number, one in self.sums.items()}

    def _dependences(self) -> dict[str, frozenset[int]]:
        """By value, the numbers of the carried ones that it is made of."""
        found = {value.name: frozenset({number}) for number, value in enumerate(self.body.arguments)}
        for op in self.body.ops:
            used = (value.name for inner in op.walk() for value in inner.operands)
            of = frozenset[int]().union(*(found.get(name, frozenset()) for name in used))
            found |= {value.name: of for value in op.results}
        return found

    def _of(self, value: Value) -> frozenset[int]:
        return self.depends.get(value.name, frozenset())

    def _extreme(self, number: int) -> Extreme | None:
        argument, value = self.body.arguments[number], self.body.yields[number]
        functions = set[str]()
        while (op := self.makers.get(value.name)) is not None:
            if op.is_(CAST) and op.operands[0].tile.dtype == value.tile.dtype:
                value = op.operands[0]
                continue
            if not op.is_(ELEMENTWISE) or op["function"] not in _EXTREMES:
                return None
            functions.add(op["function"])
            if argument in op.operands:
                others = [one for one in op.operands if one != argument]
                alone = len(functions) == 1 and len(others) == 1 and not self._of(others[0])
                return Extreme(op["function"], others[0]) if alone else None
            within = [one for one in op.operands if number in self._of(one)]
            if len(within) != 1 or any(self._is_found(one) for one in op.operands if one != within[0]):
                return None
            (value,) = within
        return None

    def _is_found(self, value: Value) -> bool:
        """Whether a step's own values are in it; else it is a number."""
        op = self.makers.get(value.name)
        return op is not None and not op.is_(REGISTER)

    def _scaled_sum(self, number: int) -> ScaledSum | None:
        argument, value = self.body.arguments[number], self.body.yields[number]
        if number in self.extremes:
            return None
        chain = [value]
        while (op := self.makers.get(value.name)) is not None and number in self._of(value):
            added = self._added(op, number)
            if added is None:
                break
            value = added
            chain.append(value)
        op = self.makers.get(value.name)
        if op is None or not op.is_(ELEMENTWISE) or op["function"] != "mul" or argument not in op.operands:
            return None
        factors = [one for one in op.operands if one != argument]
        used = [one for inner in self.body.ops for each in inner.walk() for one in each.operands]
        alone = used.count(argument) == 1 and all(used.count(one) == 1 for one in chain[1:]) and chain[0] not in used
        alone = alone and self.body.yields.count(chain[0]) == 1
        return ScaledSum(factors[0]) if alone and len(factors) == 1 and self._scales(factors[0]) else None

    def _added(self, op: Op, number: int) -> Value | None:
        """What a step of the loop adds its own to: the part that the carried value is in."""
        if op.is_(MMA) and op["k"] == self.dim and not any(number in self._of(one) for one in op.operands[:2]):
            return op.operands[2]
        if not op.is_(ELEMENTWISE) or op["function"] != "add":
            return None
        inside = [one for one in op.operands if number in self._of(one)]
        own = [one for one in op.operands if number not in self._of(one)]
        if len(inside) != 1 or len(own) != 1:
            return None
        made = self.makers.get(own[0].name)
        sums = made is not None and made.is_(REDUCE) and made["dim"] == self.dim and made["function"] == "add"
        return inside[0] if sums and self._of(own[0]) <= self.extremes.keys() else None

    def _scales(self, value: Value) -> bool:
        """Whether a factor is made of extremes, before and behind the step, and of what is around the loop alone."""
        if not self._of(value) or not self._of(value) <= self.extremes.keys():
            return False
        given = {one.found.name for one in self.extremes.values()}
        given |= {self.body.arguments[number].name for number in self.extremes}
        pending = [value]
        while pending:
            one = pending.pop()
            op = self.makers.get(one.name)
            if one.name in given or op is None:
                continue
            if not op.is_(ELEMENTWISE | CAST | REGISTER):
                return False
            pending += op.operands
        return True

"""The plain graph of a spec goes in; whether workgroups may share out the steps of its loop of products comes out.

The pass that shares them out (`lower/split_k.py`) judges tiles and reports what stands against it. Who chooses a plan
asks before there are any, and has to be sure: what is not recognised here may be possible still.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wavespec.schema.made_kernels import words_of
from wavespec.schema.ops import (
    ELEMENTWISE,
    ArgReduce,
    Cast,
    Iterate,
    Joined,
    Mma,
    Op,
    Reduce,
    Register,
    Scan,
    Structured,
    Take,
    Topk,
    ValueType,
    walk,
)

_FOUND = {"maximum": "max", "minimum": "min"}
"""How a step finds an extreme, by how it is joined with that before."""
_ALONG = Reduce | Scan | ArgReduce | Joined | Topk | Take
"""What needs elements of a dim that other workgroups have."""
_SIDES = 2


def may_be_split(
    ops: Sequence[Op], types: Mapping[str, ValueType], dim: str, tiled: Sequence[str], alone: Sequence[str]
) -> bool:
    """Whether the steps of the loop over ``dim`` may be shared out, and the sums of all be added up behind it.

    Args:
        tiled: the rows of results and their columns.
        alone: dims of which a workgroup has one element.
    """
    loops = [op for op in walk(ops) if isinstance(op, Structured)]
    if len(loops) != 1 or len(tiled) != _SIDES or not all(tiled):
        return False
    (loop,) = loops
    if not isinstance(loop, Iterate) or loop.dim != dim or loop.step is not None or loop.until is not None:
        return False
    shapes = {frozenset(types[name].dims) - {*alone} for name in loop.carry}
    if not {frozenset(tiled)} <= shapes <= {frozenset(tiled), frozenset(tiled[:1])}:
        return False
    carried = Carried(loop, ops, types)
    # Workgroups have some rows each behind the loop; of products alone, some columns where these are further apart.
    shared = {*tiled[:1]} if carried.found else {*tiled}
    along = [op for op in ops if isinstance(op, _ALONG)]
    return carried.are_joined() and not any(shared & {*words_of(op), *getattr(op, "at", ())} for op in along)


class Carried:
    """What each step of a loop makes of what it carries. A carried name means what a step starts from until it is made
    anew; that has the name with a mark."""

    def __init__(self, loop: Iterate, ops: Sequence[Op], types: Mapping[str, ValueType]) -> None:
        self.loop, self.types = loop, types
        self.zeros = {op.name for op in ops if isinstance(op, Register) and op.value == 0}
        self.behind = {word for op in ops if op is not loop for word in words_of(op)}
        self.made: dict[str, Op] = {}
        self.used: dict[str, list[str]] = {}
        self.of: dict[str, frozenset[str]] = {name: frozenset({name}) for name in loop.carry}
        now = {name: name for name in loop.carry}
        for op in loop.body:
            name: str = getattr(op, "name", "")
            key = f"{name}'" if name in loop.carry else name
            self.made[key], self.used[key] = op, [now.get(word, word) for word in words_of(op) if word in types]
            self.of[key] = frozenset[str]().union(*(self.of.get(word, frozenset()) for word in self.used[key]))
            now[name] = key
        self.uses = [word for words in self.used.values() for word in words]
        self.factors: dict[str, str] = {}
        """By sum that a step scales, what it multiplies that by."""
        self.found = {name: found for name in loop.carry if (found := self._extreme(name))}

    def are_joined(self) -> bool:
        if self.found.keys() & self.behind:
            return False
        sums = [name for name in self.loop.carry if name not in self.found]
        return all(self._is_sum(name) and self.loop.carry[name] in self.zeros for name in sums)

    def _extreme(self, name: str) -> str:
        """What a step has found, where it carries the larger, or the smaller, of that and what it starts from."""
        key, words = f"{name}'", set[str]()
        while (op := self.made.get(key)) is not None:
            used = self.used[key]
            if isinstance(op, ELEMENTWISE) and op.word in _FOUND:
                words.add(op.word)
            elif not isinstance(op, Cast):
                return ""
            if name in used:
                found = next((one for one in used if one != name), "")
                is_found = words == {op.word} and self._joins(found, _FOUND[op.word]) and not self.of[found]
                return found if is_found else ""
            if len(used) != 1:
                return ""
            (key,) = used
        return ""

    def _is_sum(self, name: str) -> bool:
        """Whether a step multiplies what it starts from by a factor made of extremes, if there are some, and adds what
        is a sum along the dim."""
        key, chain = f"{name}'", list[str]()
        while key != name and (op := self.made.get(key)) is not None:
            used = self.used[key]
            within = [one for one in used if name in self.of.get(one, ())]
            others = [one for one in used if one not in within]
            if len(within) != 1 or self.uses.count(key) != bool(chain):
                return False
            chain.append(key)
            (key,) = within
            if isinstance(op, ELEMENTWISE) and op.word == "mul":
                is_scaled = key == name and self.uses.count(name) == 1 and len(others) == 1 and self._scales(others[0])
                self.factors |= {name: others[0]} if is_scaled else {}
                return is_scaled
            if not (self._adds_product(op, used, key) or self._adds_own(op, others)):
                return False
        products = [one for one in chain if isinstance(self.made[one], Mma)]
        return key == name and self.uses.count(name) == 1 and not self.found and products == chain

    def _adds_product(self, op: Op, used: Sequence[str], acc: str) -> bool:
        if not isinstance(op, Mma):
            return False
        lhs, rhs, sums = ({*self.types[one].dims} for one in (op.lhs, op.rhs, op.acc))
        return used[2] == acc and (lhs & rhs) - sums == {self.loop.dim}

    def _adds_own(self, op: Op, others: Sequence[str]) -> bool:
        if not isinstance(op, ELEMENTWISE) or op.word != "add" or len(others) != 1:
            return False
        return self._joins(others[0], "sum") and self.of[others[0]] <= self.found.keys()

    def _joins(self, name: str, word: str) -> bool:
        """Whether a step joins elements along the dim of the loop alone, and nothing else onto them."""
        op = self.made.get(name)
        if not isinstance(op, Reduce) or op.word != word:
            return False
        return op.along == (self.loop.dim,) and op.init is None and len(op.values) == 1

    def _scales(self, factor: str) -> bool:
        """Whether a factor is made of extremes, before and behind a step, and of what is around the loop."""
        pending, given = [factor], {*self.found, *self.found.values()}
        while pending:
            name = pending.pop()
            if name in given or name not in self.made:
                continue
            if not isinstance(self.made[name], (*ELEMENTWISE, Cast, Register)):
                return False
            pending += self.used[name]
        return bool(self.of.get(factor)) and self.of[factor] <= self.found.keys()

"""Thread kernel in, thread kernel out: written-out sums of products are made by instructions that multiply pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

from wavespec.ir.kernel import Kernel, Op, Value, VectorType, attribute_pairs
from wavespec.ir.thread_ops import CAST, ELEMENTWISE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import MatrixInstruction

_Factors = tuple[Value, ...]
"""One of each of the products that one instruction adds."""


class _Sum(NamedTuple):
    root: Op
    products: tuple[tuple[Value, Value], ...]
    others: tuple[Value, ...]


class MultiplyInPairs(Pass):
    """Add up products of 16-bit numbers by instructions that multiply pairs, where the spec asks for one of vectors.

    Before: sums of products of widened vectors, written out, such as the taps of a window for each channel.
    After:  of the products of a sum, those that are some number of places apart are one ``dot``, of vectors with the
            factors of both side by side: so many places that most of these vectors serve several sums.  What is left
            over is multiplied beside zeros.  A vector meets all that it is multiplied with before the next one.
    Cases:  one other term of a sum is what that starts from; sums with several stay.
    """

    name: ClassVar[str] = "multiply-in-pairs"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        row = pairing_instruction(kernel, machine)
        sums = _sums(kernel, row) if row is not None else []
        if row is None or not sums:
            return kernel
        first = kernel.body.index(sums[0].root)
        behind = {value.name for op in kernel.body[first:] for value in op.results}
        if any(value.name in behind for one in sums for value in _needed(one)):
            return kernel
        made = tuple(_Dots(row, fresh_names(kernel)).of(sums))
        replaced = {one.root.result.name for one in sums}
        rest = tuple(op for op in kernel.body[first:] if not (op.results and op.results[0].name in replaced))
        return replace(kernel, body=(*kernel.body[:first], *made, *rest))


def pairing_instruction(kernel: Kernel, machine: Machine) -> MatrixInstruction | None:
    """The instruction that the spec asks for, where it multiplies pairs of elements as tensors have them, or one that
    takes less time for the same."""
    written, dtypes = kernel.distribution.instruction, {memory.dtype for memory in kernel.memories}
    named = [row for row in machine.instructions if row.of_lanes and written in (row.family, row.name)]
    singly = (row for row in named if row.written_out and not dtypes.isdisjoint(row.inputs))
    return next(singly, next((row for row in named if row.k == 2 and row.a.dtype in dtypes), None))


def _needed(one: _Sum) -> Iterator[Value]:
    yield from one.others
    for factors in one.products:
        yield from factors


def _sums(kernel: Kernel, row: MatrixInstruction) -> list[_Sum]:
    """Those of several products and at most one other term, in the order of their last additions."""
    makers = {op.results[0].name: op for op in kernel.body if op.is_(CAST, ELEMENTWISE)}
    inner = [op for outer in kernel.body for op in outer.walk()]
    uses = Counter(value.name for op in inner for value in op.operands)
    uses.update(value.name for op in inner if op.region for value in op.region.yields)

    def function(value: Value) -> str:
        op = makers.get(value.name)
        return op["function"] if op is not None and op.is_(ELEMENTWISE) else ""

    def terms(value: Value) -> Iterator[Value]:
        waiting = [value]  # a function that calls itself here would keep the kernel until the next search for cycles
        while waiting:
            one = waiting.pop()
            if one is value or (function(one) == "add" and uses[one.name] == 1):
                waiting += reversed(makers[one.name].operands)
            else:
                yield one

    def factors(term: Value) -> tuple[Value, Value] | None:
        if function(term) != "mul" or uses[term.name] > 1:
            return None
        left, right = map(narrow, makers[term.name].operands)
        taken = row.inputs if row.k == 1 else (row.a.dtype,)
        return None if {left.vector.dtype, right.vector.dtype}.difference(taken) else (left, right)

    def narrow(value: Value) -> Value:
        op = makers.get(value.name)
        return op.operands[0] if op is not None and op.is_(CAST) else value

    adds = [op for op in kernel.body if op.is_(ELEMENTWISE) and op["function"] == "add"]
    parts = {value.name for op in adds for value in op.operands if uses[value.name] == 1}
    found: list[_Sum] = []
    for op in adds:
        if op.result.name in parts or op.result.vector != VectorType(row.acc.dtype, row.n):
            continue
        every = [(term, factors(term)) for term in terms(op.result)]
        products = tuple(product for _, product in every if product is not None)
        others = tuple(term for term, product in every if product is None)
        if len(products) > 1 and len(others) <= 1:
            found.append(_Sum(op, products, others))
    return found


class _Dots:
    """Makes the operations of sums."""

    def __init__(self, row: MatrixInstruction, fresh: Callable[[str], str]) -> None:
        self.row, self.fresh = row, fresh
        self.ops: list[Op] = []
        self.joined = dict[tuple[str, ...], Value]()

    def of(self, sums: Sequence[_Sum]) -> list[Op]:
        apart = _distance(sums) if self.row.k > 1 else max(len(one.products) for one in sums)
        parts = [_taken(len(one.products), apart) for one in sums]
        ends = [one.others[0] if one.others else self._zero(one.root.result.vector, one.root) for one in sums]
        left = [len(part) for part in parts]
        for uses in _by_factor(sums, parts).values():
            for at, several in uses:
                one = sums[at]
                left[at] -= 1
                factors = [self._side_by_side(tuple(p[side] for p in several), one.root) for side in (0, 1)]
                result = Value(self.fresh(one.root.result.name), one.root.result.type) if left[at] else one.root.result
                self._make(
                    "dot", (*factors, ends[at]), result, one.root, instruction=self.row.name, start=0, runs=self.row.n
                )
                ends[at] = result
        return self.ops

    def _side_by_side(self, values: _Factors, op: Op) -> Value:
        key = tuple(value.name for value in values)
        if self.row.k == 1:
            return self._widened(values[0], op)
        if key not in self.joined:
            type_, count = values[0].vector, self.row.k
            whole = replace(type_, elements=count * type_.elements)
            both = (*values, *(self._zero(type_, op) for _ in range(count - len(values))))
            packed = self._make("pack", both, Value(self.fresh(values[0].name), whole), op)
            turned = Value(self.fresh(values[0].name), whole)
            self.joined[key] = self._make(
                "transpose", (packed,), turned, op, rows=count, columns=type_.elements, unit=1
            )
        return self.joined[key]

    def _widened(self, value: Value, op: Op) -> Value:
        if value.vector.dtype == self.row.a.dtype:
            return value
        if (value.name,) not in self.joined:
            widened = Value(self.fresh(value.name), replace(value.vector, dtype=self.row.a.dtype))
            self.joined[(value.name,)] = self._make("cast", (value,), widened, op)
        return self.joined[(value.name,)]

    def _zero(self, type_: VectorType, op: Op) -> Value:
        key = ("", str(type_))
        if key not in self.joined:
            self.joined[key] = self._make("constant", (), Value(self.fresh("zero"), type_), op, value=0.0)
        return self.joined[key]

    def _make(self, name: str, operands: tuple[Value, ...], result: Value, op: Op, **attributes: object) -> Value:
        pairs = attribute_pairs(attributes)
        self.ops.append(Op(name, operands, (result,), pairs, span=op.span, node=op.node))
        return result


def _taken(count: int, apart: int) -> list[tuple[int, ...]]:
    """Numbers of products that are one instruction: pairs, then what is left over."""
    pairs: list[tuple[int, ...]] = []
    free = dict.fromkeys(range(count))
    for at in range(count):
        if at in free and at + apart in free:
            pairs.append((at, at + apart))
            del free[at], free[at + apart]
    return [*pairs, *((at,) for at in free)]


def _distance(sums: Sequence[_Sum]) -> int:
    """How far apart products are that are one instruction: where instructions and vectors made for them are fewest."""

    def cost(apart: int) -> int:
        parts = [_taken(len(one.products), apart) for one in sums]
        made = {tuple(p[side].name for p in several) for _, several in _uses(sums, parts) for side in (0, 1)}
        return sum(map(len, parts)) + sum(map(len, made))

    return min(range(1, max(len(one.products) for one in sums)), key=cost)


def _uses(
    sums: Sequence[_Sum], parts: Sequence[Sequence[tuple[int, ...]]]
) -> Iterator[tuple[int, tuple[tuple[Value, Value], ...]]]:
    """The products of each instruction, of all sums in turn."""
    for step in range(max(map(len, parts))):
        for at, (one, part) in enumerate(zip(sums, parts, strict=True)):
            if step < len(part):
                yield at, tuple(one.products[number] for number in part[step])


def _by_factor(
    sums: Sequence[_Sum], parts: Sequence[Sequence[tuple[int, ...]]]
) -> Mapping[tuple[str, ...], list[tuple[int, tuple[tuple[Value, Value], ...]]]]:
    """The same by the first factors."""
    found = dict[tuple[str, ...], list[tuple[int, tuple[tuple[Value, Value], ...]]]]()
    for at, several in _uses(sums, parts):
        found.setdefault(tuple(left.name for left, _ in several), []).append((at, several))
    return found

"""Tile kernel in, tile kernel out: what running sums of f32 start from is carried in a type that keeps its error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.kernel import Kernel, Op, Value, attribute_pairs, rewrite
from wavespec.ir.tile_ops import CAST, ITERATE, REDUCE, SCAN
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.tile_properties import is_of_tiles
from wavespec.targets.machine import Machine


class CarryRunningSums(Pass):
    """Carry what running sums start from in a type that keeps its error, and add it as two numbers.

    Before: a loop carries a sum of f32, from which running sums of its steps start.
    After:  it is carried in the machine's type for such (`Machine.carried_sums`).  Sums of a step are of f32, from
            zero, of few numbers; an element adds to its own first what the carried sum is beside its f32, then that.
            What else uses the carried sum has it rounded.
    Cases:  a sum that starts as a larger type, rounded, starts as that.
    """

    name: ClassVar[str] = "carry-running-sums"
    requires = (is_of_tiles,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if not machine.carried_sums:
            return kernel
        wide, fresh = DTYPES[machine.carried_sums], fresh_names(kernel)
        made = {op.result.name: op for op in kernel.walk() if op.is_(CAST)}

        def changed(loop: Op) -> tuple[Op, ...]:
            before, behind = list[Op](), list[Op]()
            for number in range(len(loop.operands)):
                total = _total(loop, number)
                if total is not None:
                    carried = _Carried(loop, number, total, wide, fresh)
                    start = made.get(loop.operands[number].name)
                    loop = carried.loop_from(start, before, behind)
            return (*before, loop, *behind)

        return replace(kernel, body=rewrite(kernel.body, changed, ITERATE))


def _total(loop: Op, number: int) -> Op | None:
    """The sum that a loop carries under a number, where running sums start from it."""
    argument, last = loop.body.arguments[number], loop.body.yields[number]
    made = next((op for op in loop.body.ops if last in op.results), None)
    if made is None or not made.is_(REDUCE) or made["function"] != "add" or made["divided"]:
        return None
    if made.operands[1:] != (argument,) or argument.tile.dtype is not DTYPES["f32"]:
        return None
    return made if any(_starts_from(op, argument) for op in loop.body.ops) else None


def _starts_from(op: Op, argument: Value) -> bool:
    return op.is_(SCAN) and op["function"] == "add" and op.operands[1:] == (argument,)


class _Carried:
    """The loop whose carried value of a number, made by ``total``, is a ``wide`` one."""

    def __init__(self, loop: Op, number: int, total: Op, wide: DType, fresh: Callable[[str], str]) -> None:
        self.loop, self.number, self.total, self.wide, self.fresh = loop, number, total, wide, fresh
        self.narrow = loop.body.arguments[number]
        self.carried, self.sum, self.end = (self._like(self.narrow, wide) for _ in range(3))
        self.rest = self._like(self.narrow)

    def loop_from(self, start: Op | None, before: list[Op], behind: list[Op]) -> Op:
        """It, with what has to be in front of it and behind it appended; ``start``: what converts its start, if so."""
        loop, number, body = self.loop, self.number, self.loop.body
        ops = [*self._two_numbers(), *(one for op in body.ops for one in self._changed(op))]
        if start is not None and start.operands[0].tile.dtype is self.wide:
            first = start.operands[0]
        else:
            first = self._like(self.narrow, self.wide)
            before.append(self._cast(loop.operands[number], first))
        behind.append(self._cast(self.end, loop.results[number]))
        region = replace(
            body,
            arguments=_put(body.arguments, number, self.carried),
            ops=tuple(ops),
            yields=_put(body.yields, number, self.sum),
        )
        operands, results = _put(loop.operands, number, first), _put(loop.results, number, self.end)
        return replace(loop, operands=operands, results=results, region=region)

    def _two_numbers(self) -> list[Op]:
        """The carried sum as f32, and what it is beside that; of an infinity, which has nothing beside it, itself."""
        high, beside, low = (self._like(self.narrow, dtype) for dtype in (self.wide, self.wide, None))
        is_finite = self._like(self.narrow, DTYPES["bool"])
        return [
            self._cast(self.carried, self.narrow),
            self._cast(self.narrow, high),
            self._made("sub", beside, self.carried, high),
            self._cast(beside, low),
            self._made("isfinite", is_finite, self.narrow),
            self._made("where", self.rest, is_finite, low, self.narrow),
        ]

    def _changed(self, op: Op) -> list[Op]:
        if op is self.total:
            here, wide = self._like(op.result), self._like(op.result, self.wide)
            alone = replace(op, operands=op.operands[:1], results=(here,))
            added = self._made("add", self.sum, self.carried, wide)
            rounded = [self._cast(self.sum, op.result)] if self._is_used(op.result) else []
            return [alone, self._cast(here, wide), added, *rounded]
        if _starts_from(op, self.narrow):
            here, near = self._like(op.result), self._like(op.result)
            alone = replace(op, operands=op.operands[:1], results=(here,))
            return [alone, self._made("add", near, here, self.rest), self._made("add", op.result, near, self.narrow)]
        return [op]

    def _is_used(self, value: Value) -> bool:
        inner = (one for op in self.loop.body.ops for one in op.walk())
        return any(value in (*op.operands, *(op.region.yields if op.region else ())) for op in inner)

    def _like(self, value: Value, dtype: DType | None = None) -> Value:
        return Value(self.fresh(value.name), replace(value.tile, dtype=dtype or value.tile.dtype))

    def _made(self, function: str, result: Value, *operands: Value) -> Op:
        pairs = attribute_pairs({"function": function})
        return Op("elementwise", operands, (result,), pairs, None, self.total.span, self.total.node)

    def _cast(self, value: Value, result: Value) -> Op:
        return Op("cast", (value,), (result,), attribute_pairs({}), None, self.total.span, self.total.node)


def _put(values: tuple[Value, ...], number: int, value: Value) -> tuple[Value, ...]:
    return (*values[:number], value, *values[number + 1 :])

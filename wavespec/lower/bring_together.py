"""Tile kernel and layouts in; the kernel out in which values that meet have the same layout."""

from __future__ import annotations

import operator
from dataclasses import replace

from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Op, Region, Value, attribute_pairs
from wavespec.ir.layout import Layout
from wavespec.ir.tile_ops import ALIKE, DOT, JOINED, MMA, PURE, READ, REDUCE, SCAN, TAKE, TOPK
from wavespec.lower.base import fresh_names
from wavespec.ops.index_map import index_of


def bring_together(kernel: Kernel, layouts: dict[str, Layout]) -> Kernel:
    """The kernel with a `take` where a value that an operation has is not where the others of it are.

    ``layouts`` gets those of the new values.
    """
    meeting = _Meeting(kernel, layouts)
    body = meeting.block(kernel.body)
    indices = (index_of(dim) for dim in sorted(meeting.taken))
    return kernel if body is kernel.body else replace(kernel.with_symbols(*indices), body=body)


def alike(op: Op) -> list[tuple[Value, ...]]:
    """Values that are distributed in the same way, as far as they have the same dims; the first ones have them all."""
    if op.region:
        groups = (op.results, op.operands, op.region.arguments, op.region.yields)
        return [tuple(values[i] for values in groups) for i in range(len(op.results))]
    if op.is_(MMA, DOT):
        return [(op.result, op.operands[2])]
    if op.is_(REDUCE, SCAN):  # what it starts from, and the result of the first, lack a dim of the operand
        return [(op.operands[0], op.result, *op.operands[1:])]
    if op.is_(JOINED):
        return [(*op.operands, *op.results)]
    if op.is_(TOPK):
        words = len(op.results)
        return [op.operands[:words], (*op.results, *op.operands[words:])]
    if op.is_(TAKE):
        return [(op.result, *op.operands[1:])]
    return [(*op.results, *op.operands)] if op.is_(ALIKE) else []


def layout_like(known: Value, layout: Layout, value: Value) -> Layout:
    """The layout of a value with the dims of ``known``, or some of them."""
    whole = set(value.tile.dims) == set(known.tile.dims)
    return layout if whole else layout.projected(value.tile.dims)


class _Meeting:
    def __init__(self, kernel: Kernel, layouts: dict[str, Layout]) -> None:
        self.kernel, self.layouts, self.fresh = kernel, layouts, fresh_names(kernel)
        self.taken = set[str]()
        """Dims of what is taken."""
        self.makers = {op.result.name: op for op in kernel.walk() if len(op.results) == 1}

    def block(self, ops: tuple[Op, ...]) -> tuple[Op, ...]:
        result = tuple(one for op in ops for one in self._met(op))
        return ops if len(result) == len(ops) and all(map(operator.is_, result, ops)) else result

    def _met(self, op: Op) -> list[Op]:
        if op.get("by_unit"):
            return [op]
        if op.region:
            return self._met_region(op, op.region)
        before, after, used, made = list[Op](), list[Op](), dict[str, Value](), dict[str, Value]()
        for whole, *parts in alike(op):
            for part in parts:
                if part in op.results:
                    made[part.name] = self._made(whole, part, op, after)
                else:
                    used[part.name] = self._used(whole, part, op, before)
        if not before and not after:
            return [op]
        operands = tuple(used.get(value.name, value) for value in op.operands)
        results = tuple(made.get(value.name, value) for value in op.results)
        return [*before, replace(op, operands=operands, results=results), *after]

    def _met_region(self, op: Op, region: Region) -> list[Op]:
        before, start, end = list[Op](), list[Op](), list[Op]()
        inside = self.block(region.ops)
        operands = [self._used(*pair, op, before) for pair in zip(op.results, op.operands, strict=True)]
        arguments = [self._made(*pair, op, start) for pair in zip(op.results, region.arguments, strict=True)]
        yields = [self._used(*pair, op, end) for pair in zip(op.results, region.yields, strict=True)]
        if not before and not start and not end and inside is region.ops:
            return [op]
        region = Region(tuple(arguments), (*start, *inside, *end), tuple(yields))
        return [*before, replace(op, operands=tuple(operands), region=region)]

    def _used(self, whole: Value, part: Value, op: Op, before: list[Op]) -> Value:
        """What an operation takes in place of ``part``, where that is elsewhere; what makes it goes to ``before``."""
        expected = layout_like(whole, self.layouts[whole.name], part)
        if self.layouts[part.name] == expected:
            return part
        value = self._named(part, expected)
        maker = self.makers.get(part.name)
        again = maker is not None and self._is_made_again(maker)
        before.append(replace(maker, results=(value,)) if maker and again else self._taken(part, value, op))
        return value

    def _made(self, whole: Value, part: Value, op: Op, after: list[Op]) -> Value:
        """What an operation makes in place of ``part``, which ``after`` makes of it."""
        expected = layout_like(whole, self.layouts[whole.name], part)
        if self.layouts[part.name] == expected:
            return part
        value = self._named(part, expected)
        after.append(self._taken(value, part, op))
        return value

    def _named(self, like: Value, layout: Layout) -> Value:
        value = Value(self.fresh(like.name), like.type)
        self.layouts[value.name] = layout
        return value

    def _is_made_again(self, maker: Op) -> bool:
        """Whether it costs less to make a value once more than to hand it on."""
        is_input = maker.is_(READ) and self.kernel.memory(maker["memory"]).role == "input"
        return not maker.operands and (maker.is_(PURE) or is_input)

    def _taken(self, value: Value, result: Value, op: Op) -> Op:
        dims = value.tile.dims
        self.taken.update(dims)
        places = {"at": tuple((dim, index_of(dim)) for dim in dims), "origin": tuple((dim, const(0)) for dim in dims)}
        attributes = attribute_pairs({**places, "over": dims})
        return Op("take", (value,), (result,), attributes, span=op.span, node=op.node)

"""Tile kernel in, tile kernel out: what is read around a row is left out behind the read, for all who join elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.comparing import key_of_attributes
from wavespec.ir.kernel import Kernel, Op, attribute_pairs, rewrite
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, ITERATE, JOIN, PAD, READ, REDUCE, WRITE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.tile_properties import accesses_are_masked
from wavespec.lower.value_ranges import ANY, LARGEST, Range, range_of
from wavespec.ops.reduce import identity
from wavespec.targets.machine import Machine

_NUMBERS = (-math.inf, 0.0, math.inf)


class PadReads(Pass):
    """Replace what an access reads around a row right behind it, where one number suits all who join elements.

    Before: each masked ``reduce``, ``join`` and ``pad`` of what was read ``around`` a row leaves out what is not in it.
    After:  a ``pad`` of what is read does, in the type of the tensor, where that puts beyond the edge what each of them
            would: minus infinity where the largest element is looked for and powers of e of what is less are added up,
            0 for sums of squares.  Where no number does and squares are added up, what these are of becomes 0 there.
            A largest element is taken for a number: where it is minus infinity all elements are, and what is computed
            of those is what is computed beyond the edge.
    """

    name: ClassVar[str] = "pad-reads"
    requires = (accesses_are_masked,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh = fresh_names(kernel)

        def padded(ops: tuple[Op, ...]) -> tuple[Op, ...]:
            for reads in _reads_around(ops):
                (dim,) = reads[0]["masked"]
                if not _may_be_empty(kernel, dim):
                    ops = _padded(ops, dim, frozenset(op.result.name for op in reads), fresh)
            return _with_padded_roots(ops, fresh)

        def change(loop: Op) -> tuple[Op, ...]:
            ops = padded(loop.body.ops)
            return (loop if ops is loop.body.ops else replace(loop, region=replace(loop.body, ops=ops)),)

        return replace(kernel, body=padded(rewrite(kernel.body, change, ITERATE)))


def _reads_around(ops: Sequence[Op]) -> list[list[Op]]:
    """Reads of rows that start anywhere, those of the same elements together."""
    equal = dict[tuple[Hashable, ...], list[Op]]()
    for op in ops:
        if op.is_(READ) and op.get("around") and len(op["masked"]) == 1 and op.result.tile.dtype.is_float:
            equal.setdefault((*key_of_attributes(op), op.result.type), []).append(op)
    return list(equal.values())


def _may_be_empty(kernel: Kernel, dim: str) -> bool:
    """Whether something is written where a call finds the dim empty, and no element is the largest."""
    if (kernel.all_sizes[dim].low or 0) > 0:
        return False
    return any(dim not in kernel.memory(op["memory"]).dims for op in kernel.walk() if op.is_(WRITE))


def _padded(ops: tuple[Op, ...], dim: str, reads: frozenset[str], fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """The operations with a number beyond the edge of what is read, if there is one for all."""
    found = ((number, _who_join(ops, dim, reads, number)) for number in _NUMBERS)
    number, joins = next(((number, joins) for number, joins in found if joins), (0.0, frozenset[str]()))
    if not joins:
        return ops
    edge = next(op for op in ops if _result(op) in joins)
    return _pads_moved(ops, edge, reads, joins, number, fresh)


def _pads_moved(
    ops: tuple[Op, ...],
    edge: Op,
    to: Collection[str],
    joins: Collection[str],
    number: float,
    fresh: Callable[[str], str],
) -> tuple[Op, ...]:
    """The operations with ``number`` beyond the edge of the values ``to``, which ``joins`` leave out no more."""
    what = {key: edge[key] for key in ("dim", "origin", "size")} | {"value": number, "masked": True}
    made: list[Op] = []
    for op in ops:
        if _result(op) in to:
            before = replace(op.result, name=fresh(op.result.name))
            pad = Op("pad", (before,), op.results, attribute_pairs(what), span=op.span, node=op.node)
            made += [replace(op, results=(before,)), pad]
        else:
            made.append(op.with_(masked=False) if _result(op) in joins else op)
    return tuple(made)


def _with_padded_roots(ops: tuple[Op, ...], fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """The operations with 0 in front of and behind a row of numbers whose squares are added up: their sums may be one
    chain of multiply-adds then."""
    made = {_result(op): op for op in ops}
    for op in ops:
        if not op.is_(REDUCE, JOIN) or not op.get("masked") or op["function"] != "add":
            continue
        squares = made.get(op.operands[1 if op.is_(JOIN) else 0].name)
        (start,) = (at for dim, at in op["origin"] if dim == op["dim"])
        if squares is None or start.low is None or start.low >= 0 or not _is_square(squares):
            continue
        if squares.operands[0].name in made:
            ops = _pads_moved(ops, op, {squares.operands[0].name}, {op.result.name}, 0.0, fresh)
    return ops


def _is_square(op: Op) -> bool:
    is_product = op.is_(ELEMENTWISE) and op["function"] == "mul" and op.result.tile.dtype.is_float
    return is_product and op.operands[0] == op.operands[1] and op.operands[0].type == op.result.type


def _result(op: Op) -> str:
    return op.result.name if len(op.results) == 1 else ""


def _who_join(ops: Sequence[Op], dim: str, reads: frozenset[str], number: float) -> frozenset[str]:
    """The results of all who leave out what is computed of the reads beyond the edge, if ``number`` there puts before
    each of them what it would, else none."""
    beyond, inside = dict[str, Range].fromkeys(reads, (number, number)), dict[str, Range]()
    joins = set[str]()
    for op in ops:
        if not any(value.name in beyond or value.name in inside for value in op.operands) or not _result(op):
            continue
        if op.is_(REDUCE, JOIN, PAD) and op.get("masked") and op["dim"] == dim:
            value = op.operands[1 if op.is_(JOIN) else 0]
            if value.name not in beyond:
                continue
            wanted = op["value"] if op.is_(PAD) else identity(op["function"], value.tile.dtype)
            if beyond[value.name] != (wanted, wanted):
                return frozenset()
            joins.add(op.result.name)
            if op.is_(REDUCE) and math.isinf(wanted):
                inside[op.result.name] = (-LARGEST, math.inf) if wanted < 0 else (-math.inf, LARGEST)
            if not op.is_(PAD):
                continue
        operands = [beyond.get(value.name, inside.get(value.name, ANY)) for value in op.operands]
        # What any number stands for may be NaN along the dim; elsewhere NaN is that of all elements.
        unknown = any(one == ANY and dim in value.tile.dims for one, value in zip(operands, op.operands, strict=True))
        is_known = op.is_(CAST, ELEMENTWISE) and op.get("function") != "where" and not unknown
        made = range_of(op, operands) if is_known else operands[0] if op.is_(PAD) else ANY
        (beyond if dim in op.result.tile.dims else inside)[op.result.name] = made
    return frozenset(joins)

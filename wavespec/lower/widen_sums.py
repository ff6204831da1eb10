"""Tile kernel in, tile kernel out: running and carried sums are made in a type that keeps their error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.dtype import DTYPES, DType, computed
from wavespec.ir.kernel import Kernel, Op, Value, attribute_pairs, rewrite
from wavespec.ir.rewriting import renamed, uses_in, uses_of
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, ITERATE, JOINED, REDUCE, SCAN
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.tile_properties import is_of_tiles
from wavespec.ops.joining import Joining
from wavespec.ops.reduce import identity
from wavespec.targets.machine import Machine

_ROUNDED = ("add", "mul")
"""Functions that round; extremes do not."""
_MADE_LONG = SCAN | JOINED | REDUCE


class WidenSums(Pass):
    """Make running sums, and sums that steps carry, in a type that keeps the error of a long dim.

    Before: a scan has the type of its elements, and what a loop adds up has the type that the spec carries.
    After:  running sums, and products, of f32 are made in the machine's type for long ones (`Machine.long_sums`) and
            rounded once.  A sum or product that a loop carries is in that type where such a scan starts from it, and in
            f32 where it is of smaller floats, so that it is not rounded in each step; what else the loop does with it
            takes it rounded, as what is behind the loop does.  Sums of small floats that a loop adds to a carried value
            start from it, and what a loop converts to join it, as flags, is carried as what it is joined in.
    """

    name: ClassVar[str] = "widen-sums"
    requires = (is_of_tiles,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh = fresh_names(kernel)
        wide = DTYPES[machine.long_sums] if machine.long_sums else None
        body = rewrite(kernel.body, lambda op: _carried(op, wide, fresh), ITERATE)
        if wide is not None:
            body = rewrite(body, lambda op: _in_long(op, wide, fresh), _MADE_LONG)
        return replace(kernel, body=body)


def _in_long(op: Op, wide: DType, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """What grows long of f32 made in ``wide``, between a conversion and another."""
    if not _grows_long(op):
        return (op,)
    if op.is_(JOINED):
        (way,) = (how for how in _ROUNDED if op["combine"] == _joining(how, DTYPES["f32"]))
        op = op.with_(combine=_joining(way, wide))
    value, *init = op.operands
    before, operand = _cast(value, wide, op, fresh)
    result = _with_dtype(op.result, wide, fresh)
    made = replace(op, operands=(operand, *init), results=(result,))
    return before, made, _cast_to(result, op.result, op)


def _grows_long(op: Op) -> bool:
    """Whether it is a running sum or product of f32, or a product, of which each factor's rounding stays to the end."""
    if op.results[0].tile.dtype is not DTYPES["f32"]:
        return False
    if op.is_(JOINED):
        return op["running"] and op["combine"] in [_joining(how, DTYPES["f32"]) for how in _ROUNDED]
    return op.is_(SCAN, REDUCE) and op["function"] in (("mul",) if op.is_(REDUCE) else _ROUNDED)


def _joining(function: str, dtype: DType) -> str:
    return str(Joining.of(function, dtype, identity(function, dtype)))


def _carried(loop: Op, wide: DType | None, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    before, behind = list[Op](), list[Op]()
    for number in range(len(loop.operands)):
        loop = _starting_from(_as_joined(loop, number, fresh, before, behind), number)
        argument = loop.body.arguments[number]
        made = next((op for op in loop.body.ops if loop.body.yields[number] in op.results), None)
        if made is not None and made.operands[1:] == (argument,) and made.is_(REDUCE) and made["function"] in _ROUNDED:
            dtype = _dtype_of_sum(loop, argument, made, wide)
            if dtype is not argument.tile.dtype:
                loop = _with_sum(loop, number, made, dtype, fresh, before, behind)
    return (*before, loop, *behind)


def _as_joined(loop: Op, number: int, fresh: Callable[[str], str], before: list[Op], behind: list[Op]) -> Op:
    """The loop with a value that it converts, joins to others and converts back carried as what it is joined in."""
    body, argument, last = loop.body, loop.body.arguments[number], loop.body.yields[number]
    back = next((op for op in body.ops if last in op.results and op.is_(CAST)), None)
    made = back and next((op for op in body.ops if back.operands[0] in op.results and op.is_(REDUCE)), None)
    if back is None or made is None or len(made.operands) < 2:
        return loop
    there = next((op for op in body.ops if made.operands[1] in op.results and op.is_(CAST)), None)
    if there is None or there.operands != (argument,):
        return loop
    once = (argument, there.result, made.result, last)
    if any(uses_in(body, value) > 1 for value in once) or back.get("bias") or there.get("bias"):
        return loop
    start, value = _cast(loop.operands[number], made.result.tile.dtype, made, fresh)
    end = _with_dtype(loop.results[number], made.result.tile.dtype, fresh)
    before.append(start)
    behind.append(_cast_to(end, loop.results[number], made))
    region = replace(
        body,
        arguments=_put(body.arguments, number, there.result),
        ops=tuple(op for op in body.ops if op is not there and op is not back),
        yields=_put(body.yields, number, made.result),
    )
    return replace(
        loop, operands=_put(loop.operands, number, value), results=_put(loop.results, number, end), region=region
    )


def _put(values: tuple[Value, ...], number: int, value: Value) -> tuple[Value, ...]:
    return (*values[:number], value, *values[number + 1 :])


def _starting_from(loop: Op, number: int) -> Op:
    """The loop with a sum of small floats that it adds to a carried value as one that starts from it."""
    body, argument, last = loop.body, loop.body.arguments[number], loop.body.yields[number]
    added = next((op for op in body.ops if last in op.results and op.is_(ELEMENTWISE)), None)
    if added is None or added["function"] != "add" or computed(argument.tile.dtype) is argument.tile.dtype:
        return loop
    parts = [value for value in added.operands if value is not argument]
    made = next((op for op in body.ops if op.is_(REDUCE) and list(op.results) == parts), None)
    if made is None or len(made.operands) > 1 or made["function"] != "add" or made["divided"]:
        return loop
    if made.result.type != last.type or uses_in(body, made.result) > 1:
        return loop
    start = replace(made, operands=(*made.operands, argument), results=(last,))
    ops = tuple(start if op is made else op for op in body.ops if op is not added)
    return replace(loop, region=replace(body, ops=ops))


def _dtype_of_sum(loop: Op, argument: Value, made: Op, wide: DType | None) -> DType:
    """``wide`` where what grows long starts from what is carried; small floats are f32."""
    starts = [op for op in loop.body.ops if op is made or (op.is_(SCAN, JOINED) and argument in op.operands[1:])]
    if wide is not None and any(map(_grows_long, starts)):
        return wide
    dtype = argument.tile.dtype
    return computed(dtype) if dtype.is_float else dtype


def _with_sum(
    loop: Op,
    number: int,
    made: Op,
    dtype: DType,
    fresh: Callable[[str], str],
    before: list[Op],
    behind: list[Op],
) -> Op:
    """The loop with the sum of that number carried as a ``dtype``; conversions around it are appended."""
    body, argument = loop.body, loop.body.arguments[number]
    start, start_value = _cast(loop.operands[number], dtype, made, fresh)
    before.append(start)
    carried, total, end = (_with_dtype(argument, dtype, fresh) for _ in range(3))
    behind.append(_cast_to(end, loop.results[number], made))
    ops: list[Op] = []
    for op in body.ops:
        if op is made:
            widened, operand = _cast(made.operands[0], dtype, made, fresh)
            ops += [widened, replace(made, operands=(operand, carried), results=(total,))]
            ops += [_cast_to(total, made.result, made)] * (uses_in(body, made.result) > 1)
        elif op.is_(SCAN, JOINED) and argument in op.operands[1:] and argument is not op.operands[0]:
            ops.append(renamed(op, {argument.name: carried}))
        else:
            ops.append(op)
    if any(argument in uses_of(op) for op in ops) or argument in body.yields:
        ops.insert(0, _cast_to(carried, argument, made))

    region = replace(
        body, arguments=_put(body.arguments, number, carried), ops=tuple(ops), yields=_put(body.yields, number, total)
    )
    return replace(
        loop, operands=_put(loop.operands, number, start_value), results=_put(loop.results, number, end), region=region
    )


def _with_dtype(value: Value, dtype: DType, fresh: Callable[[str], str]) -> Value:
    return Value(fresh(value.name), replace(value.tile, dtype=dtype))


def _cast(value: Value, dtype: DType, of: Op, fresh: Callable[[str], str]) -> tuple[Op, Value]:
    result = _with_dtype(value, dtype, fresh)
    return _cast_to(value, result, of), result


def _cast_to(value: Value, result: Value, of: Op) -> Op:
    return Op("cast", (value,), (result,), attribute_pairs({}), None, of.span, of.node)

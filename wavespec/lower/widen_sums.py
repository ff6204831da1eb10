"""Tile kernel in, tile kernel out: running and carried sums are made in a type that keeps their error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.dtype import DTYPES, DType, computed
from wavespec.ir.kernel import Kernel, Op, Region, Value, attribute_pairs, rewrite
from wavespec.ir.rewriting import renamed
from wavespec.ir.tile_ops import ITERATE, JOINED, REDUCE, SCAN
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.tile_properties import is_of_tiles
from wavespec.ops.joining import Joining
from wavespec.ops.reduce import identity
from wavespec.targets.machine import Machine

_ROUNDED = ("add", "mul")
"""Functions that round; extremes do not."""


class WidenSums(Pass):
    """Make running sums, and sums that steps carry, in a type that keeps the error of a long dim.

    Before: a scan has the type of its elements, and what a loop adds up has the type that the spec carries.
    After:  running sums and products of f32 are made in the machine's type for them (`Machine.running_sums`) and
            rounded once.  A sum or product that a loop carries is in that type where such a scan starts from it, and in
            f32 where it is of smaller floats, so that it is not rounded in each step; what else the loop does with it
            takes it rounded, as what is behind the loop does.
    """

    name: ClassVar[str] = "widen-sums"
    requires = (is_of_tiles,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh = fresh_names(kernel)
        wide = DTYPES[machine.running_sums] if machine.running_sums else None
        body = (
            kernel.body if wide is None else rewrite(kernel.body, lambda op: _running(op, wide, fresh), SCAN | JOINED)
        )
        return replace(kernel, body=rewrite(body, lambda op: _carried(op, fresh), ITERATE))


def _running(op: Op, wide: DType, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """A running sum or product of f32 made in ``wide``, between a conversion and another."""
    kind = op.results[0].tile.dtype
    if kind is not DTYPES["f32"]:
        return (op,)
    if op.is_(JOINED):
        ways = [(how, str(_joining(how, kind)), str(_joining(how, wide))) for how in _ROUNDED]
        combine = next((new for _, old, new in ways if op["running"] and op["combine"] == old), None)
        if combine is None:
            return (op,)
        op = op.with_(combine=combine)
    elif op["function"] not in _ROUNDED:
        return (op,)
    value, *init = op.operands
    before, operand = _cast(value, wide, op, fresh)
    result = _with_dtype(op.result, wide, fresh)
    scan = replace(op, operands=(operand, *init), results=(result,))
    return before, scan, _cast_to(result, op.result, op)


def _joining(function: str, dtype: DType) -> Joining:
    return Joining.of(function, dtype, identity(function, dtype))


def _carried(loop: Op, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    before, behind = list[Op](), list[Op]()
    for number, argument in enumerate(loop.body.arguments):
        made = next((op for op in loop.body.ops if loop.body.yields[number] in op.results), None)
        if made is not None and made.operands[1:] == (argument,) and made.is_(REDUCE) and made["function"] in _ROUNDED:
            dtype = _dtype_of_sum(loop, argument)
            if dtype is not argument.tile.dtype:
                loop = _with_sum(loop, number, made, dtype, fresh, before, behind)
    return (*before, loop, *behind)


def _dtype_of_sum(loop: Op, argument: Value) -> DType:
    """The widest type of the scans that start from what is carried; small floats are f32."""
    starts = [op.results[0].tile.dtype for op in loop.body.ops if op.is_(SCAN, JOINED) and argument in op.operands[1:]]
    dtype = computed(argument.tile.dtype)
    return max([dtype, *starts], key=lambda one: one.bits) if dtype.is_float else dtype


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
            ops += [_cast_to(total, made.result, made)] * (_uses(body, made.result) > 1)
        elif op.is_(SCAN, JOINED) and argument in op.operands[1:] and argument is not op.operands[0]:
            ops.append(renamed(op, {argument.name: carried}))
        else:
            ops.append(op)
    if any(argument in _used(inner) for op in ops for inner in op.walk()) or argument in body.yields:
        ops.insert(0, _cast_to(carried, argument, made))

    def put(values: tuple[Value, ...], value: Value) -> tuple[Value, ...]:
        return (*values[:number], value, *values[number + 1 :])

    region = replace(body, arguments=put(body.arguments, carried), ops=tuple(ops), yields=put(body.yields, total))
    return replace(loop, operands=put(loop.operands, start_value), results=put(loop.results, end), region=region)


def _used(op: Op) -> tuple[Value, ...]:
    return (*op.operands, *(op.region.yields if op.region else ()))


def _uses(body: Region, value: Value) -> int:
    """How often a value is used in a body, or is what it ends with."""
    inner = (one for op in body.ops for each in op.walk() for one in _used(each))
    return [*inner, *body.yields].count(value)


def _with_dtype(value: Value, dtype: DType, fresh: Callable[[str], str]) -> Value:
    return Value(fresh(value.name), replace(value.tile, dtype=dtype))


def _cast(value: Value, dtype: DType, of: Op, fresh: Callable[[str], str]) -> tuple[Op, Value]:
    result = _with_dtype(value, dtype, fresh)
    return _cast_to(value, result, of), result


def _cast_to(value: Value, result: Value, of: Op) -> Op:
    return Op("cast", (value,), (result,), attribute_pairs({}), None, of.span, of.node)

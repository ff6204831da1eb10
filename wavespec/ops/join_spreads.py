"""`join_spreads`: of a row of which each wave has a part, the mean, and the mean of the squares of how far elements are
from it: of each wave's mean, and sum of the squares of how far its own are from that."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Op, Value
from wavespec.ir.names import wave_name
from wavespec.ops.butterfly import butterfly
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.parts_of_cluster import meet_in_cluster
from wavespec.ops.parts_of_waves import (
    bits_of_parts,
    lanes_of_parts,
    part_of_each_lane,
    part_of_lane,
    parts_of_launched,
)


def to_thread(op: Op, context: ThreadContext) -> None:
    """Waves of a workgroup first, then workgroups of a cluster, with how many elements each of them has."""
    build, kernel, f32, hint = context.build, context.kernel, DTYPES["f32"], op.node or op.results[1].name
    found = [build.cast(one, f32, hint) for value in op.operands for one in context.fragments[value.name]]
    found = [_number(context, op["count"]), *found]
    waves = [name for name, count in kernel.waves if count > 1 and name == wave_name(op["dim"])]
    if waves:
        found = _of_waves(op, context, found, waves[0])
    if op.get("signal") is not None:
        load = meet_in_cluster(context, op, found, waves, lanes_alike=True, by_lanes=True)
        own = [load(number, part_of_lane(kernel, kernel.cluster)) for number in range(len(found))]
        found = _joined(op, context, own, kernel.cluster)
    _, mean, squares = found
    variance = build.elementwise("div", squares, _number(context, op["size"]), hint=hint)
    for result, value in zip(op.results, (mean, variance), strict=True):
        context.fragments[result.name] = (build.cast(value, result.tile.dtype, result.name),)


def _number(context: ThreadContext, place: Expr) -> Value:
    build = context.build
    count = build.value("count", DTYPES["i32"], 1)
    build.add("coordinates", (), (count,), places=(place.substitute(context.constants),))
    return build.cast(count, DTYPES["f32"])


def _of_waves(op: Op, context: ThreadContext, found: Sequence[Value], wave: str) -> list[Value]:
    kernel, hint = context.kernel, op.node or op.results[1].name
    count = dict(kernel.waves)[wave]
    if kernel.launched is None:
        return _joined(op, context, part_of_each_lane(context, found, wave, hint), count)
    _, load = parts_of_launched(context, found, (0.0, 0.0, 0.0), hint, lambda value: value)
    return _joined(op, context, [load(number, part_of_lane(kernel, count)) for number in range(len(found))], count)


def _joined(op: Op, context: ThreadContext, own: Sequence[Value], count: int) -> list[Value]:
    """Each of ``count`` lanes has how many elements a part has, their mean, and its squares; of all parts, these.

    Squares around the mean of a part are less than those around that of all, by the square of what is between both for
    each of its elements (Chan, Golub and LeVeque, 1979).
    """
    build, (number, mean, squares), hint = context.build, own, op.node or op.results[1].name
    if count < lanes_of_parts(count):  # nothing counts twice
        lane = context.kernel.symbol("lane") % lanes_of_parts(count)
        number, squares = (build.pad(one, lane, 0, const(count), 0.0) for one in (number, squares))
    bits = bits_of_parts(count)
    total = build.elementwise("mul", number, mean, hint=hint)
    every, total = butterfly(build, "add", [number, total], bits, hint)
    some = build.elementwise("maximum", every, build.constant(1.0, DTYPES["f32"], 1), hint=hint)
    middle = build.elementwise("div", total, some, hint=hint)
    between = build.elementwise("sub", mean, middle, hint=hint)
    beyond = build.elementwise("mul", build.elementwise("mul", number, between, hint=hint), between, hint=hint)
    (squares,) = butterfly(build, "add", [build.elementwise("add", squares, beyond, hint=hint)], bits, hint)
    return [every, middle, squares]

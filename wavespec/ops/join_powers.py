"""`join_powers`: of a row of which each wave has a part, the largest element, and the sum of the powers of what all of
them are less than it: of each wave's largest element and sum of powers of what its own are less than that."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import const
from wavespec.ir.kernel import Op, Value
from wavespec.ir.names import wave_name
from wavespec.ops.butterfly import butterfly
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.elementwise import function_of
from wavespec.ops.functions import close_exp
from wavespec.ops.parts_of_cluster import meet_in_cluster
from wavespec.ops.parts_of_waves import (
    bits_of_parts,
    lanes_of_parts,
    part_of_each_lane,
    part_of_lane,
    parts_of_launched,
)
from wavespec.ops.reduce import in_pairs
from wavespec.ops.steps import Steps

LEAST = -3.4028234663852886e38
"""Where a part has no finite element, its elements are less than this: minus infinity less itself is no number."""


def to_thread(op: Op, context: ThreadContext) -> None:
    """Waves of a workgroup first, then workgroups of a cluster; each has both numbers for the other ones to see."""
    build, kernel, f32, hint = context.build, context.kernel, DTYPES["f32"], op.node or op.results[1].name
    found = [build.cast(one, f32, hint) for value in op.operands for one in context.fragments[value.name]]
    waves = [name for name, count in kernel.waves if count > 1 and name == wave_name(op["dim"])]
    is_shared = op.get("signal") is not None
    if waves:
        found = _of_waves(op, context, found, waves[0], is_all=not is_shared)
    if is_shared:
        load = meet_in_cluster(context, op, found, waves, lanes_alike=True, by_lanes=True)
        parts = [load(0, const(rank)) for rank in range(kernel.cluster)]
        own = [load(number, part_of_lane(kernel, kernel.cluster)) for number in range(len(found))]
        found = _joined(op, context, in_pairs(build, "maximum", parts, hint), own, kernel.cluster, is_all=True)
    for result, value in zip(op.results, found, strict=True):
        context.fragments[result.name] = (build.cast(value, result.tile.dtype, result.name),)


def _of_waves(op: Op, context: ThreadContext, found: Sequence[Value], wave: str, *, is_all: bool) -> list[Value]:
    build, kernel, hint = context.build, context.kernel, op.node or op.results[1].name
    count = dict(kernel.waves)[wave]
    if kernel.launched is None:
        largest, total = part_of_each_lane(context, found, wave, hint)
        (whole,) = butterfly(context, "maximum", [largest], bits_of_parts(count), hint)
    else:
        of_all = functools.partial(build.reduce, "maximum", hint=hint)
        (some, *_), load = parts_of_launched(context, found, (-math.inf, 0.0), hint, of_all)
        whole = in_pairs(build, "maximum", some, hint)
        largest, total = (load(number, part_of_lane(kernel, count)) for number in range(len(found)))
    return _joined(op, context, whole, (largest, total), count, is_all=is_all)


def _joined(
    op: Op, context: ThreadContext, whole: Value, own: Sequence[Value], count: int, *, is_all: bool
) -> list[Value]:
    """The largest of all, and the sum of all: each of ``count`` lanes has a part of it, and multiplies that by the
    power of what the part's largest is less than that of all.

    A row without a finite element has no sum; a part of one has 0, as others may have such.
    """
    build, (largest, total), hint = context.build, own, op.node or op.results[1].name
    if count < lanes_of_parts(count):  # nothing counts twice
        lane = context.kernel.symbol("lane") % lanes_of_parts(count)
        total = build.pad(total, lane, 0, const(count), 0.0)
    least = build.constant(LEAST, DTYPES["f32"], 1)
    base = whole if is_all else build.elementwise("maximum", whole, least, hint=hint)
    less = build.elementwise("sub", build.elementwise("maximum", largest, least, hint=hint), base, hint=hint)
    if op["function"] == "exp" and not op["fast"]:
        power = close_exp(Steps(build, less, hint), less)  # or what it is off by would be in all results
    else:
        power = function_of(context, op["function"], less, fast=op["fast"], hint=hint)
    scaled = build.elementwise("mul", total, power, hint=hint)
    return [whole, *butterfly(context, "add", [scaled], bits_of_parts(count), hint)]

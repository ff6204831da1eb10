"""`join_powers`: of a row of which each wave has a part, the largest element, and the sum of the powers of what all of
them are less than it: of each wave's largest element and sum of powers of what its own are less than that."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Op, Value
from wavespec.ir.names import wave_name
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.elementwise import function_of
from wavespec.ops.parts_of_cluster import parts_of_cluster
from wavespec.ops.parts_of_waves import parts_of_launched, parts_of_waves
from wavespec.ops.reduce import in_pairs

LEAST = -3.4028234663852886e38
"""Where a part has no finite element, its elements are less than this: minus infinity less itself is no number."""


def to_thread(op: Op, context: ThreadContext) -> None:
    """Waves of a workgroup first, then workgroups of a cluster; each has both numbers for the other ones to see."""
    build, kernel, f32, hint = context.build, context.kernel, DTYPES["f32"], op.node or op.results[1].name
    found = [build.cast(one, f32, hint) for value in op.operands for one in context.fragments[value.name]]
    wave = wave_name(op["dim"])
    waves = [name for name, count in kernel.waves if count > 1 and name == wave]
    is_shared = op.get("signal") is not None
    if waves and kernel.launched is not None:
        parts = parts_of_launched(context, found, (-math.inf, 0.0), hint, lambda part: part)
        found = _joined(op, context, parts, hint, is_all=not is_shared)
    elif waves:
        found = _joined(op, context, parts_of_waves(context, found, waves, hint), hint, is_all=not is_shared)
    if is_shared:
        found = _joined(op, context, parts_of_cluster(context, op, found, waves, lanes_alike=True), hint, is_all=True)
    for result, value in zip(op.results, found, strict=True):
        context.fragments[result.name] = (build.cast(value, result.tile.dtype, result.name),)


def _joined(
    op: Op, context: ThreadContext, parts: Sequence[Sequence[Value]], hint: str, *, is_all: bool
) -> list[Value]:
    """The largest of all, and the sum of all, each multiplied by the power of what its largest is less than that.

    A row without a finite element has no sum; a part of one has 0, as others may have such.
    """
    build, f32 = context.build, DTYPES["f32"]
    (largest, *others), (total, *sums) = (
        [*part] if part[0].vector.elements > 1 else [build.pack([*part], hint)] for part in parts
    )
    each = [build.reduce("maximum", one, hint) for one in (largest, *others)]
    whole = in_pairs(build, "maximum", each, hint)
    least = build.constant(LEAST, f32, 1)
    base = whole if is_all else build.elementwise("maximum", whole, least, hint=hint)
    scaled: list[Value] = []
    for own, part in zip((largest, *others), (total, *sums), strict=True):
        count = own.vector.elements
        less = build.elementwise("maximum", own, build.broadcast(least, count), hint=hint)
        less = build.elementwise("sub", less, build.broadcast(base, count), hint=hint)
        power = function_of(context, op["function"], less, fast=op["fast"], hint=hint)
        scaled.append(build.reduce("add", build.elementwise("mul", part, power, hint=hint), hint))
    return [whole, in_pairs(build, "add", scaled, hint)]

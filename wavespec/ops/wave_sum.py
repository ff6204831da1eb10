"""`wave_sum`: sums that the waves of a workgroup have of one tile, each of its own elements along a dim, added up."""

from __future__ import annotations

from wavespec.ir.kernel import Op
from wavespec.ir.names import wave_name
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.parts_of_waves import parts_of_waves
from wavespec.ops.reduce import in_pairs


def to_thread(op: Op, context: ThreadContext) -> None:
    """Every wave has the whole sum, added in the order of the waves, so that repeats are equal."""
    (sums,), name = op.operands, op.result.name
    parts = parts_of_waves(context, context.fragments[sums.name], [wave_name(op["dim"])], op.node or name)
    context.fragments[name] = tuple(in_pairs(context.build, "add", each, name) for each in parts)

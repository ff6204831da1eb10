"""A reduction along rows goes in; whether waves or workgroups exchange what each of them has of it comes out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.names import wave_name
from wavespec.ir.nodes import replace
from wavespec.ir.rewriting import uses_of
from wavespec.ir.tile_ops import REGISTER
from wavespec.ops.digits import in_reach, lane_bits
from wavespec.targets.machine import Machine


def starts_from(made: Mapping[str, Op], op: Op, number: float) -> bool:
    """Whether a reduction starts from this number, if from any, which is the one that changes nothing."""
    starts = [made.get(value.name) for value in op.operands[1:]]
    return all(one is not None and one.is_(REGISTER) and one["value"] == number for one in starts)


def places_of(op: Op) -> tuple[object, ...]:
    """Where lanes have the elements that a reduction joins, and whether workgroups meet for it."""
    layout = op.operands[0].tile.layout
    assert layout is not None
    return layout.base, layout.axes, op.get("signal") is None


def is_wide(op: Op) -> bool:
    """Whether lanes have several results of a reduction, or other ones than their neighbours."""
    layout = op.result.tile.layout
    assert layout is not None
    elements = math.prod(axis.extent for axis in layout.axes)
    return elements != 1 or any("lane" in base.symbols for _, base in layout.base)


def are_exchanged(kernel: Kernel, machine: Machine, op: Op) -> bool:
    """Whether the waves along the dim of a reduction, and no others, exchange what they have, or workgroups do."""
    layout, wave = op.operands[0].tile.layout, wave_name(op["dim"])
    assert layout is not None
    waves = [name for name, count in kernel.waves if count > 1 and name in layout.base_of(op["dim"]).symbols]
    _, far = in_reach(lane_bits(op, layout, op["dim"], kernel.lanes), machine)
    return not far and waves in ([], [wave]) and (bool(waves) or op.get("signal") is not None)


def waiting(body: Sequence[Op], first: Op, last: Op, own: Sequence[Op]) -> list[Op]:
    """The operations between two reductions that need the first, but for ``own``, which only the last one needs."""
    needed, found = {first.result.name}, list[Op]()
    for op in body[body.index(first) + 1 : body.index(last)]:
        if op not in own and any(value.name in needed for value in uses_of(op)):
            needed.update(value.name for value in op.results)
            found.append(op)
    return found


def alone(op: Op, result: Value, **attributes: object) -> Op:
    """A reduction of what each wave has."""
    kept = tuple((key, one) for key, one in op.attributes if key not in ("signal", "index"))
    return replace(op, operands=op.operands[:1], results=(result,), attributes=kept).with_(alone=True, **attributes)

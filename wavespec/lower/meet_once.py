"""Tile kernel in, tile kernel out: a largest element and a sum of powers of what is less are exchanged together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Kernel, Op, Value, attribute_pairs
from wavespec.ir.names import wave_name
from wavespec.ir.nodes import replace
from wavespec.ir.rewriting import uses_of, without_unused
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, PURE, REDUCE, REGISTER
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.tile_properties import tiles_have_layouts
from wavespec.ops.digits import in_reach, lane_bits
from wavespec.ops.join_powers import LEAST
from wavespec.targets.machine import Machine

_POWERS = ("exp", "exp2")


class MeetOnce(Pass):
    """Exchange a largest element and a sum of powers that are less than it together.

    Before: waves that share out a row, and workgroups of a cluster, wait for the largest element of all of it, and with
            the powers of what each element is less than that once more for their sum.
    After:  each wave has the largest element of its own, and the sum of the powers of what its elements are less than
            that; ``join_powers`` finds both of the whole row behind one exchange, and multiplies each sum by the power
            of what its largest element is less than that of all.  Quotients of powers by their sum are products of a
            wave's powers with one number, and what elements are less than the largest one and another number of their
            row is what they are less than that of their wave and one number of it.  Powers that something else needs
            too, and rows in several steps of a loop, stay as they are.
    """

    name: ClassVar[str] = "meet-once"
    requires = (tiles_have_layouts,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.lanes > 1 and bool(machine.clusters)  # it was measured where workgroups exchange as well

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if kernel.distribution.schedules:
            return kernel
        for total in [op for op in kernel.body if op.is_(REDUCE) and op["function"] == "add"]:
            if (found := _meeting(kernel, machine, total)) is not None:
                kernel = replace(kernel, body=_joined(kernel.body, found, fresh_names(kernel)))
        return kernel


@dataclass(frozen=True, slots=True)
class _Meeting:
    """The operations of a row: its largest element, what each one is less than it, powers of that, and their sum."""

    largest: Op
    cast: Op | None
    """Of the largest element."""
    less: Op
    power: Op
    total: Op
    quotients: tuple[Op, ...]
    """Of powers by their sum."""
    rests: tuple[Op, ...]
    """What elements are less than the largest one and another number of the row, behind the sum."""


def _is_quotient(op: Op, power: Op, total: Op) -> bool:
    return op.is_(ELEMENTWISE) and op["function"] == "div" and op.operands == (power.result, total.result)


def _is_rest(op: Op, less: Op, total: Op) -> bool:
    """Whether one number of the row is taken from what elements are less than the largest."""
    if not op.is_(ELEMENTWISE) or op["function"] != "sub" or op.operands[0] != less.result:
        return False
    return op.operands[1].type == total.result.type and op.result.type == less.result.type


def _meeting(kernel: Kernel, machine: Machine, total: Op) -> _Meeting | None:
    """What belongs to a sum, if waves or workgroups exchange it and that is all that its powers are for."""
    made = {value.name: op for op in kernel.body for value in op.results}
    uses = [value.name for op in kernel.body for value in uses_of(op)]
    power = made.get(total.operands[0].name)
    if power is None or not power.is_(ELEMENTWISE) or power["function"] not in _POWERS:
        return None
    less = made.get(power.operands[0].name)
    if less is None or not less.is_(ELEMENTWISE) or less["function"] != "sub":
        return None
    of, cast = less.operands[1], None
    if (maker := made.get(of.name)) is not None and maker.is_(CAST):
        of, cast = maker.operands[0], maker
    largest = made.get(of.name)
    if largest is None or not largest.is_(REDUCE) or largest["function"] != "maximum":
        return None
    quotients = tuple(op for op in kernel.body if _is_quotient(op, power, total))
    behind = kernel.body[kernel.body.index(total) :]
    rests = tuple(op for op in behind if _is_rest(op, less, total))
    are_few = uses.count(less.result.name) == 1 + len(rests)
    is_alone = are_few and uses.count(power.result.name) == 1 + len(quotients)
    are_of_f32 = all(op.result.tile.dtype == DTYPES["f32"] for op in (less, power, total))
    starts = _starts(made, largest, -math.inf) and _starts(made, total, 0.0)
    alike = largest["dim"] == total["dim"] and _place(largest) == _place(total) and not total["divided"]
    found = _Meeting(largest, cast, less, power, total, quotients, rests)
    is_row = is_alone and are_of_f32 and starts and alike and not _is_wide(total) and not largest.get("skips_nan")
    return found if is_row and _are_exchanged(kernel, machine, total) and _may_wait(kernel.body, found) else None


def _starts(made: dict[str, Op], op: Op, number: float) -> bool:
    """Whether a reduction starts from nothing."""
    starts = [made.get(value.name) for value in op.operands[1:]]
    return all(one is not None and one.is_(REGISTER) and one["value"] == number for one in starts)


def _place(op: Op) -> tuple[object, ...]:
    layout = op.operands[0].tile.layout
    assert layout is not None
    return layout.base, layout.axes, op.get("signal") is None


def _is_wide(op: Op) -> bool:
    """Whether lanes have several numbers, or other ones than their neighbours."""
    layout = op.result.tile.layout
    assert layout is not None
    elements = math.prod(axis.extent for axis in layout.axes)
    return elements != 1 or any("lane" in base.symbols for _, base in layout.base)


def _are_exchanged(kernel: Kernel, machine: Machine, op: Op) -> bool:
    layout, wave = op.operands[0].tile.layout, wave_name(op["dim"])
    assert layout is not None
    waves = [name for name, count in kernel.waves if count > 1 and name in layout.base_of(op["dim"]).symbols]
    _, far = in_reach(lane_bits(op, layout, op["dim"], kernel.lanes), machine)
    return not far and waves in ([], [wave]) and (bool(waves) or op.get("signal") is not None)


def _waiting(body: Sequence[Op], found: _Meeting) -> list[Op]:
    """The operations in front of the sum that need the largest element of all of the row, but for its powers."""
    own, needed, waiting = (found.less, found.power), {found.largest.result.name}, list[Op]()
    for op in body[body.index(found.largest) + 1 : body.index(found.total)]:
        if op not in own and any(value.name in needed for value in uses_of(op)):
            needed.update(value.name for value in op.results)
            waiting.append(op)
    return waiting


def _may_wait(body: Sequence[Op], found: _Meeting) -> bool:
    """Whether these may go behind the sum: nothing of it, and no memory, needs them."""
    late = _waiting(body, found)
    names = {value.name for op in late for value in op.results}
    return all(op.is_(PURE) for op in late) and found.less.operands[0].name not in names


def _joined(body: Sequence[Op], found: _Meeting, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """The operations with one exchange, and what waited for the first one behind it."""
    late = _waiting(body, found)
    result: list[Op] = []
    some = by = Value(fresh(found.largest.result.name), found.total.result.type)
    own = Value(fresh(found.largest.result.name), found.largest.result.type)
    for op in body:
        if op is found.largest:
            result.append(_alone(op, own))
        elif op is found.less:
            result += _less_than(found, own, some, fresh)
        elif op is found.power and op["function"] == "exp" and not op.get("fast") and not found.quotients:
            result.append(op.with_(below=True))
        elif op is found.total:
            total = Value(fresh(op.result.name), op.result.type)
            kept = {key: op[key] for key in ("dim", "signal", "index") if op.get(key) is not None}
            kept |= {"function": found.power["function"], "fast": bool(found.power.get("fast"))}
            results = (found.largest.result, op.result)
            joined = Op("join_powers", (own, total), results, attribute_pairs(kept), span=op.span, node=op.node)
            result += [_alone(op, total), joined, *late]
            if found.quotients:
                by, ops = _of_wave(found, some, fresh)
                result += ops
        elif op in found.quotients:
            result.append(replace(op, operands=(op.operands[0], by)).with_(function="mul"))
        elif op in found.rests:
            result += _rest_in_wave(op, found, some, fresh)
        elif op not in late:
            result.append(op)
    return without_unused(result, lambda op: op.is_(PURE))


def _alone(op: Op, result: Value) -> Op:
    """A reduction of what each wave has."""
    kept = tuple((key, one) for key, one in op.attributes if key not in ("signal", "index"))
    op = replace(op, operands=op.operands[:1], results=(result,), attributes=kept)
    return op.with_(alone=True)


def _less_than(found: _Meeting, own: Value, some: Value, fresh: Callable[[str], str]) -> list[Op]:
    """What each element is less than ``some`` number: the largest one of its wave, or where all are minus infinity,
    another one."""
    less, ops = found.less, list[Op]()
    if found.cast is not None:
        wide = Value(fresh(found.cast.result.name), found.cast.result.type)
        ops.append(replace(found.cast, operands=(own,), results=(wide,)))
        own = wide
    least = Value(fresh("least"), own.type)
    ops.append(Op("register", (), (least,), attribute_pairs({"value": LEAST}), span=less.span, node=less.node))
    larger = attribute_pairs({"function": "maximum"})
    ops.append(Op("elementwise", (own, least), (some,), larger, span=less.span, node=less.node))
    return [*ops, replace(less, operands=(less.operands[0], some))]


def _of_wave(found: _Meeting, some: Value, fresh: Callable[[str], str]) -> tuple[Value, list[Op]]:
    """By what a wave multiplies its powers: the power of what its largest element is less, by the sum of all."""
    new, ops = _numbers_of_wave(found.total, fresh)
    close = {"close": True} if found.power["function"] == "exp" else {}
    power = new(found.power["function"], new("sub", some, found.less.operands[1]), **close)
    return new("div", power, found.total.result), ops


def _rest_in_wave(op: Op, found: _Meeting, some: Value, fresh: Callable[[str], str]) -> list[Op]:
    """What elements are less than ``some`` number of their wave, less by how much the row's two numbers are more.

    All of these are of one sign, so that no rounding weighs more than it did.
    """
    new, ops = _numbers_of_wave(found.total, fresh)
    more = new("add", new("sub", found.less.operands[1], some), op.operands[1])
    return [*ops, replace(op, operands=(op.operands[0], more))]


def _numbers_of_wave(total: Op, fresh: Callable[[str], str]) -> tuple[Callable[..., Value], list[Op]]:
    """What appends an operation on numbers like ``total`` to the list, and this list."""
    ops = list[Op]()

    def new(function: str, *operands: Value, **attributes: object) -> Value:
        result, pairs = Value(fresh(total.result.name), total.result.type), {"function": function, **attributes}
        ops.append(Op("elementwise", operands, (result,), attribute_pairs(pairs), span=total.span, node=total.node))
        return result

    return new, ops

"""Tile kernel in, tile kernel out: a largest element and a sum of powers of what is less are exchanged together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Kernel, Op, Value, attribute_pairs
from wavespec.ir.nodes import replace
from wavespec.ir.rewriting import uses_of, without_unused
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, PURE, REDUCE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.exchanges import alone, are_exchanged, is_wide, places_of, starts_from, waiting
from wavespec.lower.tile_properties import tiles_have_layouts
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
            wave's powers with one number.  Powers that something else needs too, and rows in several steps of a loop,
            stay as they are.
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


def _is_quotient(op: Op, power: Op, total: Op) -> bool:
    return op.is_(ELEMENTWISE) and op["function"] == "div" and op.operands == (power.result, total.result)


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
    is_alone = uses.count(less.result.name) == 1 and uses.count(power.result.name) == 1 + len(quotients)
    are_of_f32 = all(op.result.tile.dtype == DTYPES["f32"] for op in (less, power, total))
    starts = starts_from(made, largest, -math.inf) and starts_from(made, total, 0.0)
    alike = largest["dim"] == total["dim"] and places_of(largest) == places_of(total) and not total["divided"]
    found = _Meeting(largest, cast, less, power, total, quotients)
    is_row = is_alone and are_of_f32 and starts and alike and not is_wide(total) and not largest.get("skips_nan")
    return found if is_row and are_exchanged(kernel, machine, total) and _may_wait(kernel.body, found) else None


def _may_wait(body: Sequence[Op], found: _Meeting) -> bool:
    """Whether these may go behind the sum: nothing of it, and no memory, needs them."""
    late = waiting(body, found.largest, found.total, (found.less, found.power))
    names = {value.name for op in late for value in op.results}
    return all(op.is_(PURE) for op in late) and found.less.operands[0].name not in names


def _joined(body: Sequence[Op], found: _Meeting, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """The operations with one exchange, and what waited for the first one behind it."""
    late = waiting(body, found.largest, found.total, (found.less, found.power))
    result: list[Op] = []
    some = by = Value(fresh(found.largest.result.name), found.total.result.type)
    own = Value(fresh(found.largest.result.name), found.largest.result.type)
    for op in body:
        if op is found.largest:
            result.append(alone(op, own))
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
            result += [alone(op, total), joined, *late]
            if found.quotients:
                by, ops = _of_wave(found, some, fresh)
                result += ops
        elif op in found.quotients:
            result.append(replace(op, operands=(op.operands[0], by)).with_(function="mul"))
        elif op not in late:
            result.append(op)
    return without_unused(result, lambda op: op.is_(PURE))


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
    less, total, ops = found.less, found.total, list[Op]()

    def new(function: str, *operands: Value, **attributes: object) -> Value:
        result, pairs = Value(fresh(total.result.name), total.result.type), {"function": function, **attributes}
        ops.append(Op("elementwise", operands, (result,), attribute_pairs(pairs), span=total.span, node=total.node))
        return result

    power = new(found.power["function"], new("sub", some, less.operands[1]), close=True)
    return new("div", power, total.result), ops

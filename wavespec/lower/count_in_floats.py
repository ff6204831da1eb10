"""Thread kernel in, thread kernel out: places of a lane that become floating-point numbers are converted once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op, Value, VectorType, attribute_pairs, rewrite
from wavespec.ir.thread_ops import BROADCAST, CAST, COORDINATES, ELEMENTWISE, PACK, SLICE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine

_Places = tuple[Expr, tuple[Expr, ...]]
_OF_PLACES: Final = (COORDINATES, SLICE, BROADCAST, PACK, ELEMENTWISE)
_JOINED: Final[Mapping[str, Callable[[Expr, Expr], Expr]]] = {"add": operator.add, "sub": operator.sub}


class CountInFloats(Pass):
    """Convert the first of several places, and add how much further the others are.

    Before: ``cast`` of ``coordinates``, or of sums and differences of such: a conversion for each register.
    After:  where all of them are a constant number of elements from the first, and none is too large for the
            floating-point type to have every integer up to it, one conversion and additions of constants, which give
            the same numbers; conversions take four to eight times as long as additions.
    """

    name: ClassVar[str] = "count-in-floats"
    requires = (is_of_lanes,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if not any(op.is_(COORDINATES) for op in kernel.walk()):
            return kernel
        makers = {value.name: op for op in kernel.walk() if op.is_(*_OF_PLACES) for value in op.results}
        known = dict[str, _Places | None]()
        fresh = fresh_names(kernel)

        def change(op: Op) -> tuple[Op, ...]:
            if not op.result.type.dtype.is_float or op.get("bias"):
                return (op,)
            places = _places(op.operands[0], makers, known)
            return (op,) if places is None or places[1] == (places[0],) else _counted(op, *places, fresh)

        return replace(kernel, body=rewrite(kernel.body, change, CAST))


def _places(value: Value, makers: Mapping[str, Op], known: dict[str, _Places | None]) -> _Places | None:
    """Where the elements of a value are that only says so, and where those of the whole it is a part of begin."""
    if value.name not in known:
        op = makers.get(value.name)
        found = [_places(one, makers, known) for one in op.operands] if op is not None else [None]
        parts = [one for one in found if one is not None]
        known[value.name] = _joined(op, parts) if op is not None and len(parts) == len(found) else None
    return known[value.name]


def _joined(op: Op, parts: Sequence[_Places]) -> _Places | None:
    if op.is_(COORDINATES):
        return op["places"][0], op["places"]
    first, places = parts[0]
    if op.is_(SLICE):
        return first, places[op["start"] : op["start"] + op["size"]]
    if op.is_(BROADCAST):
        return first, places * op.result.vector.elements
    if op.is_(PACK):
        return first, tuple(place for _, more in parts for place in more)
    if op["function"] not in _JOINED:
        return None
    join, (other, others) = _JOINED[op["function"]], parts[1]
    return join(first, other), tuple(map(join, places, others))


def _counted(op: Op, first: Expr, places: Sequence[Expr], fresh: Callable[[str], str]) -> tuple[Op, ...]:
    (value,), result = op.operands, op.result
    further = [number for place in places if (number := place.beyond(first)) is not None]
    most = 2 ** (result.type.dtype.mantissa + 1)
    exact = all(p.low is not None and p.high is not None and -most <= p.low <= p.high <= most for p in (first, *places))
    if not exact or len(further) < len(places):
        return (op,)

    def make(name: str, operands: tuple[Value, ...], type_: VectorType, **attributes: object) -> Op:
        made = Value(fresh(result.name), type_)
        return Op(name, operands, (made,), attribute_pairs(attributes), span=op.span, node=op.node)

    one = replace(result.vector, elements=1)
    start = make("coordinates", (), replace(value.vector, elements=1), places=(first,))
    converted = make("cast", (start.result,), one)
    constants = {number: make("constant", (), one, value=float(number)) for number in further}
    spread = make("broadcast", (converted.result,), result.vector)
    others = make("pack", tuple(constants[number].result for number in further), result.vector)
    added = (spread.result, others.result)
    total = Op("elementwise", added, (result,), attribute_pairs({"function": "add"}), span=op.span, node=op.node)
    return start, converted, *constants.values(), spread, others, total

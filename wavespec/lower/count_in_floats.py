"""Thread kernel in, thread kernel out: places of a lane that become floating-point numbers are converted once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op, Value, VectorType, attribute_pairs, rewrite
from wavespec.ir.thread_ops import CAST, COORDINATES, SLICE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine


class CountInFloats(Pass):
    """Convert the first of several places, and add how much further the others are.

    Before: ``cast`` of ``coordinates``, a conversion for each register.
    After:  where all of them are a constant number of elements from the first, and none is too large for the
            floating-point type to have every integer up to it, one conversion and additions of constants, which give
            the same numbers; conversions take four to eight times as long as additions.
    """

    name: ClassVar[str] = "count-in-floats"
    requires = (is_of_lanes,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        places = _places(kernel)
        fresh = fresh_names(kernel)

        def change(op: Op) -> tuple[Op, ...]:
            if not op.is_(CAST) or not op.result.type.dtype.is_float or op.get("bias"):
                return (op,)
            known = places.get(op.operands[0].name)
            return (op,) if known is None else _counted(op, *known, fresh)

        return replace(kernel, body=rewrite(kernel.body, change)) if places else kernel


def _places(kernel: Kernel) -> dict[str, tuple[Expr, Sequence[Expr]]]:
    """Where the elements of each value are that only says so, and where those of the whole it is a part of begin."""
    found = dict[str, tuple[Expr, Sequence[Expr]]]()
    for op in kernel.walk():
        if op.is_(COORDINATES) and len(op["places"]) > 1:
            found[op.result.name] = op["places"][0], op["places"]
        elif op.is_(SLICE) and (whole := found.get(op.operands[0].name)):
            found[op.result.name] = whole[0], whole[1][op["start"] : op["start"] + op["size"]]
    return found


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

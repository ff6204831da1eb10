"""An element and its place as one number, its *rank*: the larger the element the larger, and of equal ones the first.

A rank is an i64. Above: the element as an integer of 32 bits in the same order, NaN the largest. Below: the place,
counted backwards. `argmax` and `topk` look for the largest ranks; where the smallest elements are wanted, the order of
integers is turned round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wavespec.diagnostics import Span
from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.kernel import Value
from wavespec.ops.contexts import TileContext
from wavespec.ops.steps import Steps

_LAST, _SIGN, _INFINITY = 0x7FFFFFFF, -0x80000000, 0x7F800000


class Ranks:
    """Tile operations between elements, places and ranks, on behalf of one statement."""

    def __init__(self, context: TileContext, name: str, span: Span | None, *, largest: bool) -> None:
        self.context, self.name, self.span = context, name, span
        self.order = "" if largest else "_down"

    def along(self, value: Value, dim: str) -> Value:
        """The ranks of all elements, whose places are counted along ``dim``."""
        place = self.context.tile(f"{self.name}_place", (dim,), "i32")
        self.context.add("index", (), (place,), self.span, node=self.name, dim=dim)
        return self.of(value, place)

    def of(self, value: Value, place: Value) -> Value:
        """The ranks of elements at known places."""
        return self._add(f"{self.name}_rank", f"rank{self.order}", DTYPES["i64"], value, place)

    def elements(self, name: str, ranks: Value, dtype: DType) -> Value:
        """The elements again."""
        kind = "float" if dtype.is_float else "whole"
        return self._add(name, f"ranked_{kind}{self.order}", dtype, ranks)

    def places(self, name: str, ranks: Value, dtype: str) -> Value:
        """Their places."""
        return self._add(name, "ranked_place", DTYPES[dtype], ranks)

    def _add(self, name: str, function: str, dtype: DType, *operands: Value) -> Value:
        result = self.context.tile(name, operands[0].tile.dims, dtype)
        self.context.add("elementwise", operands, (result,), self.span, node=self.name, function=function)
        return result


def _rank(steps: Steps, x: Value, place: Value, *, turned: bool = False) -> Value:
    kind = x.vector.dtype
    if kind.is_float:
        bits = steps.bits(steps.cast(x, "f32"), "i32")
        number = steps("where", steps("eq", bits, _SIGN), 0, _in_order(steps, bits))  # 0 and -0 are equal
        number = steps("xor", number, -1) if turned else number
        is_number = steps("le", steps("and", bits, _LAST), _INFINITY)
        number = steps("where", is_number, number, _LAST)
    else:
        number = steps.cast(x, "i32")
        number = steps("xor", number, -1) if turned else number
    above = steps("shl", steps.cast(number, "i64"), 32)
    return steps("or", above, steps.cast(steps("sub", _LAST, steps.cast(place, "i32")), "i64"))


def _rank_down(steps: Steps, x: Value, place: Value) -> Value:
    return _rank(steps, x, place, turned=True)


def _place(steps: Steps, rank: Value) -> Value:
    return steps("sub", _LAST, steps.cast(rank, "i32"))


def _whole(steps: Steps, rank: Value) -> Value:
    return steps.cast(steps("shr", rank, 32), "i32")


def _whole_down(steps: Steps, rank: Value) -> Value:
    return steps("xor", _whole(steps, rank), -1)


def _float(steps: Steps, rank: Value) -> Value:
    return steps.bits(_in_order(steps, _whole(steps, rank)), "f32")


def _float_down(steps: Steps, rank: Value) -> Value:
    return steps.bits(_in_order(steps, _whole_down(steps, rank)), "f32")


def _in_order(steps: Steps, bits: Value) -> Value:
    """The bits of floating point as integers of the same order, and back."""
    return steps("xor", bits, steps("and", steps("shr", bits, 31), _LAST))


STEPS: Mapping[str, Callable[..., Value]] = {
    "rank": _rank,
    "rank_down": _rank_down,
    "ranked_place": _place,
    "ranked_whole": _whole,
    "ranked_whole_down": _whole_down,
    "ranked_float": _float,
    "ranked_float_down": _float_down,
}
"""Functions of elementwise tile operations that are no words of the language."""

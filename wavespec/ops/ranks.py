"""An element and its place in whole numbers, its *rank*: larger of a larger element, and of equal ones of the first.

A rank is words, of which earlier ones decide first. Of an element of at most 32 bits it is one, an i64. Above: the
element as an integer of 32 bits in the same order, NaN the largest. Below: the place, counted backwards. Of an element
of 64 bits it is two: the element as an i64, and the place as an i32. `argmax` and `topk` look for the largest ranks;
where the smallest elements are wanted, the order of integers is turned round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from wavespec.diagnostics import Span
from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.kernel import Value
from wavespec.ops.contexts import TileContext
from wavespec.ops.reduce import identity
from wavespec.ops.steps import Steps

LAST_PLACE = 0x7FFFFFFF
"""Behind every place; and the number of NaN."""
LEAST_OF = {"rank": "maximum", "rank_down": "minimum"}
"""By what makes a rank: whose identity has the least one."""
_INFINITIES = {32: 0x7F800000, 64: 0x7FF0000000000000}

Rank = tuple[Value, ...]
"""The words of ranks, the first of all dims; later ones may lack some, along which they repeat."""


class Ranks:
    """Tile operations between elements, places and ranks, on behalf of one statement."""

    def __init__(self, context: TileContext, name: str, span: Span | None, *, largest: bool) -> None:
        self.context, self.name, self.span = context, name, span
        self.order = "" if largest else "_down"

    def along(self, value: Value, dim: str) -> Rank:
        """The ranks of all elements, whose places are counted along ``dim``."""
        place = self.context.tile(f"{self.name}_place", (dim,), "i32")
        self.context.add("index", (), (place,), self.span, node=self.name, dim=dim)
        return self.of(value, place)

    def of(self, value: Value, place: Value) -> Rank:
        """The ranks of elements at known places."""
        name = f"{self.name}_rank"
        if value.tile.dtype.bits <= 32:
            return (self._add(name, f"rank{self.order}", DTYPES["i64"], value, place),)
        number = self._add(name, f"number{self.order}", DTYPES["i64"], value)
        return number, self._add(f"{self.name}_back", "counted_back", DTYPES["i32"], place)

    def among_largest(self, number: Value, found: Value, word: Value) -> Value:
        """A later word, where the one before it is the one ``found``; elsewhere less than any."""
        return self._add(f"{self.name}_equal", "among_largest", word.tile.dtype, number, found, word)

    def elements(self, name: str, rank: Sequence[Value], dtype: DType) -> Value:
        """The elements again."""
        word = "ranked" if len(rank) == 1 else "numbered"
        return self._add(name, f"{word}_{'float' if dtype.is_float else 'whole'}{self.order}", dtype, rank[0])

    def places(self, name: str, rank: Sequence[Value], dtype: str) -> Value:
        """Their places."""
        return self._add(name, "ranked_place", DTYPES[dtype], rank[-1])

    def _add(self, name: str, function: str, dtype: DType, *operands: Value) -> Value:
        result = self.context.tile(name, operands[0].tile.dims, dtype)
        self.context.add("elementwise", operands, (result,), self.span, node=self.name, function=function)
        return result


def _number(steps: Steps, x: Value, *, turned: bool = False) -> Value:
    bits = max(32, x.vector.dtype.bits)
    last = 2 ** (bits - 1) - 1
    if not x.vector.dtype.is_float:
        number = steps.cast(x, f"i{bits}")
        return steps("xor", number, -1) if turned else number
    pattern = steps.bits(steps.cast(x, f"f{bits}"), f"i{bits}")
    number = steps("where", steps("eq", pattern, -last - 1), 0, _in_order(steps, pattern))  # 0 and -0 are equal
    number = steps("xor", number, -1) if turned else number
    is_number = steps("le", steps("and", pattern, last), _INFINITIES[bits])
    return steps("where", is_number, number, last)


def _number_down(steps: Steps, x: Value) -> Value:
    return _number(steps, x, turned=True)


def _rank(steps: Steps, x: Value, place: Value, *, turned: bool = False) -> Value:
    above = steps("shl", steps.cast(_number(steps, x, turned=turned), "i64"), 32)
    return steps("or", above, steps.cast(_counted_back(steps, place), "i64"))


def _rank_down(steps: Steps, x: Value, place: Value) -> Value:
    return _rank(steps, x, place, turned=True)


def _counted_back(steps: Steps, place: Value) -> Value:
    return steps("sub", LAST_PLACE, steps.cast(place, "i32"))


def _among_largest(steps: Steps, number: Value, found: Value, word: Value) -> Value:
    return steps("where", steps("eq", number, found), word, identity("maximum", word.vector.dtype))


def _whole(steps: Steps, rank: Value) -> Value:
    return steps.cast(steps("shr", rank, 32), "i32")


def _as_it_is(steps: Steps, number: Value) -> Value:
    return number


def _turned(steps: Steps, number: Value) -> Value:
    return steps("xor", number, -1)


def _float(steps: Steps, number: Value) -> Value:
    return steps.bits(_in_order(steps, number), f"f{number.vector.dtype.bits}")


def _in_order(steps: Steps, bits: Value) -> Value:
    """The bits of floating point as integers of the same order, and back."""
    below = bits.vector.dtype.bits - 1
    return steps("xor", bits, steps("and", steps("shr", bits, below), 2**below - 1))


def _then(first: Callable[..., Value], *others: Callable[..., Value]) -> Callable[..., Value]:
    """One function after the other."""

    def step(steps: Steps, value: Value) -> Value:
        value = first(steps, value)
        for other in others:
            value = other(steps, value)
        return value

    return step


STEPS: Mapping[str, Callable[..., Value]] = {
    "rank": _rank,
    "rank_down": _rank_down,
    "number": _number,
    "number_down": _number_down,
    "counted_back": _counted_back,
    "among_largest": _among_largest,
    "ranked_place": _counted_back,
    "ranked_whole": _whole,
    "ranked_whole_down": _then(_whole, _turned),
    "ranked_float": _then(_whole, _float),
    "ranked_float_down": _then(_whole, _turned, _float),
    "numbered_whole": _as_it_is,
    "numbered_whole_down": _turned,
    "numbered_float": _float,
    "numbered_float_down": _then(_turned, _float),
}
"""Functions of elementwise tile operations that are no words of the language."""


def element_of(steps: Steps, rank: Value, *, is_float: bool, is_down: bool) -> Value:
    """The element of a rank of one word, in 32 bits."""
    return STEPS[f"ranked_{'float' if is_float else 'whole'}{'_down' if is_down else ''}"](steps, rank)


def place_of(steps: Steps, rank: Value) -> Value:
    """Its place."""
    return STEPS["ranked_place"](steps, rank)

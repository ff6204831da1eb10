"""Ranks of few elements of 16 bits go in as integers of 64 bits, and come out of 32, where these say as much; and back.

Above is what tells elements apart, below the place in the tile, counted backwards: one instruction finds the larger of
two, and one the largest of a wave.
"""

from __future__ import annotations

from dataclasses import dataclass

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Value
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.ranks import LAST_PLACE

FEW_BITS = 16
F32_EXPONENT_BITS = 9
"""And the sign: all of a number of f32 but its mantissa."""
_WORD_BITS = 32


@dataclass(frozen=True, slots=True)
class ShortRanks:
    """Ranks of a tile of so many places along the dim, the first of which is ``origin``.

    ``number_bits``: the upper bits of an element's number that are not the same as its sign; ``None`` = all.
    """

    build: ThreadBuilder
    hint: str
    number_bits: int | None
    extent: int
    origin: Expr

    @property
    def fits(self) -> bool:
        """Whether a rank fits 32 bits."""
        is_whole = self.extent & (self.extent - 1) == 0 and not self.origin.divisor % self.extent
        return self.number_bits is not None and is_whole and self.number_bits + self._place_bits <= _WORD_BITS

    def of(self, rank: Value) -> Value:
        if not self.fits:
            return rank
        above = self._and(self._word(self._shifted("shr", rank)), -self.extent)
        return self._two("or", above, self._and(self._word(rank), self.extent - 1))

    def whole(self, rank: Value) -> Value:
        """The number's lower bits are its sign again, and those of NaN are ones."""
        if not self.fits:
            return rank
        build, size, below = self.build, rank.vector.elements, self.extent - 1
        number = self._and(rank, -self.extent)
        is_nan = self._two("le", self._number(LAST_PLACE - below, rank), rank)
        ones = build.elementwise(
            "where", is_nan, self._number(-1, rank), self._two("shr", rank, self._number(31, rank))
        )
        number = self._two("or", number, self._and(ones, below))
        first = build.value(self.hint, DTYPES["i32"], 1)
        build.add("coordinates", (), (first,), places=(LAST_PLACE - below - self.origin,))
        place = self._two("or", self._and(rank, below), build.broadcast(first, size))
        above = self._shifted("shl", build.cast(number, DTYPES["i64"], self.hint))
        return self._two("or", above, build.cast(place, DTYPES["i64"], self.hint))

    @property
    def _place_bits(self) -> int:
        return (self.extent - 1).bit_length()

    def _word(self, value: Value) -> Value:
        return self.build.cast(value, DTYPES["i32"], self.hint)

    def _shifted(self, function: str, value: Value) -> Value:
        return self._two(function, value, self._number(_WORD_BITS, value))

    def _and(self, value: Value, bits: int) -> Value:
        return self._two("and", value, self._number(bits, value))

    def _two(self, function: str, one: Value, other: Value) -> Value:
        return self.build.elementwise(function, one, other, hint=self.hint)

    def _number(self, number: int, like: Value) -> Value:
        return self.build.constant(number, like.vector.dtype, like.vector.elements)

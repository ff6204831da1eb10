"""An index expression of an access goes in; the statements that compute it in 64 bits, and what range it is in, come
out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from wavespec.ir.dtype import DTYPES
from wavespec.schema.language.expressions import Binary, Call, Expression, Name, Num, Unary
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import Formula
from wavespec.schema.ops.base import ValueType
from wavespec.schema.ops.elementwise import shared_dims
from wavespec.schema.resolve import resolve_params

LARGEST = 2**61
"""What larger numbers count as: a sum of two such numbers, and one more, does not wrap."""
_LARGEST_SIZE = 2**31 - 1


class Place(NamedTuple):
    """``text``: a number, or the name of the value that holds it; ``low``, ``high``: what it is between; ``dims``: of
    the value; ``is_data``: whether it depends on what tensors hold, or on scalars."""

    text: str
    low: int
    high: int
    dims: tuple[str, ...] = ()
    is_data: bool = False

    @property
    def number(self) -> int | None:
        """The number that it always is, where no statement computes it."""
        return self.low if self.low == self.high and self.text == str(self.low) else None


class ComputedPlaces:
    """Makes the statements for places of one spec."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        over = [settings.params for one in spec.targets.values() for settings in (one, *one.cases)]
        replaced = {name for params in over for name in params or ()}
        self.params = {name: value for name, value in resolve_params(spec).items() if name not in replaced}
        self.made: list[Formula] = []
        self._prefix, self._types = "", dict[str, ValueType]()

    def compute(self, place: Expression, types: dict[str, ValueType], prefix: str) -> Place:
        """The place of an access with ``types``, as of `types_at_accesses`; the statements, whose names begin with
        ``prefix``, are ``made``."""
        self.made, self._prefix, self._types = [], prefix, types
        return self._place(place)

    def size(self, dim: str) -> tuple[int, int]:
        """The least and the most elements along a dim."""
        about = self.spec.dims[dim]
        return (about.value, about.value) if about.value else (about.min, min(about.max or _LARGEST_SIZE, LARGEST))

    def add(self, text: str, low: int, high: int, *parts: Place) -> Place:
        """A statement that computes ``text`` of these parts."""
        self.made.append(Formula(name=f"{self._prefix}_at_{len(self.made)}", text=text))
        dims = shared_dims([part.dims for part in parts]) if parts else ()
        return Place(self.made[-1].name, low, high, dims, any(part.is_data for part in parts))

    def _place(self, node: Expression) -> Place:
        match node:
            case Num(value=value):
                return _number(int(value))
            case Name(name=name):
                return self._named(name)
            case Unary(operand=operand):
                return self._joined("-", _number(0), self._place(operand))
            case Binary(op=sign, left=left, right=right):
                return self._joined(sign, self._place(left), self._place(right))
            case Call(function="size", arguments=(dim,)):
                return self.add(f"i64(size({dim}))", *self.size(str(dim)))
            case Call(function="ceildiv", arguments=(left, right)):
                divisor = self._divisor(self._place(right))
                above = self._joined("-", divisor, _number(1))
                return self._joined("//", self._joined("+", self._place(left), above), divisor)
            case Call(function=function, arguments=arguments):
                first, *others = map(self._place, arguments)
                for other in others:
                    first = self._joined(function, first, other)
                return first
            case _:
                raise AssertionError(f"{node} is no index")

    def _named(self, name: str) -> Place:
        if name in self._types[""].dims:
            index = self.add(f"i64(index({name}))", 0, self.size(name)[1] - 1)
            return index._replace(dims=(name,))
        if name in self.params:
            return _number(self.params[name])
        if name in self.spec.params:
            return self.add(f"i64({name})", -LARGEST, LARGEST)
        about = self._types[name]
        low, high = _range(about.dtype)
        value = self.add(f"i64({name})", low, high)._replace(dims=about.dims, is_data=True)
        if name in self.spec.scalars:
            low, high = (max(-LARGEST, min(LARGEST, limit)) for limit in self.spec.scalars[name].limits)
        return self._limited(value)._replace(low=low, high=high)

    def _limited(self, place: Place) -> Place:
        if place.low >= -LARGEST and place.high <= LARGEST:
            return place
        low, high = max(place.low, -LARGEST), min(place.high, LARGEST)
        return self.add(f"clamp({place.text}, -{LARGEST}, {LARGEST})", low, high, place)

    def _divisor(self, place: Place) -> Place:
        """Sizes of empty dims divide as 1."""
        return self._joined("max", place, _number(1)) if place.low < 1 else place

    def _joined(self, sign: str, left: Place, right: Place) -> Place:
        if sign in ("//", "%"):
            right = self._divisor(right)
        low, high = _RANGES[sign](left, right)
        if left.number is not None and right.number is not None:
            return _number(low)
        if sign == "*" and max(-low, high) > LARGEST:
            return self._large_product(left, right)
        number, value = (left, right) if left.number is not None else (right, left)
        function = _FUNCTIONS.get(sign)
        text = f"{function}({value.text}, {number.text})" if function else f"{left.text} {sign} {right.text}"
        return self._limited(self.add(text, low, high, left, right))

    def _large_product(self, left: Place, right: Place) -> Place:
        """The product, whose wider factor counts as no more than what keeps it from wrapping."""
        other, wide = sorted((left, right), key=lambda one: (one.number is None, max(-one.low, one.high)))
        if other.number is not None:
            most = LARGEST // max(1, abs(other.number))
            factor = self.add(f"clamp({wide.text}, -{most}, {most})", 0, 0, wide)
        else:
            most = self.add(f"{LARGEST} // maximum(abs({other.text}), 1)", 0, 0, other).text
            least = self.add(f"maximum({wide.text}, -{most})", 0, 0, wide, other)
            factor = self.add(f"minimum({least.text}, {most})", 0, 0, least)
        return self.add(f"{factor.text} * {other.text}", -LARGEST, LARGEST, factor, other)


def _number(value: int) -> Place:
    return Place(str(value), value, value)


def _range(dtype: str) -> tuple[int, int]:
    row = DTYPES[dtype]
    if dtype == "bool":
        return 0, 1
    if row.kind == "uint":
        return 0, 2**row.bits - 1
    return -(2 ** (row.bits - 1)), 2 ** (row.bits - 1) - 1


def _corners(join: Callable[[int, int], int]) -> Callable[[Place, Place], tuple[int, int]]:
    def range_of(left: Place, right: Place) -> tuple[int, int]:
        found = [join(one, other) for one in (left.low, left.high) for other in (right.low, right.high)]
        return min(found), max(found)

    return range_of


def _remainder(left: Place, right: Place) -> tuple[int, int]:
    if left.number is not None and right.number is not None:
        rest = left.low % right.low
        return rest, rest
    return 0, min(left.high, right.high - 1) if left.low >= 0 else right.high - 1


def _xor(left: Place, right: Place) -> tuple[int, int]:
    if left.number is not None and right.number is not None:
        bits = left.low ^ right.low
        return bits, bits
    if min(left.low, right.low) < 0:
        return -2 * LARGEST, 2 * LARGEST
    return 0, (1 << max(left.high, right.high).bit_length()) - 1


_FUNCTIONS = {"min": "minimum", "max": "maximum", "xor": "bitwise_xor"}
_RANGES: Mapping[str, Callable[[Place, Place], tuple[int, int]]] = {
    "+": _corners(lambda left, right: left + right),
    "-": _corners(lambda left, right: left - right),
    "*": _corners(lambda left, right: left * right),
    "//": _corners(lambda left, right: left // right),
    "%": _remainder,
    "min": lambda left, right: (min(left.low, right.low), min(left.high, right.high)),
    "max": lambda left, right: (max(left.low, right.low), max(left.high, right.high)),
    "xor": _xor,
}

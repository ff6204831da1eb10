"""The statements of a `combine` and its identity go in; out comes which law of joining they break, with numbers.

Elements are joined in runs, which depend on tiles and machines. Results depend on neither where `combine` is
associative and its identity changes nothing, itself included. The laws are tried on a few fixed numbers, in f64 and in
whole numbers that wrap. What numbers values may be is not known, and a combine may be one of such numbers alone
(`maximum` with 0 of those that are not negative; two numbers in their order), so what holds for one kind is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

from wavespec.diagnostics import WavespecError, quote
from wavespec.schema.checking.function_values import Number, converted, function_value
from wavespec.schema.language.dtypes import is_float
from wavespec.schema.ops import AnyOp, Cast, Elementwise, Joined, Register, Structured
from wavespec.schema.ops.base import ValueType
from wavespec.schema.ops.elementwise import dtype_of_numbers
from wavespec.schema.ops.joined import NotACombine

Element = tuple[Number, ...]
"""A number for each carried name."""

_WHOLE: tuple[tuple[Number, ...], ...] = ((2, 3, 5, 1, 7, 11, 4), (-2, -3, -5, -1, -7, -11, -4), (1, 0))
_PARTS = (0.5, 0.25, 0.75, 0.125, 0.625)
"""Kinds of numbers: counts and amounts, what is below 0, flags; and of floating point shares. Their sums and products
are exact in f64, so that no comparison depends on rounding."""
_RELATIONS = ("any", "made", "falling", "rising")
"""How numbers that an element has for several names are related: in no way, as in what `combine` makes, which scales
or sorts them at times, or those of one kind by their order."""
_TRIPLES = 16
_MOST_APART = 3
"""Names that each have their kind of numbers; of more, those of a type have one."""
_ALLOWED = 1e-4
"""Of what is larger than 1 relative to it: above what rounding and guards (`n + 1e-6`) do, below a mistake."""


def check_joins(
    graph: Sequence[AnyOp], types: Mapping[str, ValueType], plain: Callable[[Sequence[AnyOp]], Iterable[AnyOp]]
) -> Iterator[WavespecError]:
    """What is wrong with each `combine` of a checked graph; ``types``: of every value by its name; ``plain``: puts ops
    in place of expressions."""
    for op in graph:
        if isinstance(op, Joined):
            dtypes = [types[f"{op.name}.{name}"].dtype for name in op.carry]
            if broken := _Laws(op, tuple(plain(op.combine)), dtypes).broken():
                yield broken
        elif isinstance(op, Structured):
            for field in op.bodies:
                yield from check_joins(getattr(op, field), types, plain)


@dataclass(frozen=True, slots=True)
class _Broken:
    """``at``: the number of the carried name that differs; ``made``: what is there in place of what should be."""

    at: int
    message: str
    made: Element
    is_of_identity: bool


class _Unknown(Exception):
    """Numbers of this kind have no value in `combine`."""


class _Laws:
    def __init__(self, op: Joined, steps: Sequence[AnyOp], dtypes: Sequence[str]) -> None:
        self.op, self.steps, self.dtypes = op, steps, dtypes
        self.identity = tuple(converted(op.identity[name], one) for name, one in zip(op.carry, dtypes, strict=True))

    def broken(self) -> WavespecError | None:
        """An error where the laws hold for no kind of numbers, and are broken for one."""
        found = self._of_nothing()
        for triples in () if found else self._draws():
            try:
                broken = next(self._of_triples(triples), None)
            except _Unknown:
                continue
            if broken is None:
                return None
            found = found or broken
        return self._error(found) if found else None

    def _of_nothing(self) -> _Broken | None:
        """Beyond an edge there is identity after identity."""
        made = self._join(self.identity, self.identity)
        pairs = enumerate(zip(made, self.identity, strict=True))
        at = next((at for at, pair in pairs if not _is_close(*pair)), None)
        if at is None:
            return None
        message = f"The identity joined with itself gives {self._text(made)}, not {self._text(self.identity)}."
        return _Broken(at, message, made, is_of_identity=True)

    def _of_triples(self, triples: Iterable[Sequence[Element]]) -> Iterator[_Broken]:
        """What breaks a law: `combine` before its identity, since a wrong one has no right identity as a rule.

        Raises:
            _Unknown: what is joined has no value.
        """
        seen: list[Element] = []
        for a, b, c in triples:
            seen.append(a)
            first, last = self._join(self._join(a, b), c), self._join(a, self._join(b, c))
            if (at := self._differs(first, last)) is not None:
                one, two, three = map(self._text, (a, b, c))
                message = f"'combine' depends on what is joined first: {one} joined with {two}, then with {three}, "
                message += f"gives {self._text(first)}; {one} joined with what {two} and {three} give, "
                yield _Broken(at, f"{message}{self._text(last)}.", last, is_of_identity=False)
        for a in seen:
            for joined, words in (
                (self._join(self.identity, a), f"The identity joined with {self._text(a)} gives"),
                (self._join(a, self.identity), f"{self._text(a)} joined with the identity gives"),
            ):
                if (at := self._differs(joined, a)) is not None:
                    yield _Broken(at, f"{words} {self._text(joined)}.", joined, is_of_identity=True)

    def _draws(self) -> Iterator[Iterator[Sequence[Element]]]:
        """Triples of elements, for one kind of numbers, and one relation between them, after the other."""
        kinds = [(*_WHOLE, _PARTS) if is_float(dtype) else _WHOLE for dtype in self.dtypes]
        groups = range(len(kinds)) if len(kinds) <= _MOST_APART else [int(is_float(dtype)) for dtype in self.dtypes]
        of_group = dict(zip(groups, kinds, strict=True))
        for relation in _RELATIONS:
            for chosen in product(*of_group.values()):
                numbers = dict(zip(of_group, chosen, strict=True))
                yield self._triples([numbers[group] for group in groups], relation)

    def _triples(self, numbers: Sequence[Sequence[Number]], relation: str) -> Iterator[Sequence[Element]]:
        """Of ``numbers`` for each name: the first ones, which are easy to follow, and then any."""
        random, made = Random(0), list[Element]()
        for triple in range(1 + _TRIPLES):
            drawn = [
                [
                    one[(at + place) % len(one) if triple == 0 else int(random.random() * len(one))]
                    for at, one in enumerate(numbers)
                ]
                for place in range(6 if relation == "made" else 3)
            ]
            if relation in ("falling", "rising"):
                drawn = [_in_order(one, numbers, falling=relation == "falling") for one in drawn]
            elements = [tuple(map(converted, one, self.dtypes)) for one in drawn]
            if relation == "made":
                elements = [self._join(*pair) for pair in zip(elements[::2], elements[1::2], strict=True)]
                made += elements
                if any(math.isnan(number) for element in elements for number in element):
                    raise _Unknown
            yield elements
        if len({*made}) == 1:  # a law of one element says nothing
            raise _Unknown

    def _join(self, left: Element, right: Element) -> Element:
        """What `combine` makes of two elements."""
        op = self.op
        known = {**dict(zip(op.carry, left, strict=True)), **dict(zip(op.carry.values(), right, strict=True))}
        dtypes: dict[str, str] = dict(zip((*op.carry, *op.carry.values()), (*self.dtypes, *self.dtypes), strict=True))
        for one in self.steps:
            match one:
                case Register(name=name, value=number):
                    value, dtype = converted(number, one.dtype), one.dtype
                case Cast(name=name, value=operand):
                    value, dtype = converted(known[operand], one.dtype), one.dtype
                case Elementwise(name=name):
                    value, dtype = _value(one, known, dtypes)
                case _:
                    raise AssertionError(f"'combine' has no {one.word}")
            known[name], dtypes[name] = value, dtype
        return tuple(known[name] for name in op.carry)

    def _differs(self, found: Element, right: Element) -> int | None:
        """The number of the first name that differs.

        Raises:
            _Unknown: none does, as far as is known.
        """
        pairs = list(zip(found, right, strict=True))
        for at, pair in enumerate(pairs):
            if not any(map(math.isnan, pair)) and not _is_close(*pair):
                return at
        if any(math.isnan(one) for pair in pairs for one in pair):
            raise _Unknown
        return None

    def _text(self, element: Element) -> str:
        texts = [str(one) if isinstance(one, int) else f"{one:.6g}" for one in element]
        if len(texts) == 1:
            return texts[0]
        return f"({', '.join(f'{name}: {text}' for name, text in zip(self.op.carry, texts, strict=True))})"

    def _error(self, broken: _Broken) -> WavespecError:
        op, name = self.op, [*self.op.carry][broken.at]
        if broken.is_of_identity:
            where = op.where("identity", name)
            hint = "The identity fills tiles at edges: whatever it is joined with, from either side, stays as it is."
            if any(map(math.isinf, self.identity)) and any(map(math.isnan, broken.made)):
                hint = f"{hint} A finite one, such as -1e30, makes no NaN."
        else:
            last = [one for one in op.combine if getattr(one, "name", "") == name][-1]
            where = last.where_key("name")
            hint = "Runs of elements are joined before they are joined to what comes before them: carry what "
            hint += f"{quote(name)} needs for that as a value of its own."
        return NotACombine(where, broken.message, hint)


def _in_order(element: Sequence[Number], numbers: Sequence[Sequence[Number]], *, falling: bool) -> list[Number]:
    """An element in which numbers of one kind are in their order; but flags, which hardly ever differ then."""
    result = [*element]
    for kind in {*map(tuple, numbers)}:
        among = [at for at, one in enumerate(numbers) if one == kind and len(kind) > 2]
        for at, number in zip(among, sorted((element[at] for at in among), reverse=falling), strict=True):
            result[at] = number
    return result


def _value(op: Elementwise, known: Mapping[str, Number], dtypes: Mapping[str, str]) -> tuple[Number, str]:
    """What an op makes of values and numbers, and its element type."""
    written = {field: getattr(op, field) for field in op.headline}
    typed = (dtypes[one] for field, one in written.items() if isinstance(one, str) and field not in op.flags)
    plain = [one for one in written.values() if not isinstance(one, str)]
    dtype = next(typed, None) or dtype_of_numbers(plain)
    operands = tuple(known[one] if isinstance(one, str) else converted(one, dtype) for one in written.values())
    made = "bool" if op.function.result == "bool" else dtype
    return function_value(op.word, made, operands), made


def _is_close(one: Number, other: Number) -> bool:
    """Whether whole numbers are equal, or floating point is but for rounding; NaN is close to nothing."""
    if isinstance(one, int) or isinstance(other, int) or math.isinf(one) or math.isinf(other):
        return one == other
    return abs(one - other) <= _ALLOWED * max(1.0, abs(one), abs(other))

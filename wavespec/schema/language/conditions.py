"""Conditions on the sizes of a call go in; what each of them promises of one dim comes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, lcm

from wavespec.schema.language.expressions import Binary, Call, Compare, EvaluationError, Expression, Name
from wavespec.schema.language.models import Dim

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_LARGEST_MULTIPLE = 2**31 - 1
_Sizes = tuple[int, int]
"""The sizes ``first + i * step``."""


@dataclass(frozen=True, slots=True)
class Promise:
    """`dim <= number`, `dim >= number`, `dim == number`, or with `%`: `dim % number == 0`."""

    dim: str
    op: str
    number: int

    def narrows(self, dim: Dim) -> Dim | None:
        """The dim with its promises and this one; `None` where no size has both."""
        if dim.value is not None:
            return dim if self._holds_for(dim.value) else None
        least, most, multiple = dim.min, dim.max, dim.multiple_of
        match self.op:
            case "<=":
                most = self.number if most is None else min(most, self.number)
            case ">=":
                least = max(least, self.number)
            case "==":
                least, most = max(least, self.number), self.number if most is None else min(most, self.number)
            case _:
                multiple = lcm(multiple, self.number)
        first = -(-least // multiple) * multiple
        if most is not None and first > most:
            return None
        value = self.number if self.op == "==" else None
        # A multiple beyond the limit of the field is a condition of the call and no promise to the compiler.
        multiple = multiple if multiple <= _LARGEST_MULTIPLE else dim.multiple_of
        return dim.model_copy(update={"multiple_of": multiple, "min": least, "max": most, "value": value})

    def _holds_for(self, size: int) -> bool:
        match self.op:
            case "<=":
                return size <= self.number
            case ">=":
                return size >= self.number
            case "==":
                return size == self.number
            case _:
                return size % self.number == 0


def promise_of(condition: Expression, dims: Iterable[str], values: Mapping[str, int]) -> Promise | None:
    """What `condition` promises of one of `dims`; `None` where the compiler has no use for it.

    Args:
        values: the parameters, which conditions may use.
    """
    condition = _of_named_sizes(condition, dims)
    if not isinstance(condition, Compare) or condition.op == "!=":
        return None
    op, left, right = condition.op, condition.left, condition.right
    if (number := _constant(right, values)) is None:
        op, left, right = _MIRRORED[op], right, left
        number = _constant(right, values)
    if number is None:
        return None
    if isinstance(left, Name) and left.name in dims:
        strict = {"<": ("<=", number - 1), ">": (">=", number + 1)}
        return Promise(left.name, *strict.get(op, (op, number)))
    match left:
        case Binary(op="%", left=Name(name=name), right=divisor) if name in dims and (op, number) == ("==", 0):
            multiple = _constant(divisor, values)
            return Promise(name, "%", multiple) if multiple is not None and multiple > 0 else None
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Remainder:
    """`dim % divisor op number`: no promise to the compiler, but it may contradict one."""

    dim: str
    divisor: int
    op: str
    number: int

    def among(self, sizes: _Sizes) -> _Sizes | None:
        """Those of `sizes` that meet an equation, all of them where it is another comparison; `None` where none do."""
        first, step = sizes
        common = gcd(step, self.divisor)
        least = first % common
        most = self.divisor - common + least
        match self.op:
            case "==":
                is_met = 0 <= self.number < self.divisor and self.number % common == least
            case "!=":
                is_met = (least, most) != (self.number, self.number)
            case "<":
                is_met = least < self.number
            case "<=":
                is_met = least <= self.number
            case ">":
                is_met = most > self.number
            case _:
                is_met = most >= self.number
        if not is_met or self.op != "==":
            return sizes if is_met else None
        parts = self.divisor // common
        steps = (self.number - first) // common * pow(step // common, -1, parts) % parts
        return first + step * steps, step * parts


def narrowed_dims(
    dims: Mapping[str, Dim], conditions: Sequence[Expression], values: Mapping[str, int]
) -> dict[str, Dim] | Expression:
    """`dims` with what `conditions` promise of them, or the first condition that no size of a call can meet."""
    narrowed = dict(dims)
    remainders: dict[str, list[Remainder]] = {name: [] for name in dims}
    for condition in conditions:
        if (promise := promise_of(condition, dims, values)) is not None:
            name, dim = promise.dim, promise.narrows(narrowed[promise.dim])
            if dim is None:
                return condition
            narrowed[name] = dim
        elif (remainder := _remainder_of(condition, dims, values)) is not None:
            name = remainder.dim
            remainders[name].append(remainder)
        else:
            continue
        if not _has_sizes(narrowed[name], remainders[name]):
            return condition
    known = {**values, **{name: dim.value for name, dim in narrowed.items() if dim.value is not None}}
    return next((condition for condition in conditions if _constant(condition, known) == 0), narrowed)


@dataclass(frozen=True)
class Conditions:
    """Conditions that hold together; what follows from them is found once, however many others it is compared with.

    ``dims``: the sizes that they are about.  ``values``: the parameters, which conditions may use.
    """

    conditions: Sequence[Expression]
    dims: Mapping[str, Dim]
    values: Mapping[str, int]

    @cached_property
    def narrowed(self) -> dict[str, Dim] | Expression:
        """`narrowed_dims` of them."""
        return narrowed_dims(self.dims, self.conditions, self.values)

    @cached_property
    def _promises(self) -> dict[str, Promise | None]:
        return {str(condition): promise_of(condition, self.dims, self.values) for condition in self.conditions}

    def imply(self, others: Conditions) -> bool:
        """Whether sizes that meet all of these, which some do, surely meet all of the others."""
        promises = [promise for text, promise in others._promises.items() if text not in self._promises]
        if not promises or None in promises:
            return not promises
        narrowed = self.narrowed
        assert isinstance(narrowed, dict)
        return all(
            promise is not None and promise.narrows(narrowed[promise.dim]) == narrowed[promise.dim]
            for promise in promises
        )


def are_implied(
    conditions: Sequence[Expression], by: Sequence[Expression], dims: Mapping[str, Dim], values: Mapping[str, int]
) -> bool:
    """Whether sizes that meet all of `by` surely meet all of `conditions`."""
    return Conditions(by, dims, values).imply(Conditions(conditions, dims, values))


def _of_named_sizes(condition: Expression, dims: Iterable[str]) -> Expression:
    """The condition with the names of dims in place of the expressions that shapes have for these."""
    match condition:
        case Binary() | Call() if (name := str(condition)) in dims:
            return Name(name)
        case Binary(left=left, right=right) | Compare(left=left, right=right):
            sides = _of_named_sizes(left, dims), _of_named_sizes(right, dims)
            if sides[0] is left and sides[1] is right:  # the same expression remembers its text
                return condition
            return replace(condition, left=sides[0], right=sides[1])
        case _:
            return condition


def _remainder_of(condition: Expression, dims: Iterable[str], values: Mapping[str, int]) -> Remainder | None:
    condition = _of_named_sizes(condition, dims)
    if not isinstance(condition, Compare):
        return None
    op, left, right = condition.op, condition.left, condition.right
    if (number := _constant(right, values)) is None:
        op, left, right = _MIRRORED[op], right, left
        number = _constant(right, values)
    match left:
        case Binary(op="%", left=Name(name=name), right=by) if name in dims:
            divisor = _constant(by, values)
            if number is None or divisor is None or divisor <= 0:
                return None
            return Remainder(name, divisor, op, number)
        case _:
            return None


def _has_sizes(dim: Dim, remainders: Iterable[Remainder]) -> bool:
    sizes: _Sizes | None = 0, dim.multiple_of
    for remainder in remainders:
        sizes = remainder.among(sizes)
        if sizes is None:
            return False
    first, step = sizes
    return dim.max is None or dim.min + (first - dim.min) % step <= dim.max


def _constant(expression: Expression, values: Mapping[str, int]) -> int | None:
    try:
        return int(expression.evaluate(values))
    except EvaluationError:
        return None

"""Conditions of cases go in; the first case whose conditions all hold for given sizes comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from wavespec.runtime.size_expr import OPERATIONS, SizeExpr

_Step = tuple[Callable[[int, int], int], int, int]
"""An operation, and the places of the values that it takes."""


class FirstCase:
    """The index of the first case that a call belongs to, or how many there are.

    Cases compare the same times of tiles over and over: a part that is equal in several conditions is computed once.
    As trees, the conditions of a case for many rows took up to a millisecond.

    Args:
        cases: of each case all conditions, which have to be nonzero.  One that divides by 0, or without a whole
            quotient where there has to be one, does not hold.
    """

    __slots__ = ("_cases", "_program")

    def __init__(self, cases: Sequence[Sequence[SizeExpr]]) -> None:
        self._cases: Sequence[Sequence[SizeExpr]] = cases
        self._program: _Program | None = None

    def __call__(self, sizes: Mapping[str, int]) -> int:
        """Raises: `KeyError` where a condition names a dim without a size."""
        program = self._program
        if program is None:
            program = self._program = _written_out(self._cases)
        values: list[Any] = [*(sizes[name] for name in program.names), *program.numbers]
        append, done, failed = values.append, 0, 0
        for index, (shared, conditions) in enumerate(program.cases):
            if failed < shared:  # what did not hold of the case before is a condition of this one
                continue
            for at in range(shared, len(conditions)):
                place, steps = conditions[at]
                if done < steps:  # most conditions are those of cases before
                    for operation, left, right in program.steps[done:steps]:
                        try:
                            append(operation(values[left], values[right]))
                        except ArithmeticError:
                            append(_NO_VALUE)
                    done = steps
                if not values[place]:
                    failed = at
                    break
            else:
                return index
        return len(program.cases)


class _Program(NamedTuple):
    """Values are those of names, then numbers, then steps in order."""

    names: tuple[str, ...]
    numbers: tuple[int, ...]
    steps: tuple[_Step, ...]
    cases: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    """How many conditions at its beginning the case before has, too; and of each the place of its value, and how many
    steps that takes."""


def _written_out(cases: Sequence[Sequence[SizeExpr]]) -> _Program:
    leaves, steps = dict[int | str, int](), list[tuple[str, object, object]]()
    numbers, keys = dict[tuple[str, object, object], int](), dict[int, object]()

    def key(expression: SizeExpr) -> object:
        """A leaf, or the number of a step in a list of its own, which no leaf equals."""
        if not isinstance(expression, tuple):
            leaves.setdefault(expression, len(leaves))
            return expression
        if (known := keys.get(id(expression))) is None:
            operation, left, right = expression
            parts = (operation, key(left), key(right))
            if parts not in numbers:
                numbers[parts] = len(steps)
                steps.append(parts)
            known = keys[id(expression)] = (numbers[parts],)
        return known

    found = [[(key(one), len(steps)) for one in conditions] for conditions in cases]
    names = [leaf for leaf in leaves if isinstance(leaf, str)]
    constants = [leaf for leaf in leaves if isinstance(leaf, int)]
    places: dict[object, int] = {leaf: place for place, leaf in enumerate((*names, *constants))}
    places |= {(number,): len(leaves) + number for number in range(len(steps))}
    return _Program(
        tuple(names),
        tuple(constants),
        tuple((OPERATIONS[operation], places[left], places[right]) for operation, left, right in steps),
        tuple(_with_shared([tuple((places[one], count) for one, count in conditions) for conditions in found])),
    )


def _with_shared(cases: Sequence[tuple[tuple[int, int], ...]]) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
    """The cases, each with the length of the beginning that it has in common with the one before."""
    before: tuple[tuple[int, int], ...] = ()
    for conditions in cases:
        pairs = enumerate(zip(before, conditions, strict=False))
        other = (index for index, (earlier, own) in pairs if earlier[0] != own[0])
        yield next(other, min(len(before), len(conditions))), conditions
        before = conditions


class _NoValue:
    """Of a division without a result, as is everything computed of it; no number, so that numbers ask it."""

    def _none(self, *_: object) -> NoReturn:
        raise ArithmeticError

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _none
    __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __divmod__ = __rdivmod__ = __neg__ = _none
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _none
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return False


_NO_VALUE: Final = _NoValue()

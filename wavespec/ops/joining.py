"""How pairs of elements of several values are joined: as text in an attribute, and in steps of one lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.kernel import Value
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.elementwise import MEANINGS
from wavespec.ops.steps import Steps, StepsOfMachine

Unit = tuple[Value, ...]
"""What lies at the same places, of every value."""
_COMMUTATIVE = ("add", "mul", "maximum", "minimum")
_CAST, _NUMBER = "cast", "number"


@dataclass(frozen=True, slots=True)
class Step:
    """One step: a ``function`` whose result is a ``dtype``, of earlier results by their numbers.

    0 and on are what is joined so far, then come the elements joined to it, then results of steps.  Of the function
    ``number`` there is no operand but ``number``.
    """

    function: str
    dtype: str
    operands: tuple[int, ...] = ()
    number: float | int = 0

    def __str__(self) -> str:
        operands = (repr(self.number),) if self.function == _NUMBER else map(str, self.operands)
        return " ".join((self.function, self.dtype, *operands))


@dataclass(frozen=True, slots=True)
class Joining:
    """``identity``: of every value, the number that joins with any other without changing it.  ``results``: the numbers
    of what the joined elements are."""

    dtypes: tuple[str, ...]
    identity: tuple[float | int, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]

    @staticmethod
    def of(function: str, dtype: DType, identity: float | int) -> Joining:
        """One value, joined by an elementwise function."""
        return Joining((dtype.name,), (identity,), (Step(function, dtype.name, (0, 1)),), (2,))

    @property
    def commutes(self) -> bool:
        """Whether it is all one which of two elements comes first."""
        return len(self.dtypes) == len(self.steps) == 1 and self.steps[0].function in _COMMUTATIVE

    def __str__(self) -> str:
        parts = (" ".join(self.dtypes), " ".join(map(repr, self.identity)), "; ".join(map(str, self.steps)))
        return " | ".join((*parts, " ".join(map(str, self.results))))

    @staticmethod
    def parse(text: str) -> Joining:
        """The joining whose text it is."""
        dtypes, identity, steps, results = (part.split() for part in text.replace("; ", ";").split(" | "))
        kinds = tuple(dtypes)
        numbers = tuple(_number(one, kind) for one, kind in zip(identity, kinds, strict=True))
        lines = [line.split() for line in " ".join(steps).split(";")] if steps else []
        return Joining(kinds, numbers, tuple(map(_step, lines)), tuple(map(int, results)))

    def join(self, build: ThreadBuilder, left: Unit, right: Unit, hint: str, *, close_powers: bool = False) -> Unit:
        """``left`` comes before ``right``; both have as many elements."""
        known = [*left, *right]
        size = left[0].vector.elements
        for step in self.steps:
            kind = DTYPES[step.dtype]
            operands = [known[number] for number in step.operands]
            if step.function == _NUMBER:
                known.append(build.constant(step.number, kind, size))
            elif step.function == _CAST:
                known.append(build.cast(operands[0], kind, hint))
            else:
                steps = Steps(build, operands[-1], hint, StepsOfMachine(close_powers=close_powers))
                known.append(build.cast(MEANINGS[step.function].steps(steps, *operands), kind, hint))
        return tuple(known[number] for number in self.results)


def number_step(number: float | int, dtype: DType) -> Step:
    return Step(_NUMBER, dtype.name, (), float(number) if dtype.is_float else int(number))


def cast_step(operand: int, dtype: DType) -> Step:
    return Step(_CAST, dtype.name, (operand,))


def _step(words: Sequence[str]) -> Step:
    function, dtype, *operands = words
    if function == _NUMBER:
        return Step(function, dtype, (), _number(operands[0], dtype))
    return Step(function, dtype, tuple(map(int, operands)))


def _number(text: str, dtype: str) -> float | int:
    return float(text) if DTYPES[dtype].is_float else int(text)

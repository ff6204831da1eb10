"""What `dtypes` of a kernel says goes in, as plain data; the element types that every member has for its names, or what
is wrong with it, comes out.

    dtypes:
      T: [f32, f16, bf16]      one of these, by the tensors of a call; the first is that of the kernel by itself
      S: accumulator(T)        what follows from it
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import cast

from wavespec.diagnostics import WavespecError, Where, name_hints, quote
from wavespec.schema.language.dtypes import ACCUMULATORS, DTYPES, DType
from wavespec.schema.language.errors import BadName, OutOfRange, UnknownDtype, WrongType
from wavespec.schema.language.family import MOST_MEMBERS
from wavespec.schema.language.names import name_problem

TYPE_NAME_PATTERN = r"^[A-Z][A-Za-z0-9_]{0,63}$"
DERIVED: Mapping[str, Mapping[str, DType]] = {"accumulator": ACCUMULATORS}
"""Functions of an element type: that in which products and sums of it are computed."""
_DERIVED = re.compile(r"\s*([a-z]+)\s*\(\s*(\w+)\s*\)\s*")

Types = Mapping[str, DType]
"""An element type for every name."""
Places = Callable[..., Where]
"""Where a part of `dtypes` was written: the value behind keys and numbers of a list."""


class RepeatedDtype(WavespecError, code="repeated-value"):
    def __init__(self, where: Where, dtype: str) -> None:
        super().__init__(where, f"{quote(dtype)} is twice among the element types.")


class UndefinedDtypeName(WavespecError, code="undefined-name"):
    def __init__(self, where: Where, name: str, known: Iterable[str], what: str = "a name in 'dtypes'") -> None:
        hints = name_hints(name, known, "Known here are")
        super().__init__(where, f"{quote(name)} is not {what}.", hints=hints, about=[name])


class UnknownDtypeFunction(WavespecError, code="unknown-function"):
    def __init__(self, where: Where, name: str) -> None:
        hints = name_hints(name, DERIVED, "The functions are")
        super().__init__(where, f"{quote(name)} is not a function of element types.", hints=hints)


class NoAccumulator(WavespecError, code="no-accumulator"):
    def __init__(self, where: Where, function: str, dtype: str) -> None:
        super().__init__(
            where,
            f"{quote(function)} of {dtype} is nothing: there are no products of it to add up.",
            hints=[f"Types that have one: {', '.join(DERIVED[function])}."],
        )


@dataclass(frozen=True, slots=True)
class DtypeParameters:
    """The names in `dtypes`: ``choices`` are given by a call, ``derived`` (function, name) follow from these."""

    choices: Mapping[str, tuple[DType, ...]]
    derived: Mapping[str, tuple[str, str]]

    def members(self) -> tuple[Types, ...]:
        """What is chosen for every member: all combinations, that of the first types first."""
        return tuple(dict(zip(self.choices, row, strict=True)) for row in product(*self.choices.values()))

    def types(self, chosen: Types) -> Types:
        """With what follows from the ``chosen``."""
        return {**chosen, **{name: DERIVED[word][chosen[of]] for name, (word, of) in self.derived.items()}}


def read_dtypes(data: object, place: Places, key_place: Places) -> DtypeParameters:
    """The names of ``data``: those of a mapping, with lists of element types or a function of another name.

    Raises:
        WavespecError: with every mistake.
    """
    if not isinstance(data, Mapping) or not data:
        found = _found(cast(object, data))
        raise WrongType(place(), "names with element types (a mapping)", found, "Write 'T: [f32, bf16]' in it.")
    table = cast(Mapping[str, object], data)
    choices: dict[str, tuple[DType, ...]] = {}
    derived: dict[str, tuple[str, str]] = {}
    errors: list[WavespecError] = []
    for name, value in table.items():
        errors += _name_errors(name, key_place)
        if isinstance(value, str) and (found := _DERIVED.fullmatch(value)):
            derived[name] = found[1], found[2]
        elif not isinstance(value, list | tuple) or not value:
            errors.append(
                WrongType(place(name), "a list of element types, or 'accumulator(NAME)'", _found(cast(object, value)))
            )
        else:
            types = tuple(cast("list[object] | tuple[object, ...]", value))
            errors += _choice_errors(name, types, place)
            choices[name] = cast("tuple[DType, ...]", types)
    for name, (word, of) in derived.items():
        # A list that is wrong is reported as such.
        if of in choices or of not in table or of in derived:
            errors += _derived_errors(place(name), word, of, choices)
    if not errors and (count := prod(map(len, choices.values()))) > MOST_MEMBERS:
        errors.append(OutOfRange(key_place(), "dtypes", f"at most {MOST_MEMBERS} combinations", str(count)))
    if errors:
        raise WavespecError.of(diagnostic for error in errors for diagnostic in error.diagnostics)
    return DtypeParameters(choices, derived)


def _items(value: object) -> tuple[object, ...]:
    """Of a list; none of what is no list."""
    return tuple(cast("list[object] | tuple[object, ...]", value)) if isinstance(value, list | tuple) else ()


def _name_errors(name: str, key_place: Places) -> Iterator[WavespecError]:
    problem = name_problem(name)
    if problem is None and not re.match(TYPE_NAME_PATTERN, name):
        problem = "is no name of element types, which begins with a capital letter: the types themselves do not"
    if problem:
        yield BadName(key_place(name), name, problem)


def _choice_errors(name: str, types: tuple[object, ...], place: Places) -> Iterator[WavespecError]:
    for index, dtype in enumerate(types):
        if not isinstance(dtype, str):
            yield WrongType(place(name, index), "an element type", _found(dtype))
        elif dtype not in DTYPES:
            yield UnknownDtype(place(name, index), dtype, DTYPES)
        elif dtype in types[:index]:
            yield RepeatedDtype(place(name, index), dtype)


def _derived_errors(
    where: Where, word: str, of: str, choices: Mapping[str, tuple[DType, ...]]
) -> Iterator[WavespecError]:
    if word not in DERIVED:
        yield UnknownDtypeFunction(where, word)
    elif of not in choices:
        yield UndefinedDtypeName(where, of, choices, "a name in 'dtypes' that has a list of element types")
    else:
        for dtype in choices[of]:
            if dtype in DTYPES and dtype not in DERIVED[word]:
                yield NoAccumulator(where, word, dtype)


def _found(value: object) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list" if _items(cast(object, value)) else "an empty list"
    return quote(str(value))

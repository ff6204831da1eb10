"""The mistakes of form that a spec can have, apart from what it means: fields, words, types and ranges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from wavespec.diagnostics import WavespecError, Where, guess_hints, listing, name_hints, quote
from wavespec.schema.language.names import name_problem
from wavespec.schema.language.synonyms import dtype_hints, op_hints
from wavespec.targets.names import VARIANTS

LANGUAGE_PAGE = "docs/language.md"
"""Where every word of the language is documented."""
_INFINITY = re.compile(r"[+-]?(inf|infinity|oo)", re.IGNORECASE)
_NAN = re.compile(r"[+-]?\.?nan", re.IGNORECASE)
_QUOTED = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
"""Texts that were meant as numbers."""
_MOST_LISTED = 40
"""Characters of a text that may have been meant as the items of a list."""
ANY_NAME = "*"
"""Among the names of broken parts: a statement has no name, so an unknown value may be its result."""


class UnknownField(WavespecError, code="unknown-field"):
    def __init__(self, where: Where, name: str, allowed: Iterable[str], owner: str) -> None:
        allowed = list(allowed)
        hints = name_hints(name, allowed, "Its fields are") or (f"{owner} has no fields.",)
        super().__init__(where, f"{owner} has no field {quote(name)}.", hints=hints)


class MissingField(WavespecError, code="missing-field"):
    def __init__(self, where: Where, name: str, owner: str) -> None:
        super().__init__(where, f"{owner} needs the field {quote(name)}.", hints=_written_as(name, owner))


def _written_as(field: str, owner: str) -> tuple[str, ...]:
    """What a spec says of itself, which is the same in all of a kind."""
    kind = owner.partition(" ")[2].partition(" ")[0].capitalize()
    values = {"apiVersion": "wavespec/v1", "kind": kind}
    return (f"Write '{field}: {values[field]}'.",) if field in values else ()


class UnknownOp(WavespecError, code="unknown-op"):
    def __init__(self, where: Where, name: str, allowed: Iterable[str]) -> None:
        allowed = list(allowed)
        hints = op_hints(name, allowed) or name_hints(name, allowed, "The ops are", LANGUAGE_PAGE)
        super().__init__(where, f"{quote(name)} is not an op.", hints=hints)


class UnknownConstraint(WavespecError, code="unknown-constraint"):
    def __init__(self, where: Where, name: str, allowed: Iterable[str]) -> None:
        hints = name_hints(name, allowed, "The constraints are")
        super().__init__(where, f"{quote(name)} is not a constraint.", hints=hints)


class UnknownDtype(WavespecError, code="unknown-dtype"):
    def __init__(self, where: Where, name: str, allowed: Iterable[str]) -> None:
        allowed = list(allowed)
        hints = dtype_hints(name, allowed) or name_hints(name, allowed, "The dtypes are")
        super().__init__(where, f"{quote(name)} is not a dtype.", hints=hints)


class UnknownTarget(WavespecError, code="unknown-target"):
    def __init__(self, where: Where, name: str, allowed: Iterable[str]) -> None:
        super().__init__(where, f"{quote(name)} is not a target.", hints=name_hints(name, allowed, "The targets are"))


class UnknownVariant(WavespecError, code="unknown-variant"):
    """A target has no such variant."""

    def __init__(self, where: Where, name: str, target: str) -> None:
        hints = name_hints(name, VARIANTS[target], "Its variants are")
        super().__init__(where, f"{quote(name)} is not a variant of {target}.", hints=hints, about=[name])


class UnknownValue(WavespecError, code="unknown-value"):
    def __init__(self, where: Where, found: str, allowed: Iterable[str], field: str) -> None:
        allowed = list(allowed)
        message = f"{quote(field)} is {listing(allowed, 'or')}, not {quote(found)}."
        super().__init__(where, message, hints=guess_hints(found, allowed) if len(allowed) > 1 else ())


class WrongType(WavespecError, code="wrong-type"):
    """``about``: the name that is meant to stand for what was expected, where one was written."""

    def __init__(self, where: Where, expected: str, found: str, hint: str = "", about: Sequence[str] = ()) -> None:
        super().__init__(where, f"Expected {expected}, found {found}.", hints=[hint] if hint else [], about=about)


def no_fields(where: Where, owner: str, found: str, value: object) -> WrongType:
    """The error for a ``value`` in the place of the fields of something."""
    expected = f"the fields of {owner.lower()}"
    if isinstance(value, str) and name_problem(value) is None:
        return WrongType(where, expected, found, f"No alias under 'let' is called {quote(value)}.", about=[value])
    if owner.lower() == "a dim" and type(value) is int:
        return WrongType(where, expected, found, f"Write {{value: {value}}} for one size.")
    return WrongType(where, expected, found, "Write {} for one without fields." if value is None else "")


def no_list(where: Where, found: str, value: object, *, is_aliased: bool) -> WrongType:
    """The error for a ``value`` in the place of a list; ``is_aliased``: of one that an alias may stand for."""
    if is_aliased and isinstance(value, str) and name_problem(value) is None:
        return WrongType(where, "a list", found, f"No alias under 'let' is called {quote(value)}.", about=[value])
    is_item = not is_aliased and isinstance(value, str) and 0 < len(value) <= _MOST_LISTED and value.isprintable()
    return WrongType(where, "a list", found, f"Write '[{value}]'." if is_item else "")


def no_number(where: Where, expected: str, found: str, value: object) -> WrongType:
    """The error for a ``value`` in the place of a number."""
    hint = ""
    if expected != "a number":
        return WrongType(where, expected, found)
    if isinstance(value, bool):
        hint = f"Write {int(value)}, of a bool as well."
    elif isinstance(value, str) and _INFINITY.fullmatch(value):
        hint = f"Infinity is written '{'-' if value.startswith('-') else ''}.inf'."
    elif isinstance(value, str) and _NAN.fullmatch(value):
        hint = "NaN is the value of an expression, 'nan', as in '- y: \"where(x > 0, x, nan)\"'."
    elif isinstance(value, str) and _QUOTED.fullmatch(value):
        hint = f"Write it without quotes: {value}."
    return WrongType(where, expected, found, hint)


def no_table(where: Where, found: str, values: Sequence[object], of: str) -> WrongType:
    """The error for a value, or a list of ``values``, in the place of names with values; ``of``: the key of these."""
    hint = "Leave the key out, or write {}." if [*values] == [None] else ""
    names = [name.strip() for value in values if isinstance(value, str) for name in value.split(",")]
    if of == "dims" and len(names) >= len(values) > 0 and all(name_problem(name) is None for name in names):
        each = ", ".join(f"{name}: {{}}" for name in names)
        hint = f"Write '{{{each}}}': {{}} is any size, {{value: 64}} is one."
    return WrongType(where, "names with values (a mapping)", found, hint)


class OutOfRange(WavespecError, code="out-of-range"):
    """A number or a length is outside its limits; `limit` reads "at least 1"."""

    def __init__(self, where: Where, field: str, limit: str, found: str, hint: str = "") -> None:
        super().__init__(where, f"{quote(field)} is {limit}, not {found}.", hints=[hint] if hint else [])


class NumberOutOfRange(WavespecError, code="number-out-of-range"):
    def __init__(self, where: Where, text: str, limit: str) -> None:
        super().__init__(where, f"{quote(text)} needs more than {limit}.", about=[text])


class BadName(WavespecError, code="bad-name"):
    """`problem` is the end of a sentence, from `name_problem`."""

    def __init__(self, where: Where, name: str, problem: str) -> None:
        longer = f"{name}_"
        hints = () if name_problem(longer) else (f"{quote(longer)} is a name.",)
        if any(sign in name for sign in "()+*/%<>&|"):
            whole = f"- value: {name}"
            hints = (f"An expression of values is a statement of its own, {quote(whole)}, or all of this one is one.",)
        super().__init__(where, f"{quote(name)} {problem}.", hints=hints)


class MissingName(WavespecError, code="missing-name"):
    """`inner`: the op that is written below the word, as if that were a name; `formula`: an expression that is."""

    def __init__(self, where: Where, word: str, inner: str = "", formula: str = "") -> None:
        if inner or formula:
            made = f"that {quote(inner)} makes" if inner else f"of {quote(formula)}"
            message = f"{quote(word)} is an op, and no name of the value {made}."
            below = f"{{{inner}: ...}}" if inner else formula
            hint = f"Call the value something else: '- {word}_: {below}'."
        else:
            message, hint = f"{quote(word)} makes a value, which needs a name.", f"Write '- name: {{{word}: ...}}'."
        super().__init__(where, message, hints=[hint])


class NamedEffect(WavespecError, code="named-effect"):
    def __init__(self, where: Where, word: str, name: str) -> None:
        super().__init__(
            where,
            f"{quote(word)} makes no value, so {quote(name)} would name nothing.",
            hints=[f"Write '- {{{word}: ...}}'."],
        )


class WrongOperandCount(WavespecError, code="wrong-operand-count"):
    def __init__(self, where: Where, word: str, operands: Iterable[str], found: int) -> None:
        operands = list(operands)
        super().__init__(where, f"{quote(word)} takes {len(operands)} operands ({', '.join(operands)}), not {found}.")

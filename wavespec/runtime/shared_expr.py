"""A manifest's record goes in; one comes out in which what several of its expressions have in common is said once.
And the way back.

    {"expressions": [["ceildiv", "M", 128], ["mul", "#0", 2]], "grid": ["#1", "#0", 1], ...}

An entry names those in front of it.  Expressions that were read so are trees that share their parts, and whoever walks
over many of them looks at a part once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from wavespec.runtime.size_expr import SizeExpr, from_json

TABLE: Final = "expressions"
"""The field of a record that has what is said once."""

_OTHERS: Final = frozenset({"computed"})
"""Fields that hold expressions of other numbers."""
_NAME = re.compile(r"#(\d+)")
_NAME_LENGTH: Final = 6
"""Of what stands for an expression, with its quotes."""
_LINE_LENGTH: Final = 3
"""Of what an entry has around it."""
_DEEPEST: Final = 64
_MOST_PARTS: Final = 1 << 16


def with_shared(record: Mapping[str, Any]) -> dict[str, Any]:
    """``record``, in which expressions are tuples, with a table where one makes it shorter by a fifth: without, each
    expression can be read where it stands."""
    table = _Table()
    for expression in _expressions(record):
        table.count(expression)
    entries = table.entries()
    shorter = {**_replaced(record, table.short), TABLE: entries}
    return shorter if len(json.dumps(shorter)) * 5 < len(json.dumps(record)) * 4 else dict(record)


def without_shared(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record that `with_shared` made, as JSON has it, with the expressions that its table names.

    Errors: `ValueError` for a table that is none, and names without an entry.
    """
    rows = record.get(TABLE)
    if rows is None:
        return dict(record)
    if not isinstance(rows, list):
        raise ValueError(f"{TABLE} is {rows!r:.40}, expected a list; build it again")
    table, sizes = list[SizeExpr](), list[tuple[int, int]]()

    def named(value: object) -> object:
        if isinstance(value, str) and (name := _NAME.fullmatch(value)):
            if int(name[1]) >= len(table):
                raise ValueError(f"there is no expression {value:.40}; build it again")
            return table[int(name[1])]
        return value

    def size(value: object) -> tuple[int, int]:
        """Depth and number of the parts of an expression, were it written out."""
        if isinstance(value, str) and (name := _NAME.fullmatch(value)) and int(name[1]) < len(sizes):
            return sizes[int(name[1])]
        parts = [size(part) for part in cast(list[object], value)] if isinstance(value, list) else []
        return 1 + max((deep for deep, _ in parts), default=0), 1 + sum(many for _, many in parts)

    for row in cast(list[object], rows):
        expression, (deep, many) = from_json(_renamed(row, named)), size(row)
        if deep > _DEEPEST or many > _MOST_PARTS:
            raise ValueError(f"{TABLE}[{len(table)}] is too large; build it again")
        table.append(expression)
        sizes.append((deep, many))
    rest = {field: value for field, value in record.items() if field != TABLE}
    return cast(dict[str, Any], _renamed(rest, named))


class _Table:
    """Expressions, of which those that are equal are one, and how often each stands somewhere."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int | str, int | str], int] = {}
        self._keys: dict[int, int | str] = {}
        self._uses: list[int] = []
        self._parts: list[tuple[str, int | str, int | str]] = []
        self._short: list[Any] = []
        self._alive: list[SizeExpr] = []

    def count(self, expression: SizeExpr) -> None:
        """Take note of an expression that stands in a record."""
        key = self._key(expression)
        if isinstance(key, str) and key.startswith("#"):
            self._uses[int(key[1:])] += 1

    def _key(self, expression: SizeExpr) -> int | str:
        if not isinstance(expression, tuple):
            return expression
        if (known := self._keys.get(id(expression))) is not None:
            return known
        operation, left, right = expression
        parts = (operation, self._key(left), self._key(right))
        number = self._numbers.get(parts)
        if number is None:
            number = self._numbers[parts] = len(self._parts)
            self._parts.append(parts)
            self._uses.append(0)
            for part in parts[1:]:
                if isinstance(part, str) and part.startswith("#"):
                    self._uses[int(part[1:])] += 1
        key = self._keys[id(expression)] = f"#{number}"
        self._alive.append(expression)  # so that no other one has its id
        return key

    def entries(self) -> list[Any]:
        """The table; `short` says from now on what stands for an expression."""
        found = list[Any]()
        for uses, (operation, *operands) in zip(self._uses, self._parts, strict=True):
            shown = [operation, *map(self._shown, operands)]
            length = len(json.dumps(shown))
            if uses * length > length + _LINE_LENGTH + uses * _NAME_LENGTH:
                found.append(shown)
                self._short.append(f"#{len(found) - 1}")
            else:
                self._short.append(shown)
        return found

    def short(self, expression: SizeExpr) -> Any:
        return self._shown(self._key(expression))

    def _shown(self, key: int | str) -> Any:
        return self._short[int(key[1:])] if isinstance(key, str) and key.startswith("#") else key


def _expressions(value: object) -> Iterator[SizeExpr]:
    if isinstance(value, tuple):
        yield cast(SizeExpr, value)
    elif isinstance(value, Mapping):
        for field, inner in cast(Mapping[str, object], value).items():
            if field not in _OTHERS:
                yield from _expressions(inner)
    elif isinstance(value, list):
        for inner in cast(list[object], value):
            yield from _expressions(inner)


def _replaced(value: Any, short: Any) -> Any:
    if isinstance(value, tuple):
        return short(value)
    if isinstance(value, Mapping):
        entries = cast(Mapping[str, Any], value).items()
        return {field: inner if field in _OTHERS else _replaced(inner, short) for field, inner in entries}
    return [_replaced(inner, short) for inner in cast(list[Any], value)] if isinstance(value, list) else value


def _renamed(value: object, named: Any) -> object:
    if isinstance(value, dict):
        entries = cast(dict[str, object], value).items()
        return {field: inner if field in _OTHERS else _renamed(inner, named) for field, inner in entries}
    if isinstance(value, list):
        return [_renamed(inner, named) for inner in cast(list[object], value)]
    return named(value)

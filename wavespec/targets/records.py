"""A mapping as YAML has it in, the record of a dataclass out; keys that it lacks and values of other types are
refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

_Record = TypeVar("_Record")


def record(kind: type[_Record], data: Mapping[str, Any], where: str) -> _Record:
    """The record that ``data`` describes, lists as tuples, mappings of its fields as records of their own.

    Raises:
        ValueError: an unknown key, a missing one, or a value of another type; ``where`` and its path are named.
    """
    declared = fields(cast("Any", kind))
    unknown = sorted(set(data) - {one.name for one in declared})
    missing = [
        one.name
        for one in declared
        if one.name not in data and one.default is MISSING and one.default_factory is MISSING
    ]
    if unknown or missing:
        raise ValueError(f"{where}: unknown {unknown}, missing {missing}")
    hints = _hints(kind)
    return kind(**{name: _value(hints[name], value, f"{where}: {name}") for name, value in data.items()})


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    expected = hint.__name__ if isinstance(hint, type) else str(hint)
    if hint is Any or (isinstance(hint, type) and type(value) is hint):
        return value
    if is_dataclass(hint) and isinstance(value, dict):
        return record(cast("type[Any]", hint), cast("dict[str, Any]", value), where)
    if origin is Literal and value in arguments:
        return value
    if origin is UnionType:
        return None if value is None else _value(arguments[0], value, where)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_value(arguments[0], item, where) for item in cast("list[Any]", value))
    if origin is Mapping and isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {_value(arguments[0], key, where): _value(arguments[1], item, f"{where}.{key}") for key, item in items}
    raise ValueError(f"{where}: {value!r} is no {expected}")

"""A problem that pydantic found goes in; the error that says it in the words of the language comes out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.base import SpecModel, Worded
from wavespec.schema.language.errors import (
    BadName,
    MissingField,
    OutOfRange,
    UnknownField,
    UnknownValue,
    WrongType,
    no_number,
)

_TYPES = {
    "int_type": "an integer",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
}
_LIMITS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
_INSTEAD_OF_NONE = {
    "only": "Name its targets, such as 'only: [cpu]', or leave 'only' out: then the kernel is for all of them.",
    "when": "Write what holds for all sizes under the target itself.",
}
"""What to write instead of an empty list."""


def pydantic_to_error(problem: Mapping[str, Any], where: Where, field: str, owner: str) -> WavespecError:
    """The error for one entry of `ValidationError.errors()`; `field` and `owner` name its place."""
    kind: str = problem["type"]
    found: Any = problem["input"]
    context: dict[str, Any] = problem.get("ctx", {})
    location: tuple[str | int, ...] = problem["loc"]
    if kind == "missing" and isinstance(location[-1], int):
        length = len(found)
        unit = "entry" if length == 0 else "entries"
        return OutOfRange(where, field, f"at least {length + 1} {unit} long", str(length))
    if kind == "missing":
        return MissingField(where, str(location[-1]), owner)
    if kind == "extra_forbidden":
        return UnknownField(where, str(location[-1]), [], owner)
    if kind == "bad_name":
        return BadName(where, str(found), context["problem"])
    if kind == "literal_error" and isinstance(found, str):
        return UnknownValue(where, found, re.findall("'([^']*)'", context["expected"]), field)
    if kind in _TYPES:
        # A number may be an integer or a fraction; pydantic tries both and reports both.
        expected = "a number" if location[-1:] == ("int",) else _TYPES[kind]
        return no_number(where, expected, describe(found), found)
    if kind in ("greater_than_equal", "greater_than", "less_than_equal", "less_than"):
        ((word, limit),) = context.items()
        return OutOfRange(where, field, f"{_LIMITS[word]} {limit}", str(found))
    if kind == "multiple_of":
        return OutOfRange(where, field, f"a multiple of {context['multiple_of']}", str(found))
    if kind in ("too_long", "too_short"):
        word, limit = ("at most", context["max_length"]) if kind == "too_long" else ("at least", context["min_length"])
        unit = "entry" if limit == 1 else "entries"
        length = len(found)  # pydantic does not count the rest of a dict
        hint = "" if length else _INSTEAD_OF_NONE.get(field, "")
        return OutOfRange(where, field, f"{word} {limit} {unit} long", str(length), hint)
    if kind == "string_too_short":
        return WrongType(where, f"some text for {quote(field)}", "none")
    if kind == "string_too_long":
        return OutOfRange(where, field, f"at most {context['max_length']} characters long", str(len(found)))
    if kind == "string_pattern_mismatch":
        return WrongType(where, "lower-case letters, digits and underscores", describe(found))
    return WrongType(where, f"another value for {quote(field)}", describe(found))


def follows_from_others(problem: Mapping[str, Any]) -> bool:
    """Whether pydantic tells it of what its other problems leave: a list whose items are all wrong is not empty."""
    return problem["type"] == "too_short" and len(problem["input"]) >= problem["ctx"]["min_length"]


def describe(value: object) -> str:
    """A value as a message names it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value}"
    return f"the text {quote(value)}" if isinstance(value, str) else "a list or a mapping"


_OWNERS = {
    "KernelSpec": "A kernel",
    "Dim": "A dim",
    "Tensor": "A tensor",
    "Scalar": "A scalar",
    "Values": "'values'",
    "TensorOverride": "A tensor of a target",
    "TargetOverride": "A target",
    "Case": "A case",
    "FamilySpec": "A family",
    "TunedSpec": "A tuned file",
    "TunedCase": "A tuned case",
    "Measured": "'measured'",
    "Timing": "A timing",
    "HardwareSettings": "'hardware'",
    "Schedule": "'schedule'",
    "LoopSchedule": "A loop of 'schedule'",
    "WaveSchedule": "'waves' of 'schedule'",
    "WaveRegisters": "'registers' of 'waves'",
    "WorkgroupSchedule": "'workgroups' of 'schedule'",
}


def owner_of(model: type[SpecModel]) -> str:
    """What a message calls the part of a file that a model is."""
    if issubclass(model, Worded):
        return f"'{model.word}'"
    return _OWNERS[model.__name__]

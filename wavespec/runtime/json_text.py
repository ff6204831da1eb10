"""JSON values go in; text in which a line holds what fits into one, so that a diff shows what changed, comes out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

_LINE_LENGTH = 160


def json_text(value: Any, indent: int = 0, before: int = 0) -> str:
    """`value` in one line where that fits behind ``indent`` spaces and ``before`` characters, else an entry a line."""
    line = json.dumps(value)
    if indent + before + len(line) < _LINE_LENGTH or not value or not isinstance(value, Mapping | list | tuple):
        return line
    rows: list[str] = []
    if isinstance(value, Mapping):
        for name, inner in cast(Mapping[str, Any], value).items():
            key = f"{json.dumps(name)}: "
            rows.append(key + json_text(inner, indent + 1, len(key)))
    else:
        rows += [json_text(inner, indent + 1) for inner in cast(Sequence[Any], value)]
    start, end = "{}" if isinstance(value, Mapping) else "[]"
    margin = " " * indent
    return f"{start}\n{margin} " + f",\n{margin} ".join(rows) + f"\n{margin}{end}"

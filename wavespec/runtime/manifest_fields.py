"""A manifest as JSON values goes in; what a field of it lacks, or has in place of what belongs there, comes out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, cast

from wavespec.runtime.scalars import SCALAR_WORDS

_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class _Number:
    least: int = 0
    optional: bool = False


@dataclass(frozen=True, slots=True)
class _Rows:
    """A list; of `count` entries, where that is not 0."""

    of: _Field
    count: int = 0


@dataclass(frozen=True, slots=True)
class _Record:
    fields: Mapping[str, _Field]
    optional: Mapping[str, _Field]


@dataclass(frozen=True, slots=True)
class _OneOf:
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Text:
    """A text of a form, which is called `what`."""

    form: str
    what: str


@dataclass(frozen=True, slots=True)
class _Counts:
    """Numbers by any names."""


@dataclass(frozen=True, slots=True)
class _Value:
    """A number of Python: true, false, whole or a fraction."""


_Field = _Value | _Number | _Rows | _Record | _OneOf | _Text | _Counts | type
_Expression = object
"""`size_expr.from_json`, or `number_from_json`, says what is wrong with one."""


def _record(optional: Mapping[str, _Field] | None = None, /, **fields: _Field) -> _Record:
    return _Record(fields, optional or {})


_ASSUMPTIONS = _Rows(_record({"of_machine": bool}, text=str, condition=_Expression))
_LAUNCH: dict[str, _Field] = {
    "entry_point": str,
    "dims": _Rows(
        _record(
            {"equals": _Expression, "leading": bool},
            name=str,
            multiple_of=_Number(1),
            size=_Number(0, optional=True),
        )
    ),
    "grid": _Rows(_Expression, 3),
    "workgroup_size": _Rows(_Expression, 3),
    "shared_memory_bytes": _Number(),
    "scratch_bytes": _Rows(_Expression),
    "tensor_maps": _Rows(
        _record(
            {
                "view": _Rows(_Expression),
                "windows": _Rows(_record(first=int, step=_Number(1), count=_Expression)),
                "rounded": _OneOf(("tf32",)),
                "ended": _Number(),
                "row_step": _Number(1),
            },
            tensor=str,
            box=_Rows(_Number(1)),
            swizzle_bytes=_Number(),
        )
    ),
    "assumptions": _ASSUMPTIONS,
    "binaries": _Rows(
        _record(
            label=str,
            format=_OneOf(("vmfb", "ptx", "cubin")),
            requires=_Rows(str),
            bytes=_Number(),
            sha256=_Text("[0-9a-f]{64}", "64 hex digits"),
            mlir_sha256=str,
            figures=_Counts(),
        )
    ),
}
_UNSET: dict[str, _Field] = {
    "unlaunched_bytes": _Expression,
    "unset_scratch": _Number(1),
    "waits": bool,
    "work": _Expression,
}
_DIM_OR_SIZE = object
_SCALARS = _Rows(
    _record(
        {"default": _Value(), "least": _Value(), "most": _Value(), "shapes": bool, "computed": _Expression},
        name=str,
        dtype=_OneOf(tuple(SCALAR_WORDS)),
    )
)
_TENSORS = _Rows(
    _record(
        {
            "updated": bool,
            "zeroed": bool,
            "strides": _OneOf(("any", "contiguous")),
            "promised": _Rows(_Expression),
        },
        name=str,
        dtype=str,
        dims=_Rows(_DIM_OR_SIZE),
        output=bool,
    )
)
_STEPS = _Rows(_record(_UNSET, name=str, tensors=_TENSORS, **_LAUNCH))
_MANIFEST: Final = _record(
    {"scalars": _SCALARS, "steps": _STEPS, **_UNSET},
    format_version=_Number(),
    name=str,
    target=str,
    backend=_OneOf(("cpu", "cuda", "hip")),
    architecture=str,
    spec_sha256=str,
    compiler=str,
    tensors=_TENSORS,
    cases=_Rows(_record({**_LAUNCH, **_UNSET, "steps": _STEPS}, when=_ASSUMPTIONS)),
    **_LAUNCH,
)


def check_fields(record: Mapping[str, Any]) -> None:
    """Errors: `ValueError` names the first field that is missing or holds something else than it should."""
    _check(record, _MANIFEST, "")
    steps = [step for one in (record, *record["cases"]) for step in one.get("steps", ())]
    for number, tensor in enumerate(chain.from_iterable(one["tensors"] for one in (record, *steps))):
        for dim in tensor["dims"]:
            if not (isinstance(dim, str) or _is_number(dim, 0)):
                raise _wrong(f"tensors[{number}].dims", dim, "names of dims and sizes")


def _check(value: object, field: _Field, at: str) -> None:
    match field:
        case _Number(least, optional):
            if not (optional and value is None) and not _is_number(value, least):
                raise _wrong(at, value, f"a whole number of at least {least}")
        case _Value():
            if not isinstance(value, bool | int | float):
                raise _wrong(at, value, "a number")
        case _OneOf(words):
            if value not in words:
                raise _wrong(at, value, " or ".join(map(repr, words)))
        case _Rows(of, count):
            expected = f"a list of {count}" if count else "a list"
            if not isinstance(value, list):
                raise _wrong(at, value, expected)
            rows = cast(list[object], value)
            if count not in (0, len(rows)):
                raise _wrong(at, rows, expected)
            for number, row in enumerate(rows):
                _check(row, of, f"{at}[{number}]")
        case _Text(form, what):
            if not isinstance(value, str) or not re.fullmatch(form, value):
                raise _wrong(at, value, what)
        case _Counts():
            if not isinstance(value, dict):
                raise _wrong(at, value, "an object")
            for name, count in cast(dict[str, object], value).items():
                _check(count, _Number(), f"{at}.{name}")
        case _Record(fields, optional):
            if not isinstance(value, dict):
                raise _wrong(at, value, "an object")
            entries = cast(dict[str, object], value)
            for name, one in {**fields, **optional}.items():
                inner = f"{at}.{name}" if at else name
                if name in entries:
                    _check(entries[name], one, inner)
                elif name in fields:
                    raise ValueError(f"there is no {inner}; build it again")
        case _:
            if not isinstance(value, field):
                raise _wrong(at, value, {str: "a text", bool: "true or false"}.get(field, "a value"))


def _is_number(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < _LARGEST


def _wrong(at: str, value: object, expected: str) -> ValueError:
    return ValueError(f"{at} is {value!r:.40}, expected {expected}; build it again")

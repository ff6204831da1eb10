"""Size expressions: values, JSON, and refusal of anything else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wavespec.runtime.size_expr import evaluate, from_json, names_in

_TILES = ("mul", ("ceildiv", "M", 128), ("ceildiv", "N", 256))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (7, 7),
        ("M", 1000),
        (("ceildiv", "M", 128), 8),
        (("ceildiv", 0, 128), 0),
        (("ceildiv", 128, 128), 1),
        (("floordiv", "M", 128), 7),
        (("mod", "M", 128), 104),
        (("min", "M", "N"), 513),
        (("gt", "M", ("mul", 4, 64)), 1),
        (_TILES, 24),
    ],
)
def test_value(expression: Any, expected: int) -> None:
    assert evaluate(expression, {"M": 1000, "N": 513}) == expected


def test_json_round_trip() -> None:
    assert from_json(json.loads(json.dumps(_TILES))) == _TILES


def test_names() -> None:
    assert names_in(_TILES) == {"M", "N"}


_DEEP: Any = 1
for _ in range(100):
    _DEEP = ["add", _DEEP, 1]


@pytest.mark.parametrize("value", [None, 1.5, True, {}, [], ["add", 1], ["pow", 2, 3], ["__import__", "os", 1], _DEEP])
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="size expression"):
        from_json(value)

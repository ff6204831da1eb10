"""JSON with a line for what fits into one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wavespec.runtime.json_text import json_text

WIDE = [f"entry {number}" for number in range(20)]


@pytest.mark.parametrize("value", [{}, [], 1, "é\n", {"a": [1, None, True]}, {"a": WIDE, "b": [[WIDE], {"c": {}}]}])
def test_the_text_means_the_value(value: Any) -> None:
    assert json.loads(json_text(value)) == value


def test_what_fits_is_a_line_and_the_rest_an_entry_a_line() -> None:
    lines = json_text({"few": [1, 2], "many": WIDE}).splitlines()
    assert lines[:4] == ["{", ' "few": [1, 2],', ' "many": [', '  "entry 0",']
    assert lines[-3:] == ['  "entry 19"', " ]", "}"]

"""What expressions of a manifest have in common is said once, and read back as it was."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from wavespec.runtime.shared_expr import TABLE, with_shared, without_shared
from wavespec.runtime.size_expr import SizeExpr, names_in

TILES: SizeExpr = ("mul", ("ceildiv", "M", 128), ("ceildiv", "N", 256))
LAST: SizeExpr = ("mod", ("mul", ("ceildiv", "M", 128), ("ceildiv", "N", 256)), 132)
RECORD: dict[str, Any] = {
    "name": "gemm",
    "grid": [TILES, 1, 1],
    "cases": [
        {"when": [{"text": f"case {n}", "condition": ("le", LAST, n)}], "grid": [LAST, "N", 1]} for n in range(9)
    ],
    "scalars": [{"name": "scale", "computed": ("/", 1, ("sqrt", "D"))}],
}


def read(record: dict[str, Any]) -> dict[str, Any]:
    """As JSON has it."""
    return without_shared(json.loads(json.dumps(record)))


def test_a_record_comes_back() -> None:
    found = read(with_shared(RECORD))
    assert json.dumps(found) == json.dumps(RECORD)
    conditions = [case["when"][0]["condition"] for case in found["cases"]]
    assert all(one[1] is conditions[0][1] for one in conditions), "trees share their parts"


def test_a_part_is_said_once_and_entries_name_those_in_front_of_them() -> None:
    shared = with_shared(RECORD)
    assert shared[TABLE] == [["mul", ["ceildiv", "M", 128], ["ceildiv", "N", 256]], ["mod", "#0", 132]]
    assert shared["grid"] == ["#0", 1, 1]
    assert shared["cases"][3] == {"when": [{"text": "case 3", "condition": ["le", "#1", 3]}], "grid": ["#1", "N", 1]}
    assert shared["scalars"] == RECORD["scalars"], "numbers have expressions of their own"


def test_records_that_it_hardly_makes_shorter_stay_as_they_are() -> None:
    record = {"doc": "x" * 1000, "grid": [TILES, TILES, LAST]}
    assert with_shared(record) == record


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (None, None),
        ({}, "expected a list"),
        ([["add", "#0", 1]], "there is no expression #0"),
        ([["pow", 2, 3]], "a size expression is"),
        ([["add", "M", "M"], *(["add", f"#{n}", f"#{n}"] for n in range(40))], "too large"),
        ([["add", "M", 1], *(["add", f"#{n}", 1] for n in range(100))], "too large"),
    ],
    ids=["none", "no list", "names itself", "no expression", "doubles", "deep"],
)
def test_tables_that_are_none_are_refused(table: Any, problem: str | None) -> None:
    record = {"grid": ["M", 1, 1]} | ({} if table is None else {TABLE: table})
    if problem is None:
        assert without_shared(record) == record
        return
    with pytest.raises(ValueError, match=problem):
        without_shared(record)


def test_a_name_without_an_entry_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no expression #7"):
        without_shared({TABLE: [["add", "M", 1]], "grid": ["#7", 1, 1]})


def test_names_of_trees_that_share_parts_are_found_in_as_many_steps_as_there_are_parts() -> None:
    tree: SizeExpr = "M"
    for _ in range(200):
        tree = ("add", tree, tree)
    assert names_in(cast(SizeExpr, ("mul", tree, "N")), tree) == {"M", "N"}

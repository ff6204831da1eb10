"""Tables of plans: groups and choices of entries are written out, and no word in them means nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import resources
from random import Random
from typing import Any, get_args

import pytest
import yaml

from tests.bare import planned_anew
from tests.lower.gemms import Gemm
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.plans import tables
from wavespec.schema.plans.facts import FACTS, SIZES
from wavespec.schema.plans.roles import Kind
from wavespec.targets.names import TARGETS

FOLDER = resources.files("wavespec.schema.plans") / "tables"
SMALL = """\
cpu:
  let: {rounds: "ceildiv(rows, tile_rows)"}
  every: [{tile: {rows: 4}}]
  cases:
    - when: [bits == 16]
      aligned: most
      tile: {columns: 64}
      schedule: {waves: {producers: 1}}
      cases:
        - {when: [{any: [rows <= 64, columns <= 2 * steps]}], tile: {rows: 8}, schedule: {waves: {order: in_turn}}}
        - {least: rounds * 3, tile: {rows: 16}}
"""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A table in place of that for rows."""
    found = yaml.safe_load(SMALL)
    written: Mapping[str, Any] = {"rows": found, "limits": {"cpu": {}}}
    monkeypatch.setattr(tables, "_read", written.__getitem__)
    tables.table_of.cache_clear()
    yield found
    tables.table_of.cache_clear()


@pytest.mark.parametrize("kind", get_args(Kind))
def test_each_kind_has_a_table_for_every_target(kind: Kind) -> None:
    found = {target: tables.table_of(kind, target) for target in TARGETS}
    assert found["cpu"] is not None
    assert kind == "pairs" or all(found.values())
    assert all(one.every and "when" in one.every[-1] for one in found.values() if one)
    assert all(not one.every[-1]["when"] for one in found.values() if one), "some kernel would have no plan"


def test_all_that_tables_may_ask_for_is_asked_for() -> None:
    texts = "\n".join(one.read_text() for one in FOLDER.iterdir() if one.name.endswith(".yaml"))
    words = set(re.findall(r"\w+", re.sub(r"#.*", "", texts)))
    assert {*FACTS, *SIZES} <= words


def test_entries_have_what_their_groups_say_and_are_two_for_most_rows(small: dict[str, Any]) -> None:
    table = tables.table_of("rows", "cpu")
    assert table is not None
    assert [(one["tile"], one["schedule"], one["aligned"]) for one in table.cases] == [
        ({"columns": 64, "rows": rows}, {"waves": {"producers": 1, **more}}, aligned)
        for rows, more in ((8, {"order": "in_turn"}), (16, {}))
        for aligned in ("all", "operands")
    ]
    assert table.cases[0]["when"] == ["bits == 16", "min(rows - (64), columns - (2 * steps)) <= 0"]


@pytest.mark.parametrize(
    ("part", "value", "word"),
    [
        ("when", ["colums <= 4"], "colums"),
        ("tile", {"rows": 4, "row": 4}, "row"),
        ("mna", "lanes", "mna"),
        ("variants", ["x86_64_v5"], "x86_64_v5"),
    ],
)
def test_a_word_that_means_nothing_is_an_error(small: dict[str, Any], part: str, value: object, word: str) -> None:
    small["cpu"]["every"][0][part] = value
    with pytest.raises(ValueError, match=f"table of rows on cpu: {word}$"):
        tables.table_of("rows", "cpu")


TIMES = {
    (64, 128): (200, 2300, 4000),
    (96, 128): (280, 2300, 4000),
    (144, 128): (395, 2300, 4000),
    (128, 160): (422, 1900, 5000),
    (128, 192): (490, 1900, 5000),
    (128, 128): (350, 1900, 5000),
    (128, 256): (660, 1900, 5000),
}
"""Nanoseconds of tiles on `sm_90`: for 64 steps, around a round, around a launch."""


def nanoseconds(tile: tuple[int, int], m: int, n: int, k: int) -> int:
    step, around, launch = TIMES[tile]
    rounds = -(-(-(-m // tile[0]) * -(-n // tile[1])) // 132)
    return rounds * (step * -(-k // 64) + around) + launch


def test_a_call_takes_the_tile_that_takes_least() -> None:
    spec = planned_anew(Gemm("bf16", dims=("", "multiple_of: 8", "multiple_of: 8")).spec)
    cases, random = cases_for_target(spec, "sm_90"), Random(1)
    for _ in range(60):
        sizes = (random.randint(130, 5000), 8 * random.randint(800, 3000), 64 * random.randint(2, 128))
        params = case_for_sizes(cases, dict(zip("MNK", sizes, strict=True))).spec.params
        tile = (int(str(params["TILE_M"])), int(str(params["TILE_N"])))
        assert nanoseconds(tile, *sizes) == min(nanoseconds(one, *sizes) for one in TIMES), sizes

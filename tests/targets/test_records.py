"""What a machine's YAML may say: the fields of its record, with values of their types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import pytest

from wavespec.targets import TARGETS
from wavespec.targets.machine import variants
from wavespec.targets.records import record


@dataclass(frozen=True)
class Cache:
    bytes: int
    shared: bool = False


@dataclass(frozen=True)
class Core:
    order: Literal["in", "out"]
    widths: tuple[int, ...] = ()
    cache: Cache | None = None
    counts: Mapping[str, int] | None = None


def test_a_mapping_becomes_a_record() -> None:
    data = {"order": "in", "widths": [4, 8], "cache": {"bytes": 64}}
    assert record(Core, data, "core") == Core("in", (4, 8), Cache(64))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"order": "in", "chache": {}}, r"core: unknown \['chache'\], missing \[\]"),
        ({"widths": [4]}, r"core: unknown \[\], missing \['order'\]"),
        ({"order": "sideways"}, "core: order: 'sideways' is no "),
        ({"order": "in", "widths": ["4"]}, "core: widths: '4' is no int"),
        ({"order": "in", "widths": 4}, "core: widths: 4 is no "),
        ({"order": "in", "cache": {"bytes": True}}, "core: cache: bytes: True is no int"),
        ({"order": "in", "cache": {"bytes": 64, "shared": 1}}, "core: cache: shared: 1 is no bool"),
        ({"order": "in", "counts": {"a": 1.5}}, "core: counts.a: 1.5 is no int"),
    ],
)
def test_what_a_record_does_not_have_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        record(Core, data, "core")


@pytest.mark.parametrize("target", TARGETS)
def test_a_misspelt_property_of_a_machine_is_refused(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (resources.files("wavespec.targets") / f"{target}.yaml").read_text(encoding="utf-8")
    (tmp_path / f"{target}.yaml").write_text(text.replace("\nmax_threads:", "\nmost_threads:"), encoding="utf-8")
    monkeypatch.setattr("wavespec.targets.machine.resources.files", {"wavespec.targets": tmp_path}.__getitem__)
    with pytest.raises(ValueError, match=rf"{target}.yaml: unknown \['most_threads'\], missing \['max_threads'\]"):
        variants.__wrapped__(target)

"""Places at which no element ever is are told: of sums of indices, sizes and numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavespec.schema import load_with_warnings

TEXT = """\
apiVersion: wavespec/v1
kind: Kernel
name: moved
dims: {{M: {{}}, N: {{}}, F: {{value: 4}}, H: {{equals: N * 2}}}}
params: {{SHIFT: 3}}
tensors:
  x: {{shape: [M, N], dtype: f32}}
  f: {{shape: [F], dtype: f32}}
  y: {{shape: [M, N], dtype: f32, role: output}}
graph:
  - whole: {{read: x}}
  - small: {{read: f}}
  - there: {statement}
  - all: whole + there
  - {{write: all, to: y}}
"""


def codes(statement: str, folder: Path) -> list[str]:
    path = folder / "moved.wave.yaml"
    path.write_text(TEXT.format(statement=statement).replace("all", "every"))
    return [found.code for found in load_with_warnings(path)[1]]


@pytest.mark.parametrize(
    "place", ["N - 1 - N", "-1", "-N - 1", "N + size(N)", "N - size(N)", "2 * size(N) - N", "size(N) * 3 + M", "-SHIFT"]
)
def test_places_where_nothing_is_are_told(place: str, tmp_path: Path) -> None:
    assert codes(f'{{read: x, at: {{N: "{place}"}}}}', tmp_path) == ["always-outside"]


@pytest.mark.parametrize(
    "place",
    [
        "size(N) - 1 - N",
        "N - SHIFT",
        "N + SHIFT",
        "0",
        "SHIFT",
        "2 * N",
        "N - M",
        "N * -1",
        "size(N) - 2",
        "N // 2 - 1",
        "N + M",
    ],
)
def test_places_where_something_may_be_are_not(place: str, tmp_path: Path) -> None:
    assert codes(f'{{read: x, at: {{N: "{place}"}}}}', tmp_path) == []


@pytest.mark.parametrize(("place", "known"), [("4", ["always-outside"]), ("3", []), ("N + 4", ["always-outside"])])
def test_sizes_that_are_known_count(place: str, known: list[str], tmp_path: Path) -> None:
    assert codes(f"{{take: small, dims: [N], at: {{F: {place}}}}}", tmp_path) == known

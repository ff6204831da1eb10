"""Whether rows, one after the other, are at the same place."""

from __future__ import annotations

import pytest

from wavespec.ir.expr import Expr, const, symbol
from wavespec.lower.same_quotients import quotients_apart

TILE, TAP = symbol("tile", 0, 63), symbol("tap", 0, 8)
WIDTH, HEIGHT = symbol("W", 1, 4096), symbol("H", 1, 4096)
PIXELS = tuple(TILE * 12 + number for number in range(12))
LINES = tuple(pixel // WIDTH for pixel in PIXELS)


@pytest.mark.parametrize(
    ("places", "apart"),
    [
        ((TAP, TAP, TAP), const(0)),
        (tuple(line % HEIGHT + TAP - 1 for line in LINES), LINES[-1] - LINES[0]),
        (tuple(line // HEIGHT * 2 for line in LINES), LINES[-1] // HEIGHT - LINES[0] // HEIGHT),
    ],
    ids=["one number", "lines of an image", "images"],
)
def test_first_and_last_tell_of_all(places: tuple[Expr, ...], apart: Expr) -> None:
    assert quotients_apart(places) is apart


@pytest.mark.parametrize(
    "places",
    [
        PIXELS,
        tuple(pixel % WIDTH for pixel in PIXELS),
        tuple(line + number for number, line in enumerate(LINES)),
        (LINES[0], LINES[1] * 2, LINES[2]),
        tuple(line % HEIGHT + pixel % WIDTH for line, pixel in zip(LINES, PIXELS, strict=True)),
        (LINES[5], *LINES),
        (LINES[0], PIXELS[1] // HEIGHT),
    ],
    ids=["numbers", "columns", "numbers beside", "factors", "two places", "not in order", "other sizes"],
)
def test_of_others_nothing_is_known(places: tuple[Expr, ...]) -> None:
    assert quotients_apart(places) is None

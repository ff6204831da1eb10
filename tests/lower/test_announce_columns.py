"""Copies of a few columns of many rows announce the columns that the next block has in them."""

from __future__ import annotations

import pytest

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text
from wavespec.lower.announce_columns import AnnounceColumns

IMAGES = Text("""
    thread kernel @k target cpu lanes 1
    symbol C in 0..4096 by 1
    symbol P in 0..65536 by 1
    symbol pixel in 0..224 by 32
    symbol channel in 0..63 by 1
    plan "auto" stages 1 group 0
    memory @x : f32 (C: [C], P: [P]) global input mapped
    memory @panel : f32 (C: [64], P: [256]) shared
""")
PLACE = "pixel + P*channel"


def copy(*places: str) -> str:
    """A block of 32 pixels of each channel, by loads at these places."""
    loads = "\n".join(
        f'          %a{number} = load {{mask = (), memory = "x", offset = [{place}], valid = none}} : f32x16'
        for number, place in enumerate(places)
    )
    return f"""
      for {{induction = "pixel", lower = [0], step = [32], unroll = 1, upper = [256]}} () do
        for {{induction = "channel", lower = [0], step = [1], unroll = 1, upper = [64]}} () do
{loads}
          store %a0 {{memory = "panel", offset = [channel*256 + pixel]}}
          yield
        end
        yield
      end
    """


def hints(*places: str) -> list[str]:
    after = IMAGES.after(AnnounceColumns(), CPU, copy(*places))
    return [line.strip() for line in after.splitlines() if "prefetch" in line]


def test_lines_behind_those_of_a_step_are_announced_once() -> None:
    """32 pixels of 4 bytes are two lines; of windows of neighbours, those behind the last of them."""
    found = hints(f"{PLACE} - 1", PLACE, f"{PLACE} + 1", f"{PLACE} + 16")
    assert len(found) == 2
    assert all('memory = "x"' in line for line in found)
    assert [end in line for end, line in zip(("+ 63]", "+ 47]"), found, strict=True)] == [True, True]


def test_each_row_has_its_own() -> None:
    assert len(hints(PLACE, f"{PLACE} + P")) == 4


@pytest.mark.parametrize("place", ["pixel*2 + P*channel", "P*pixel + channel", "P*channel", "pixel + channel*4"])
def test_what_does_not_go_on_in_rows_that_are_apart_is_not_announced(place: str) -> None:
    assert not hints(place)


def test_it_is_for_machines_that_are_told_what_is_read_later() -> None:
    assert AnnounceColumns().applies_to(CPU) and not AnnounceColumns().applies_to(NVIDIA)

"""Places that become numbers: one conversion and exact additions, where every place is a number of the type."""

from __future__ import annotations

import pytest

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text, lines
from wavespec.lower.count_in_floats import CountInFloats

HEAD = Text("""
    thread kernel @k target sm_90 lanes 32
    symbol N in 0..16000000 by 1
    symbol at_N in 0..15999992 by 8
    symbol lane in 0..31 by 1
    plan "auto" stages 1 group 0
    memory @y : f32 (N: [N]) global output
""")
PLACES = "    %at = coordinates {places = ([at_N + lane], [at_N + lane + 8],)} : i32x2\n"
STORE = '    store %far {memory = "y", offset = [0]}\n'


def test_one_place_is_converted_and_the_others_follow() -> None:
    body = f"{PLACES}    %far = cast %at : f32x2\n{STORE}"
    assert HEAD.after(CountInFloats(), NVIDIA, body) == lines("""
        %at = coordinates {places = ([at_N + lane], [at_N + lane + 8],)} : i32x2
        %far.1 = coordinates {places = ([at_N + lane],)} : i32x1
        %far.2 = cast %far.1 : f32x1
        %far.3 = constant {value = 0.0} : f32x1
        %far.4 = constant {value = 8.0} : f32x1
        %far.5 = broadcast %far.2 : f32x2
        %far.6 = pack %far.3, %far.4 : f32x2
        %far = elementwise %far.5, %far.6 {function = "add"} : f32x2
        store %far {memory = "y", offset = [0]}
    """)


def test_parts_of_a_tile_follow_the_first_of_all() -> None:
    body = f"{PLACES}    %part = slice %at {{size = 1, start = 1}} : i32x1\n    %far = cast %part : f32x1\n{STORE}"
    text = HEAD.after(CountInFloats(), NVIDIA, body)
    assert "places = ([at_N + lane],)" in text and "value = 8.0" in text


def test_distances_of_places_follow_the_first_as_well() -> None:
    """Of 2 rows to 2 columns, three numbers: what is the same for all is converted once."""
    body = f"""{PLACES}    %rows = coordinates {{places = ([lane], [lane + 8],)}} : i32x2
    %away = elementwise %at, %rows {{function = "sub"}} : i32x2
    %one = slice %away {{size = 1, start = 1}} : i32x1
    %both = broadcast %one : i32x2
    %all = pack %away, %both : i32x4
    %far = cast %all : f32x4
{STORE}"""
    text = HEAD.after(CountInFloats(), NVIDIA, body)
    assert text.count(" = cast ") == 1 and "places = ([at_N],)" in text


@pytest.mark.parametrize(
    "change",
    [("0..15999992", "0..16777216"), ("+ lane + 8]", "+ lane*2]")],
    ids=["beyond 2^24 sums are rounded twice", "no constant apart"],
)
def test_places_are_converted_one_by_one(change: tuple[str, str]) -> None:
    body = f"{PLACES}    %far = cast %at : f32x2\n{STORE}".replace(*change)
    kernel = (HEAD.changed(change) if change[0] in HEAD.head else HEAD).kernel(body)
    assert CountInFloats()(kernel, NVIDIA).body == kernel.body

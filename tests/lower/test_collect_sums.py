"""What a workgroup combines with a small tensor it combines in shared memory first, where that is worth it."""

from __future__ import annotations

import pytest

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text, lines
from wavespec.lower.collect_sums import CollectSums

HEAD = """
    thread kernel @k target sm_90 lanes 32
    symbol N in 0..4096 by 1
    symbol B in 0..1000 by 1
    symbol lane in 0..31 by 1
    symbol wave in 0..3 by 1
    symbol at in 0..1000 by 1
    plan "auto" stages 1 group 1 persistent
    wave wave 4
    grid [132]
    memory @x : i32 (N: [N]) global input
    memory @counts : i32 (B: [B]) global inout mapped
"""
STAYING = Text(HEAD)
LOAD = '%x = load {memory = "x", offset = [lane + wave*32]} : i32x1'
COUNT = 'atomic %x {function = "add", mask = (([at], [B],),), memory = "counts", offset = [at]}'
BODY = f"""
    {LOAD}
    bind %x {{symbol = "at"}}
    {COUNT}
"""


def test_a_copy_of_zeros_is_added_once() -> None:
    assert STAYING.after(CollectSums(), NVIDIA, BODY) == lines("""
        %nothing = constant {value = 0} : i32x1
        for {induction = "counts_start", lower = [0], step = [1], unroll = 1, upper = [(B + 127)//128]} () do
          store %nothing {mask = (([counts_start*128 + lane + wave*32], [B],),), memory = "counts.collected", offset = [counts_start*128 + lane + wave*32]}
          yield
        end
        barrier
        %x = load {memory = "x", offset = [lane + wave*32]} : i32x1
        bind %x {symbol = "at"}
        atomic %x {function = "add", mask = (([at], [B],),), memory = "counts.collected", offset = [at]}
        barrier
        for {induction = "counts_end", lower = [0], step = [1], unroll = 1, upper = [(B + 127)//128]} () do
          %loaded = load {mask = (([counts_end*128 + lane + wave*32], [B],),), memory = "counts.collected", offset = [counts_end*128 + lane + wave*32]} : i32x1
          atomic %loaded {function = "add", mask = (([counts_end*128 + lane + wave*32], [B],),), memory = "counts", offset = [counts_end*128 + lane + wave*32]}
          yield
        end
    """)


@pytest.mark.parametrize(("function", "nothing"), [("maximum", -(2**31)), ("minimum", 2**31 - 1), ("and", -1)])
def test_it_begins_with_what_changes_nothing(function: str, nothing: int) -> None:
    text = STAYING.after(CollectSums(), NVIDIA, BODY.replace('"add"', f'"{function}"'))
    assert f"constant {{value = {nothing}}}" in text and text.count(f'function = "{function}"') == 2


def test_workgroups_that_go_collect_what_they_add_often() -> None:
    """128 lanes add one element each: four times as many as 32 places, and less than once to each of 1,000."""
    going = HEAD.replace(" persistent", "")
    for most, is_collected in (("1000", False), ("32", True)):
        text = Text(going.replace("B in 0..1000", f"B in 0..{most}").replace("at in 0..1000", f"at in 0..{most}"))
        assert ("counts.collected" in text.after(CollectSums(), NVIDIA, BODY)) == is_collected


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (HEAD.replace("0..1000", "0..100000"), BODY),
        (
            HEAD.replace("@counts : i32", "@counts : f32").replace("@x : i32", "@x : f32"),
            BODY.replace("i32x1", "f32x1"),
        ),
        (
            HEAD,
            BODY
            + '    %held = load {memory = "counts", offset = [lane]} : i32x1\n    store %held {memory = "counts", offset = [lane]}\n',
        ),
        (HEAD, BODY.replace("atomic %x {", "%old = atomic %x {").replace("offset = [at]}", "offset = [at]} : i32x1")),
    ],
    ids=("more than a part of shared memory", "no instruction", "somebody reads it", "somebody asks what it held"),
)
def test_everything_else_stays_in_memory(head: str, body: str) -> None:
    assert "counts.collected" not in Text(head).after(CollectSums(), NVIDIA, body)

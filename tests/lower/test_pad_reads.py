"""What is read around a row is left out once, behind the read, where one number suits all who join elements."""

from __future__ import annotations

import pytest

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text, lines
from wavespec.lower.pad_reads import PadReads

HEAD = """
    tile kernel @rows target sm_90 lanes 32
    symbol M in 0..4096 by 1
    symbol N in LEAST..1000 by 1
    symbol wg0 in 0..4095 by 1
    split workgroup M 1 0
    split loop N 1024 0
    plan "auto" stages 1 group 0
    grid [M]
    memory @x : bf16 (M: [M], N: [N]) global input
    memory @y : f32 (M: [M]) global output
"""
ROWS, MAYBE_EMPTY = (Text(HEAD.replace("LEAST", least)) for least in ("1", "0"))
START = '(("N", [0 - (N*wg0)%8],),)'
PLACE = f'memory = "x", origin = (("M", [wg0],), {START[1:-1]})'
READ = f'read {{around = true, masked = ("N",), {PLACE}}} : tile<N: 1024, bf16>'
JOIN = f'{{dim = "N", divided = false, function = "FUNCTION", masked = MASKED, origin = {START}, size = [N]}}'
PAD = f'pad %x {{dim = "N", masked = true, origin = {START}, size = [N], value = VALUE}} : tile<N: 1024, bf16>'
WIDE = "tile<N: 1024, f32>"


def joined(function: str, masked: bool) -> str:
    return JOIN.replace("FUNCTION", function).replace("MASKED", str(masked).lower())


def softmax(start: str, *, masked: bool) -> str:
    return f"""
    {start}
    %lowest = register {{value = -inf}} : tile<bf16>
    %none = register {{value = 0.0}} : tile<f32>
    %top = reduce %part, %lowest {joined("maximum", masked)} : tile<bf16>
    %number = cast %part : {WIDE}
    %largest = cast %top : tile<f32>
    %less = elementwise %number, %largest {{function = "sub"}} : {WIDE}
    %power = elementwise %less {{function = "exp"}} : {WIDE}
    %sum = reduce %power, %none {joined("add", masked)} : tile<f32>
    write %sum {{masked = (), memory = "y", origin = (("M", [wg0],),)}}
    """


def squares(start: str, *, masked: bool, less: str = "%number") -> str:
    return f"""
    {start}
    %first = register {{value = 1.0}} : tile<f32>
    %none = register {{value = 0.0}} : tile<f32>
    %number = cast %part : {WIDE}
    %less = elementwise %number, %first {{function = "sub"}} : {WIDE}
    %square = elementwise {less}, {less} {{function = "mul"}} : {WIDE}
    %sum = reduce %square, %none {joined("add", masked)} : tile<f32>
    write %sum {{masked = (), memory = "y", origin = (("M", [wg0],),)}}
    """


def padded(value: str) -> str:
    return f"%part.1 = {READ}\n    %part = {PAD.replace('%x', '%part.1').replace('VALUE', value)}"


def test_powers_of_what_is_less_than_the_largest_are_0_behind_minus_infinity() -> None:
    before = softmax(f"%part = {READ}", masked=True)
    assert ROWS.after(PadReads(), NVIDIA, before) == lines(softmax(padded("-inf"), masked=False))


def test_squares_of_0_are_0() -> None:
    before = squares(f"%part = {READ}", masked=True)
    assert ROWS.after(PadReads(), NVIDIA, before) == lines(squares(padded("0.0"), masked=False))


def test_numbers_whose_squares_are_added_up_become_0_where_what_is_read_cannot() -> None:
    """All who use them may see 0 beyond the edge, as they may see anything there."""
    before = squares(f"%part = {READ}", masked=True, less="%less")
    less = f'elementwise %number, %first {{function = "sub"}} : {WIDE}'
    pad = PAD.replace("%x", "%less.1").replace("VALUE", "0.0").replace("bf16", "f32")
    after = squares(f"%part = {READ}", masked=False, less="%less")
    after = after.replace(f"%less = {less}", f"%less.1 = {less}\n    %less = {pad}")
    assert ROWS.after(PadReads(), NVIDIA, before) == lines(after)


@pytest.mark.parametrize(
    ("rows", "body"),
    [
        (ROWS, squares(f"%part = {READ}", masked=True).replace("%number, %number", "%number, %less")),
        (ROWS, softmax(f"%part = {READ.replace('around = true, ', '')}", masked=True)),
        (MAYBE_EMPTY, softmax(f"%part = {READ}", masked=True)),
    ],
    ids=["no number suits", "rows start at an access", "nothing is the largest of none"],
)
def test_each_leaves_it_out_by_itself(rows: Text, body: str) -> None:
    assert rows.after(PadReads(), NVIDIA, body) == lines(body)

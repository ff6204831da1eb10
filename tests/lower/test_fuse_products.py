"""Products that nothing else uses are added by the instruction that makes them."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD
from tests.lower.ir_text import Text, lines
from wavespec.lower.fuse_products import FuseProducts

ROW = Text("""
    tile kernel @k target gfx942 lanes 64
    symbol K in 0..4096 by 1
    symbol lane in 0..63 by 1
    plan "auto" stages 1 group 1
    memory @x : f32 (K: [K]) global input
    memory @y : bf16 (K: [K]) global output
    memory @z : f32 (K: [K]) global output
""")
PLACE = "{K = lane; 1 by K 1 | }"
WIDE, SMALL, ONE = f"tile<K: 64, f32, {PLACE}>", f"tile<K: 64, bf16, {PLACE}>", "tile<f32, {;  | }>"
READ = f'%a = read {{masked = ("K",), memory = "x", origin = (("K", [0],),)}} : {WIDE}\n'
PRODUCT = f'%p = elementwise %a, %a {{function = "mul"}} : {WIDE}\n'
SUM = f'%s = elementwise %a, %p {{function = "add"}} : {WIDE}\n'
ROUNDED = f"%r = cast %s : {SMALL}\n" + 'write %r {masked = ("K",), memory = "y", origin = (("K", [0],),)}\n'
KEPT = 'write %VALUE {masked = ("K",), memory = "z", origin = (("K", [0],),)}\n'
ALL = '{dim = "K", divided = false, function = "FUNCTION", masked = true, origin = (("K", [0],),), size = [K]}'


def reduced(function: str = "add", also: str = "") -> str:
    attributes = ALL.replace("FUNCTION", function).replace("size", also + "size")
    return f"%t = reduce %p {attributes} : {ONE}\n"


def test_a_sum_that_is_rounded_to_16_bits_is_rounded_once() -> None:
    expected = READ + f'%s = elementwise %a, %a, %a {{function = "fma"}} : {WIDE}\n' + ROUNDED
    assert ROW.after(FuseProducts(), AMD, READ + PRODUCT + SUM + ROUNDED) == lines(expected)


def test_a_reduction_knows_of_products_that_only_it_needs() -> None:
    expected = READ + PRODUCT + reduced(also="products = true, ")
    assert ROW.after(FuseProducts(), AMD, READ + PRODUCT + reduced()) == lines(expected)


@pytest.mark.parametrize(
    "body",
    [
        READ + PRODUCT + SUM + KEPT.replace("VALUE", "s"),
        READ + PRODUCT + SUM + ROUNDED + KEPT.replace("VALUE", "s"),
        READ + PRODUCT + SUM + ROUNDED + KEPT.replace("VALUE", "p"),
        READ + PRODUCT + reduced() + KEPT.replace("VALUE", "p"),
        READ + PRODUCT + reduced("maximum"),
    ],
    ids=["a sum of f32", "a sum that f32 shows as well", "a product with another use", "summed and used", "no sum"],
)
def test_what_somebody_sees_is_rounded_as_it_was(body: str) -> None:
    assert ROW.after(FuseProducts(), AMD, body) == lines(body)

"""What lies beyond an edge is replaced once, and not where it is there already; intervals hold what lanes compute."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text, lines
from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import symbol
from wavespec.ir.kernel import Op, TileType, Value, attribute_pairs
from wavespec.lower.pad_once import PadOnce
from wavespec.lower.value_ranges import ANY, MONOTONIC, range_of

PRODUCTS = Text("""
    tile kernel @products target sm_90 lanes 32
    symbol N in 0..4096 by 1
    symbol at_N in 0..4032 by 64
    split workgroup M 4 0
    split loop N 64 0
    plan "auto" stages 1 group 0
    grid [1]
    memory @y : f32 (M: [4], N: [N]) global output
""")
EDGE = 'dim = "N", origin = (("N", [at_N],),), size = [N]'
REDUCE = 'dim = "N", divided = false, function = "FUNCTION", masked = true, origin = (("N", [at_N],),), size = [N]'
TILE, ROWS = "tile<M: 4, N: 64, f32>", "tile<M: 4, f32>"


def step(body: str, *, product: bool = True) -> str:
    """A loop whose step multiplies and does this."""
    mma = f"""%s = mma %a, %b, %none {{instruction = "fma_f32_32x64x4", k = "K", m = "M", n = "N"}} : {TILE}"""
    made = mma if product else f"%s = register {{value = 1.0}} : {TILE}"
    lines = "\n".join(f"      {line.strip()}" for line in (made, *body.strip().splitlines()))
    return f"""
    %a = register {{value = 1.0}} : tile<M: 4, K: 4, f32>
    %b = register {{value = 1.0}} : tile<K: 4, N: 64, f32>
    %none = register {{value = 0.0}} : {TILE}
    %zero = register {{value = 0.0}} : {ROWS}
    %low = register {{value = -inf}} : {ROWS}
    %sum = iterate %zero {{dim = "N", extent = [N], induction = "at_N", step = [64], unroll = 1}} : {ROWS} (%acc : {ROWS}) do
{lines}
      yield %end
    end
"""


def reduced(name: str, value: str, start: str, function: str, masked: str = "true") -> str:
    attributes = REDUCE.replace("FUNCTION", function).replace("masked = true", f"masked = {masked}")
    return f"%{name} = reduce %{value}, %{start} {{{attributes}}} : {ROWS}\n"


def test_powers_of_minus_infinity_need_no_edge() -> None:
    power = f'%{{p}} = elementwise %{{s}} {{{{function = "exp2"}}}} : {TILE}\n'
    before = reduced("top", "s", "low", "maximum") + power.format(p="p", s="s") + reduced("end", "p", "acc", "add")
    after = f"%s.1 = pad %s {{{EDGE.replace(', origin', ', masked = true, origin')}, value = -inf}} : {TILE}\n"
    after += reduced("top", "s.1", "low", "maximum", "false") + power.format(p="p", s="s.1")
    after += reduced("end", "p", "acc", "add", "false")
    assert PRODUCTS.after(PadOnce(), NVIDIA, step(before)) == lines(step(after))


def test_another_number_replaces_the_one_before() -> None:
    before = reduced("top", "s", "low", "maximum") + reduced("end", "s", "acc", "add")
    text = PRODUCTS.after(PadOnce(), NVIDIA, step(before))
    assert [line.split("value = ")[1].split("}")[0] for line in text.splitlines() if " = pad " in line] == [
        "-inf",
        "0.0",
    ]


def test_what_may_be_nan_has_its_own_edge() -> None:
    """Minus infinity times what may be 0 is no number."""
    rows = f'%factor = elementwise %acc {{function = "exp2"}} : {ROWS}\n'
    product = f'%p = elementwise %s, %factor {{function = "mul"}} : {TILE}\n'
    before = reduced("top", "s", "low", "maximum") + rows + product + reduced("end", "p", "acc", "add")
    assert PRODUCTS.after(PadOnce(), NVIDIA, step(before)).count(" = pad ") == 2


MASK = f"""%n = index {{dim = "N", origin = (("N", [at_N],),)}} : tile<N: 64, i32>
%m = index {{dim = "M", origin = (("M", [0],),)}} : tile<M: 4, i32>
%size = size {{extent = [N]}} : tile<i32>
%rows = size {{extent = [4]}} : tile<i32>
%to = elementwise %m, %size {{function = "add"}} : tile<M: 4, i32>
%last = elementwise %to, %rows {{function = "sub"}} : tile<M: 4, i32>
%flag = elementwise %n, %last {{function = "le"}} : tile<M: 4, N: 64, bool>
%no = register {{value = -inf}} : tile<f32>
%seen = elementwise %flag, %s, %no {{function = "where"}} : {TILE}
"""


@pytest.mark.parametrize(
    ("change", "pads"), [(("", ""), 0), (("value = -inf", "value = 1.0"), 1), (('"le"', '"ge"'), 1)]
)
def test_a_mask_that_nothing_beyond_the_edge_passes_is_an_edge(change: tuple[str, str], pads: int) -> None:
    """Causal: the last row sees the last column, and none sees more."""
    body = MASK.replace(*change) + reduced("end", "seen", "low", "maximum")
    assert PRODUCTS.after(PadOnce(), NVIDIA, step(body)).count(" = pad ") == pads


@pytest.mark.parametrize("product", [True, False])
def test_loops_without_products_stay(product: bool) -> None:
    kernel = PRODUCTS.kernel(step(reduced("end", "s", "acc", "add"), product=product))
    assert (PadOnce()(kernel, NVIDIA) is kernel) is not product


def op_of(name: str, arity: int, **attributes: object) -> Op:
    kind = TileType(("M",), (4,), DTYPES["f32"])
    values = tuple(Value(f"x{number}", kind) for number in range(arity))
    return Op(name, values, (Value("y", kind),), attribute_pairs(attributes))


SINGLE = st.floats(width=32, allow_nan=False) | st.sampled_from([0.0, -0.0, math.inf, -math.inf, 127.5, 2.0**-126])
COMPUTED = {
    "exp2": np.exp2,
    "log2": np.log2,
    "floor": np.floor,
    "rsqrt": lambda x: np.float32(1) / np.sqrt(x),
    "fma": lambda x, y, z: np.float32(np.float64(x) * np.float64(y) + np.float64(z)),
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
ARITY = {"fma": 3, "neg": 1, "exp2": 1, "rsqrt": 1, "log2": 1, "floor": 1}


def test_every_rule_is_compared_with_numbers() -> None:
    assert COMPUTED.keys() == set(MONOTONIC)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(SINGLE, SINGLE, SINGLE), min_size=3, max_size=4),
    st.lists(st.sampled_from(sorted(MONOTONIC)), max_size=6),
    st.data(),
)
def test_intervals_hold_what_a_chain_of_functions_computes(
    given_numbers: list[tuple[float, float, float]], words: list[str], data: st.DataObject
) -> None:
    known = [((min(three), max(three)), np.float32(sorted(three)[1])) for three in given_numbers]
    for word in words:
        picked = [data.draw(st.sampled_from(known)) for _ in range(ARITY.get(word, 2))]
        with np.errstate(all="ignore"):
            result = np.float32(COMPUTED[word](*(number for _, number in picked)))
        if np.isnan(result):
            continue
        low, high = range_of(op_of("elementwise", len(picked), function=word), [interval for interval, _ in picked])
        flushed = result if abs(result) >= 2.0**-126 else np.float32(0)
        assert low <= result <= high and low <= flushed <= high, (word, picked)
        known.append(((low, high), result))


def test_numbers_of_registers_are_known_and_other_functions_are_not() -> None:
    assert range_of(op_of("register", 0, value=2.5), []) == (2.5, 2.5)
    assert range_of(op_of("elementwise", 1, function="sin"), [(0.0, 0.0)]) == ANY
    assert range_of(op_of("elementwise", 2, function="sub"), [(math.inf, math.inf)] * 2) == ANY, "no number"


def test_limits_of_scalars_are_relied_on() -> None:
    """As `scale` of attention has them: behind a positive factor the power of minus infinity is 0."""
    limits = attribute_pairs({"number": symbol("scale.scalar", -(2**31), 2**31 - 1), "least": 0.1, "most": 8.0})
    for dtype, right in (("f32", (0.1 - 0.1 * 2.0**-22, 8 + 8 * 2.0**-22)), ("bf16", ANY)):
        value = Value("scale", TileType((), (), DTYPES[dtype]))
        assert range_of(Op("scalar", (), (value,), limits), []) == right
    assert range_of(Op("scalar", (), (value,), limits[:1]), []) == ANY

"""Powers of what small numbers are less than another one are made by one product, whatever that one is."""

from __future__ import annotations

import math

import pytest
import torch

from tests.kernels import subjects
from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text, lines
from tests.sim.plan_variations import simulated
from wavespec.lower.powers_by_products import PowersByProducts
from wavespec.pipeline import lower
from wavespec.schema.cases import case_for_sizes

ROW = Text("""
    tile kernel @k target sm_90 lanes 32
    symbol K in 0..4096 by 1
    symbol lane in 0..31 by 1
    plan "auto" stages 1 group 1
    memory @x : bf16 (K: [K]) global input
    memory @y : f32 (K: [K]) global output
""")
PLACE = "{K = lane; 1 by K 1 | }"
SMALL, WIDE = f"tile<K: 32, bf16, {PLACE}>", f"tile<K: 32, f32, {PLACE}>"
ONE, FLAG = "tile<f32, {;  | }>", "tile<bool, {;  | }>"
AT = 'memory = "x", origin = (("K", [0],),)'
READ = f"""\
%a = read {{masked = ("K",), {AT}}} : {SMALL}
%l = reduce %a {{dim = "K", divided = false, function = "maximum", masked = true, origin = (("K", [0],),), size = [K]}} : tile<bf16, {{;  | }}>
%w = cast %a : {WIDE}
%m = cast %l : {ONE}
"""
POWER = f"""\
%d = elementwise %w, %m {{function = "sub"}} : {WIDE}
%p = elementwise %d {{fast = true, function = "exp"}} : {WIDE}
"""
WRITE = 'write %VALUE {masked = ("K",), memory = "y", origin = (("K", [0],),)}\n'
BODY = READ + POWER + WRITE.replace("VALUE", "p")


def test_a_difference_is_rounded_once_in_front_of_its_power() -> None:
    assert ROW.after(PowersByProducts(), NVIDIA, BODY) == lines(
        READ
        + f"""\
%size = elementwise %m {{function = "abs"}} : {ONE}
%number = register {{value = 8.507059173023462e+37}} : {ONE}
%is_less = elementwise %size, %number {{function = "lt"}} : {FLAG}
%number.1 = register {{value = 1.44268798828125}} : {ONE}
%number.2 = register {{value = 1.0}} : {ONE}
%rate = elementwise %is_less, %number.1, %number.2 {{function = "where"}} : {ONE}
%product = elementwise %m, %rate {{function = "mul"}} : {ONE}
%offset = elementwise %product {{function = "neg"}} : {ONE}
%exponent = elementwise %w, %rate, %offset {{function = "fma"}} : {WIDE}
%p = elementwise %exponent {{function = "exp2"}} : {WIDE}
"""
        + WRITE.replace("VALUE", "p")
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fast = true, ", ""),
        ("bf16", "f16"),
        ("%d = elementwise %w, %m", "%d = elementwise %w, %w"),
        (f"%m = cast %l : {ONE}", f'%n = cast %l : {ONE}\n%m = elementwise %n, %n {{function = "add"}} : {ONE}'),
    ],
    ids=[
        "a power that is exact",
        "numbers with more bits",
        "what each element is less than one of its own",
        "a number with more bits than those that it is made of",
    ],
)
def test_other_powers_stay(old: str, new: str) -> None:
    body = BODY.replace(old, new)
    assert body != BODY
    assert ROW.after(PowersByProducts(), NVIDIA, body) == lines(body)


def test_a_difference_that_somebody_sees_is_made_for_that_alone() -> None:
    seen = WRITE.replace("VALUE", "d")
    text = ROW.after(PowersByProducts(), NVIDIA, BODY + seen)
    assert '%d = elementwise %w, %m {function = "sub"}' in text
    assert "%exponent = elementwise %w, %rate, %offset" in text


def test_powers_of_several_loops_know_the_number_that_all_are_less_than() -> None:
    loop = 'iterate {dim = "K", extent = [K], induction = "NAME", step = [32], unroll = 1} () do\n'
    loops = "".join(
        loop.replace("NAME", name)
        + (POWER + WRITE.replace("VALUE", "p")).replace("%d", f"%{name}").replace("%p", f"%{name}p")
        + "yield\nend\n"
        for name in ("one", "two")
    )
    text = ROW.after(PowersByProducts(), NVIDIA, READ + loops)
    assert text.count('"exp2"') == 2 and '"exp"' not in text
    assert text.count('"neg"') == 1 and text.index('"neg"') < text.index("iterate")


def _rows(columns: int) -> torch.Tensor:
    """Rows near 0, far from it, with the largest numbers there are, and without a finite one."""
    x = torch.randn(10, columns, generator=torch.Generator().manual_seed(5)).bfloat16()
    most = torch.finfo(torch.bfloat16).max
    x[1] += 1000
    x[2] -= 30000
    x[3] *= 1e30
    x[4] = most
    x[5] = -most
    x[6, columns // 3] = most
    x[7] = -math.inf
    x[8, 1:] = -math.inf
    x[9, columns - 1] = math.inf
    return x


@pytest.mark.parametrize("columns", [72, 1040, 1041])
@pytest.mark.parametrize("name", ["softmax_bf16", "cross_entropy_bf16"])
def test_results_are_right_wherever_the_largest_element_is(name: str, columns: int) -> None:
    subject = next(one for one in subjects("sm_90") if one.name == name)
    x, target = _rows(columns), torch.arange(10) % columns
    sizes = {"M": 10, "N": columns}
    kernel = lower(case_for_sizes(subject.cases("sm_90"), sizes).spec, NVIDIA)
    inputs = [x] if name.startswith("softmax") else [x, target]
    (actual,) = simulated(subject, kernel, NVIDIA, subject.complete(sizes), inputs)
    wide = x.double()
    expected = (
        torch.softmax(wide, 1)
        if name.startswith("softmax")
        else torch.nn.functional.cross_entropy(wide, target, reduction="none")
    )
    eps = torch.finfo(torch.bfloat16).eps
    torch.testing.assert_close(actual.double(), expected.bfloat16().double(), rtol=eps, atol=1e-6, equal_nan=True)

"""`combine` of `scan` and `reduce`: what is associative and has its identity is taken, what is not is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ops.joinings import HEADER
from wavespec.diagnostics import WavespecError
from wavespec.ops.elementwise import MEANINGS
from wavespec.schema import loads
from wavespec.schema.checking.function_values import FUNCTION_VALUES, function_value
from wavespec.schema.ops.elementwise import FUNCTIONS


def spec(names: Mapping[str, tuple[str, object]], *combine: str, word: str = "reduce") -> str:
    """Values of the types of ``names``, each with its identity, joined by ``combine``; the next element of `a` is
    `next_a`."""
    shape, last = "[M, N]", "[M]" if word == "reduce" else "[M, N]"
    tensors = [f"  in_{name}: {{shape: {shape}, dtype: {dtype}}}" for name, (dtype, _) in names.items()]
    tensors += [f"  out_{name}: {{shape: {last}, dtype: {dtype}, role: output}}" for name, (dtype, _) in names.items()]
    reads = [f"  - next_{name}: {{read: in_{name}}}" for name in names]
    carry = ", ".join(f"{name}: next_{name}" for name in names)
    identity = ", ".join(f"{name}: {number}" for name, (_, number) in names.items())
    lines = [
        *(f"{HEADER}dims: {{M: {{}}, N: {{value: 64}}}}", "tensors:", *tensors),
        *("constraints: [{workgroup: M, tile: 4, axis: 0}]", "graph:", *reads),
        *("  - run:", f"      {word}: N", f"      carry: {{{carry}}}", f"      identity: {{{identity}}}"),
        *("      combine:", *(f"        - {line}" for line in combine)),
        *(f"  - {{write: run.{name}, to: out_{name}}}" for name in names),
    ]
    return "\n".join(lines) + "\n"


F, I = "f32", "i32"  # noqa: E741
TAKEN = {
    "sum": ({"a": (F, 0)}, "a: a + next_a"),
    "sum of f16": ({"a": ("f16", 0)}, "a: a + next_a"),
    "sum of bytes that wrap": ({"a": ("u8", 0)}, "a: a + next_a"),
    "product that wraps": ({"a": ("i8", 1)}, "a: a * next_a"),
    "maximum": ({"a": (F, "-.inf")}, "a: maximum(a, next_a)"),
    "maximum of what is not negative": ({"a": (F, 0)}, "a: maximum(a, next_a)"),
    "minimum": ({"a": (I, 2147483647)}, "a: minimum(a, next_a)"),
    "bits": ({"a": (I, -1), "b": (I, 0), "c": (I, 0)}, "a: a & next_a", "b: b | next_b", "c: bitwise_xor(c, next_c)"),
    "flags that all hold": ({"a": (I, 1)}, "a: a & next_a"),
    "root of squares": ({"a": (F, 0)}, "a: hypot(a, next_a)"),
    "log of a sum of powers": ({"a": (F, "-.inf")}, "a: logaddexp(a, next_a)"),
    "resistors": ({"a": (F, ".inf")}, "a: 1 / (1 / a + 1 / next_a)"),
    "chances": ({"a": (F, 0)}, "a: a + next_a - a * next_a"),
    "sums modulo 7": ({"a": (I, 0)}, "a: (a + next_a) % 7"),
    "saturating sum": ({"a": (F, 0)}, "a: minimum(a + next_a, 100)"),
    "first that is not 0": ({"a": (I, 0)}, 'a: "where(a != 0, a, next_a)"'),
    "last element": ({"a": (F, 0), "has": (I, 0)}, 'a: "where(next_has != 0, next_a, a)"', "has: has | next_has"),
    "linear recurrence": ({"p": (F, 1), "h": (F, 0)}, "h: next_p * h + next_h", "p: p * next_p"),
    "products of 2x2 matrices": (
        {"a": (F, 1), "b": (F, 0), "c": (F, 0), "d": (F, 1)},
        *("w: a * next_a + b * next_c", "x: a * next_b + b * next_d"),
        *("y: c * next_a + d * next_c", "z: c * next_b + d * next_d"),
        *("a: w", "b: x", "c: y", "d: z"),
    ),
    "online softmax": (
        {"m": (F, "-1e30"), "s": (F, 0), "o": (F, 0)},
        *("top: maximum(m, next_m)", "old: exp(m - top)", "new: exp(next_m - top)"),
        *("s: s * old + next_s * new", "o: o * old + next_o * new", "m: top"),
    ),
    "online softmax from infinity": (
        {"m": (F, "-.inf"), "s": (F, 0)},
        *("top: maximum(m, next_m)", 'old: "where(m == top, 1.0, exp(m - top))"'),
        'new: "where(next_m == top, 1.0, exp(next_m - top))"',
        *("s: s * old + next_s * new", "m: top"),
    ),
    "mean and variance": (
        {"n": (F, 0), "mid": (F, 0), "m2": (F, 0)},
        *("both: n + next_n", "share: next_n / maximum(both, 1)", "apart: next_mid - mid"),
        *("m2: m2 + next_m2 + apart * apart * n * share", "mid: mid + apart * share", "n: both"),
    ),
    "mean with a guard": (
        {"n": (F, 0), "mid": (F, 0)},
        "both: n + next_n",
        "mid: (n * mid + next_n * next_mid) / (both + 0.000001)",
        "n: both",
    ),
    "sums of segments": (
        {"new": (I, 0), "total": (F, 0)},
        'total: "where(next_new != 0, next_total, total + next_total)"',
        "new: maximum(new, next_new)",
    ),
    "first place of the largest": (
        {"top": (F, "-.inf"), "place": (I, 2147483647)},
        *("larger: next_top > top", 'place: "where(larger, next_place, place)"', 'top: "where(larger, next_top, top)"'),
    ),
    "the two largest, in order": (
        {"one": (F, "-.inf"), "two": (F, "-.inf")},
        'two: "where(next_one > one, maximum(one, next_two), maximum(two, next_one))"',
        "one: maximum(one, next_one)",
    ),
    "ranges that cut": (
        {"low": (F, "-.inf"), "high": (F, ".inf")},
        *("bottom: clamp(low, next_low, next_high)", "high: clamp(high, next_low, next_high)", "low: bottom"),
    ),
    "best sum of a run": (
        {"total": (F, 0), "front": (F, "-1e30"), "back": (F, "-1e30"), "best": (F, "-1e30")},
        *("best: maximum(maximum(best, next_best), back + next_front)", "front: maximum(front, total + next_front)"),
        *("back: maximum(next_back, back + next_total)", "total: total + next_total"),
    ),
}


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("word", ["reduce", "scan"])
def test_what_joins_is_taken(name: str, word: str) -> None:
    loads(spec(*TAKEN[name], word=word))


REFUSED = {
    "difference": ({"a": (F, 0)}, "a: a - next_a"),
    "quotient": ({"a": (F, 1)}, "a: a / next_a"),
    "power": ({"a": (F, 1)}, "a: a ** next_a"),
    "mean of two": ({"a": (F, 0)}, "a: (a + next_a) / 2"),
    "sum from 1": ({"a": (F, 1)}, "a: a + next_a"),
    "product from 0": ({"a": (I, 0)}, "a: a * next_a"),
    "maximum from infinity": ({"a": (F, ".inf")}, "a: maximum(a, next_a)"),
    "minimum from the smallest": ({"a": (I, -2147483648)}, "a: minimum(a, next_a)"),
    "bits from 0": ({"a": (I, 0)}, "a: a & next_a"),
    "factor of every step": ({"a": (F, 0)}, "a: 0.999 * a + next_a"),
    "square of an element": ({"a": (F, 0)}, "a: a + next_a * next_a"),
    "count": ({"a": (I, 0)}, 'a: "a + where(next_a != 0, 1, 0)"'),
    "product that is not carried on": ({"p": (F, 1), "h": (F, 0)}, "h: next_p * h + next_h", "p: next_p * 1"),
    "element that is forgotten": ({"p": (F, 1), "h": (F, 0)}, "h: next_p * h", "p: p * next_p + 0 * next_h"),
    "sum that is not scaled": (
        {"m": (F, "-1e30"), "s": (F, 0)},
        *("top: maximum(m, next_m)", "s: s + next_s * exp(next_m - top)", "m: top"),
    ),
    "recurrence without its product": ({"h": (F, 0), "p": (F, 1)}, "h: next_p * h + next_h", "p: p + next_p"),
    "carried out of order": ({"p": (F, 1), "h": (F, 0)}, "p: p * next_p", "h: p * h + next_h"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_depends_on_the_runs_is_refused(name: str) -> None:
    with pytest.raises(WavespecError) as caught:
        loads(spec(*REFUSED[name]))
    assert [one.code for one in caught.value.diagnostics] == ["not-a-combine"]


def test_identities_that_follow_each_other_are_joined() -> None:
    """Beyond an edge: `-inf - -inf` is NaN there, and spoils what is joined to it."""
    names = {"m": (F, "-.inf"), "s": (F, 0)}
    lines = ("top: maximum(m, next_m)", "s: s * exp(m - top) + next_s * exp(next_m - top)", "m: top")
    with pytest.raises(WavespecError) as caught:
        loads(spec(names, *lines))
    (found,) = caught.value.diagnostics
    assert found.message == "The identity joined with itself gives (m: -inf, s: nan), not (m: -inf, s: 0)."


def test_joins_inside_of_loops_are_tried() -> None:
    text = spec({"a": (F, 0)}, "a: a - next_a")
    head, graph = text.split("  - next_a")
    inside = "\n".join(f"        {line}" for line in f"- next_a{graph}".splitlines()).replace("        - run", "      - run")
    inside = inside.replace("          - {write", "        - {write").split("        - {write")[0]
    start = "  - zero: {register: [M], dtype: f32, value: 0}\n  - steps:\n      iterate: N\n      carry: {state: zero}\n"
    loop = f"{start}      body:\n{inside.rstrip()}\n              init: {{a: state}}\n        - state: run.a\n"
    loop = loop.replace("        - next_a", "        - next_a").replace("          - run", "        - run")
    tiled = head.replace("axis: 0}]", "axis: 0}, {tiling: N, tile: 16}]")
    with pytest.raises(WavespecError, match="depends on what is joined first|identity"):
        loads(f"{tiled}{loop}  - {{write: steps.state, to: out_a}}\n")


@settings(max_examples=40, deadline=None)
@given(
    numbers=st.tuples(*[st.integers(-3, 3)] * 4),
    dtype=st.sampled_from(["f64", "f32", "bf16", "i64", "i32", "i8"]),
)
def test_bilinear_combines_are_taken_just_where_they_are_associative(numbers: tuple[int, int, int, int], dtype: str) -> None:
    """`w + x * a + y * b + z * a * b`, with 0 for its identity, is associative where ``w`` is 0 and ``x`` and ``y`` are
    1, whatever ``z`` is."""
    w, x, y, z = numbers
    text = spec({"a": (dtype, 0)}, f"a: {x} * a + {y} * next_a + {z} * a * next_a + {w}")
    if (w, x, y) == (0, 1, 1):
        loads(text)
        return
    with pytest.raises(WavespecError, match="not-a-combine"):
        loads(text)


def test_every_function_has_a_value() -> None:
    assert {*FUNCTION_VALUES, "where"} == {row.word for row in FUNCTIONS}


@pytest.mark.parametrize("row", FUNCTIONS, ids=lambda row: row.word)
def test_values_are_those_of_torch(row) -> None:  # noqa: ANN001
    """Of whole numbers that wrap, of fractions, and of what is infinite or not a number."""
    dtype = "i32" if row.dtypes in ("integers", "bits") else "f64"
    numbers = [-7, -1, 0, 1, 2, 5] if dtype == "i32" else [-2.5, -1.0, -0.5, 0.0, 0.25, 1.0, 3.0, math.inf, -math.inf, math.nan]
    kind = torch.int32 if dtype == "i32" else torch.float64
    function: object = MEANINGS[row.word].reference
    if isinstance(function, str):
        for part in function.split("."):
            function = getattr(torch if function is MEANINGS[row.word].reference else function, part)
    made = "bool" if row.result == "bool" else dtype
    for first in numbers:
        for second in numbers if row.operands > 1 else [1]:
            operands = [first, second, numbers[3]][: row.operands]
            if row.word.endswith("shift") and second < 0:
                continue
            given_ = [torch.tensor(one, dtype=kind) for one in operands]
            if row.word == "where":
                given_[0] = torch.tensor(bool(first))
                operands[0] = bool(first)
            right = function(*given_, **MEANINGS[row.word].options).item()  # type: ignore[operator]
            actual = function_value(row.word, made, tuple(operands))
            if math.isnan(actual) and not math.isnan(right):
                assert row.word in ("floor_divide", "remainder", "fmod", "gelu", "gelu_tanh", "silu", "mish", "pow", "xlogy"), (operands, right)
                continue
            assert actual == pytest.approx(right, rel=1e-6, abs=1e-9, nan_ok=True), operands

"""`combine` of `scan` and `reduce`: what is associative and has its identity is taken, what is not is refused."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ops.joinings import HEADER
from wavespec.diagnostics import WavespecError
from wavespec.ops.elementwise import MEANINGS
from wavespec.schema import loads
from wavespec.schema.checking.function_values import FUNCTION_VALUES, function_value
from wavespec.schema.ops.elementwise import FUNCTIONS, Function


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


F, W = "f32", "i32"
TAKEN = {
    "sum": ({"a": (F, 0)}, "a: a + next_a"),
    "sum of f16": ({"a": ("f16", 0)}, "a: a + next_a"),
    "sum of bytes that wrap": ({"a": ("u8", 0)}, "a: a + next_a"),
    "product that wraps": ({"a": ("i8", 1)}, "a: a * next_a"),
    "maximum": ({"a": (F, "-.inf")}, "a: maximum(a, next_a)"),
    "maximum of what is not negative": ({"a": (F, 0)}, "a: maximum(a, next_a)"),
    "minimum": ({"a": (W, 2147483647)}, "a: minimum(a, next_a)"),
    "bits": ({"a": (W, -1), "b": (W, 0), "c": (W, 0)}, "a: a & next_a", "b: b | next_b", "c: bitwise_xor(c, next_c)"),
    "flags that all hold": ({"a": (W, 1)}, "a: a & next_a"),
    "root of squares": ({"a": (F, 0)}, "a: hypot(a, next_a)"),
    "log of a sum of powers": ({"a": (F, "-.inf")}, "a: logaddexp(a, next_a)"),
    "resistors": ({"a": (F, ".inf")}, "a: 1 / (1 / a + 1 / next_a)"),
    "chances": ({"a": (F, 0)}, "a: a + next_a - a * next_a"),
    "sums modulo 7": ({"a": (W, 0)}, "a: (a + next_a) % 7"),
    "saturating sum": ({"a": (F, 0)}, "a: minimum(a + next_a, 100)"),
    "first that is not 0": ({"a": (W, 0)}, 'a: "where(a != 0, a, next_a)"'),
    "last element": ({"a": (F, 0), "has": (W, 0)}, 'a: "where(next_has != 0, next_a, a)"', "has: has | next_has"),
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
        {"new": (W, 0), "total": (F, 0)},
        'total: "where(next_new != 0, next_total, total + next_total)"',
        "new: maximum(new, next_new)",
    ),
    "first place of the largest": (
        {"top": (F, "-.inf"), "place": (W, 2147483647)},
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
    "turns, of length 1": (
        {"c": (F, 1), "s": (F, 0)},
        *(
            "x: c * next_c - s * next_s",
            "y: c * next_s + s * next_c",
            "r: rsqrt(x * x + y * y)",
            "c: x * r",
            "s: y * r",
        ),
    ),
    "odds, of sum 1": (
        {"p": (F, 0.5), "q": (F, 0.5)},
        *("x: p * next_p", "y: q * next_q", "p: x / (x + y)", "q: y / (x + y)"),
    ),
    "logarithms with their signs": (
        {"up": (F, 1), "log_of": (F, "-1e30")},
        *("top: maximum(log_of, next_log_of)", "both: up * exp(log_of - top) + next_up * exp(next_log_of - top)"),
        *("up: sign(both)", "log_of: top + log(abs(both))"),
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
    "product from 0": ({"a": (W, 0)}, "a: a * next_a"),
    "maximum from infinity": ({"a": (F, ".inf")}, "a: maximum(a, next_a)"),
    "minimum from the smallest": ({"a": (W, -2147483648)}, "a: minimum(a, next_a)"),
    "bits from 0": ({"a": (W, 0)}, "a: a & next_a"),
    "factor of every step": ({"a": (F, 0)}, "a: 0.999 * a + next_a"),
    "square of an element": ({"a": (F, 0)}, "a: a + next_a * next_a"),
    "count": ({"a": (W, 0)}, 'a: "a + where(next_a != 0, 1, 0)"'),
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
    text = f"""{HEADER}dims: {{M: {{}}, N: {{}}}}
tensors:
  x: {{shape: [M, N], dtype: f32}}
  y: {{shape: [M], dtype: f32, role: output}}
constraints: [{{workgroup: M, tile: 4, axis: 0}}, {{tiling: N, tile: 16}}]
graph:
  - zero: {{register: [M], dtype: f32, value: 0}}
  - steps:
      iterate: N
      carry: {{state: zero}}
      body:
        - part: {{read: x}}
        - run: {{reduce: N, carry: {{a: part}}, identity: {{a: 0}}, init: {{a: state}}, combine: [a: a + part]}}
        - state: run.a
  - {{write: steps.state, to: y}}
"""
    loads(text)
    with pytest.raises(WavespecError, match="not-a-combine"):
        loads(text.replace("a + part", "a - part"))


@settings(max_examples=40, deadline=None)
@given(
    numbers=st.tuples(*[st.integers(-3, 3)] * 4),
    dtype=st.sampled_from(["f64", "f32", "bf16", "i64", "i32", "i8"]),
)
def test_bilinear_combines_are_taken_just_where_they_are_associative(
    numbers: tuple[int, int, int, int], dtype: str
) -> None:
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
def test_values_are_those_of_torch(row: Function) -> None:
    """Of whole numbers, of fractions, and of what is infinite or not a number; where f64 has a value, at the most NaN,
    which decides nothing, stands for an infinity or a 0 of limits."""
    is_whole = row.dtypes in ("integers", "bits")
    numbers = [-7, -1, 0, 1, 2, 5] if is_whole else [-2.5, -1.0, 0.0, 0.25, 1.0, 3.0, math.inf, -math.inf, math.nan]
    kind, dtype = (torch.int32, "i32") if is_whole else (torch.float64, "f64")
    meaning = MEANINGS[row.word]
    function: Any = meaning.reference
    if isinstance(function, str):
        function = functools.reduce(getattr, function.split("."), torch)
    for operands in itertools.product(*[numbers] * min(row.operands, 2)):
        if row.word.endswith("shift") and operands[1] < 0:
            continue
        operands = (*operands, numbers[3]) if row.operands == 3 else operands
        tensors = [torch.tensor(one, dtype=kind) for one in operands]
        if row.word == "where":
            tensors[0] = tensors[0] != 0
        right = function(*tensors, **meaning.options).item()
        actual = function_value(row.word, "bool" if row.result == "bool" else dtype, operands)
        is_limit = not all(map(math.isfinite, operands)) or 0 in operands
        if not (math.isnan(actual) and is_limit):
            assert actual == pytest.approx(right, rel=1e-6, abs=1e-9, nan_ok=True), operands


def test_no_value_of_few_infinities_is_missing() -> None:
    """Identities are infinite at times."""
    found = [
        function_value("logaddexp", "f64", (-math.inf, -math.inf)),
        function_value("exp", "f64", (-math.inf,)),
        function_value("log", "f64", (0.0,)),
        function_value("reciprocal", "f64", (0.0,)),
        function_value("div", "f64", (1.0, math.inf)),
        function_value("hypot", "f64", (-math.inf, 1.0)),
    ]
    assert found == [-math.inf, 0, -math.inf, math.inf, 0, math.inf]

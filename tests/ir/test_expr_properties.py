"""Random expressions against Python integers and SymPy: values, ranges, divisors, text, substitution."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import sympy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wavespec.ir.expr import Expr, const, maximum, minimum, symbol
from wavespec.ir.expr_parser import parse_expr
from wavespec.ir.expr_sympy import from_sympy, to_sympy

SYMBOLS: dict[str, Expr] = {
    "lane": symbol("lane", 0, 63),
    "wave": symbol("wave", 0, 3),
    "K": symbol("K", 8, 4096, 8),
    "M": symbol("M", 1, None),
    "shift": symbol("shift", -7, 9),
    "any": symbol("any", None, None),
    "info": symbol("info", 0, 100, 4),
}
ENVIRONMENTS: st.SearchStrategy[dict[str, int]] = st.fixed_dictionaries(
    {
        "lane": st.integers(0, 63),
        "wave": st.integers(0, 3),
        "K": st.integers(1, 512).map(lambda n: 8 * n),
        "M": st.integers(1, 10**6),
        "shift": st.integers(-7, 9),
        "any": st.integers(-1000, 1000),
        "info": st.integers(0, 25).map(lambda n: 4 * n),
    }
)
Tree = Any
CONSTANTS = st.one_of(st.integers(-20, 20), st.sampled_from([32, 63, 64, 128, 1024]))
LEAVES: st.SearchStrategy[Tree] = st.one_of(CONSTANTS, st.sampled_from(list(SYMBOLS)))
DIVISORS: st.SearchStrategy[Tree] = st.one_of(
    st.sampled_from([1, 2, 3, 4, 8, 12, 16, 32, 64]), st.sampled_from(["K", "M"])
)


def trees(leaves: st.SearchStrategy[Tree], size: int, *, xor: bool = True) -> st.SearchStrategy[Tree]:
    binary = ["+", "-", "*", "min", "max"] + (["xor"] if xor else [])

    def grow(children: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        return st.one_of(
            st.tuples(st.sampled_from(binary), children, children),
            st.tuples(st.sampled_from(["//", "%"]), children, DIVISORS),
        )

    return st.recursive(leaves, grow, max_leaves=size)


def build(tree: Tree) -> Expr:
    if isinstance(tree, int):
        return const(tree)
    if isinstance(tree, str):
        return SYMBOLS[tree]
    operator, left, right = tree[0], build(tree[1]), build(tree[2])
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "//":
            return left // right
        case "%":
            return left % right
        case "xor":
            return left ^ right
        case _:
            return minimum(left, right) if operator == "min" else maximum(left, right)


def integer(tree: Tree, environment: dict[str, int]) -> int:
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return environment[tree]
    left, right = integer(tree[1], environment), integer(tree[2], environment)
    python = {
        "+": int.__add__,
        "-": int.__sub__,
        "*": int.__mul__,
        "//": int.__floordiv__,
        "%": int.__mod__,
        "xor": int.__xor__,
        "min": min,
        "max": max,
    }
    return python[tree[0]](left, right)  # type: ignore[operator]


def algebra(tree: Tree) -> Any:
    if isinstance(tree, int):
        return sympy.Integer(tree)
    if isinstance(tree, str):
        return to_sympy(SYMBOLS[tree])
    left, right = algebra(tree[1]), algebra(tree[2])
    match tree[0]:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "//":
            return sympy.floor(left / right)
        case "%":
            return sympy.Mod(left, right)
        case _:
            return sympy.Min(left, right) if tree[0] == "min" else sympy.Max(left, right)


def replaced(value: Any, environment: dict[str, int]) -> int:
    return int(value.subs({to_sympy(SYMBOLS[name]): number for name, number in environment.items()}))


@settings(max_examples=1500, deadline=None)
@given(trees(LEAVES, 12), ENVIRONMENTS)
def test_value_range_and_divisor(tree: Tree, environment: dict[str, int]) -> None:
    built, value = build(tree), integer(tree, environment)
    assert built.evaluate(environment) == value
    assert built.low is None or built.low <= value
    assert built.high is None or value <= built.high
    assert value == 0 if built.divisor == 0 else value % built.divisor == 0
    assert built.symbols == {node.args[0] for node in built.walk() if node.kind == "symbol"}


@settings(max_examples=700, deadline=None)
@given(trees(LEAVES, 12))
def test_text_and_pickle_give_the_same_object(tree: Tree) -> None:
    built = build(tree)
    assert parse_expr(str(built), SYMBOLS) is built
    assert pickle.loads(pickle.dumps(built)) is built
    assert build(tree) is built


@settings(max_examples=500, deadline=None)
@given(trees(LEAVES, 8), trees(st.sampled_from(["lane", "wave", "any", 3]), 3), ENVIRONMENTS)
def test_substitution_is_evaluation_in_a_changed_environment(
    tree: Tree, other: Tree, environment: dict[str, int]
) -> None:
    built, replacement = build(tree), build(other)
    inside = built.substitute({"any": replacement})
    assert inside.evaluate(environment) == built.evaluate({**environment, "any": replacement.evaluate(environment)})
    numbers = built.substitute(environment)
    assert numbers.is_const and numbers.value == integer(tree, environment)
    assert built.substitute({"elsewhere": 1}) is built


@settings(max_examples=300, deadline=None)
@given(trees(LEAVES, 8), st.lists(ENVIRONMENTS, min_size=3, max_size=3))
def test_arrays_evaluate_like_numbers(tree: Tree, environments: list[dict[str, int]]) -> None:
    arrays = {name: np.array([e[name] for e in environments], dtype=object) for name in SYMBOLS}
    expected = [integer(tree, environment) for environment in environments]
    assert np.broadcast_to(build(tree).evaluate(arrays), (3,)).tolist() == expected


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees(LEAVES, 5, xor=False), ENVIRONMENTS)
def test_sympy_agrees(tree: Tree, environment: dict[str, int]) -> None:
    """The same tree built in both; then ours through SymPy and back."""
    built, value = build(tree), integer(tree, environment)
    ours, theirs = to_sympy(built), algebra(tree)
    assert replaced(theirs, environment) == value
    assert replaced(ours, environment) == value
    assert from_sympy(ours, SYMBOLS).evaluate(environment) == value
    assert from_sympy(theirs, SYMBOLS).evaluate(environment) == value


linear = st.dictionaries(st.sampled_from(list(SYMBOLS)), st.integers(-9, 9), min_size=1)


@settings(max_examples=200, deadline=None)
@given(linear, st.integers(-50, 50), st.randoms(use_true_random=False))
def test_equal_sums_are_one_object(coefficients: dict[str, int], constant: int, random: Any) -> None:
    terms = [SYMBOLS[name] * coefficient for name, coefficient in coefficients.items()] + [const(constant)]
    first = sum(terms[1:], terms[0])
    random.shuffle(terms)
    assert sum(terms[1:], terms[0]) is first

"""Symbolic expressions: grammar, canonical text, exact values, SymPy form; no text is ever executed."""

from __future__ import annotations

import random
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavespec.diagnostics import WavespecError
from wavespec.schema.expression_to_sympy import expression_to_sympy
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import (
    FUNCTIONS,
    Binary,
    Call,
    Compare,
    EvaluationError,
    Expression,
    Name,
    Num,
    Unary,
)

NAMES = st.sampled_from(["M", "N", "K", "BLOCK_M"]).map(Name)
NUMBERS = st.integers(-(2**40), 2**40).map(Num)


def _larger(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.builds(Unary, st.just("-"), inner),
        st.builds(Binary, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner, inner),
        st.builds(lambda a, b: Call("ceildiv", (a, b)), inner, inner),
        st.builds(
            lambda f, a: Call(f, tuple(a)),
            st.sampled_from(["min", "max"]),
            st.lists(inner, min_size=2, max_size=4),
        ),
    )


NUMERIC = st.recursive(st.one_of(NAMES, NUMBERS), _larger, max_leaves=12)
EXPRESSIONS = st.one_of(
    NUMERIC, st.builds(Compare, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), NUMERIC, NUMERIC)
)


@given(EXPRESSIONS)
def test_printed_expression_parses_back_to_itself(expression: Expression) -> None:
    assert parse_expression(str(expression)) == expression


@given(NUMERIC, st.lists(st.integers(0, 1000), min_size=4, max_size=4))
def test_value_is_that_of_python(expression: Expression, values: list[int]) -> None:
    bound = dict(zip(["M", "N", "K", "BLOCK_M"], values, strict=True))

    def exact(node: Expression) -> int:
        match node:
            case Num(value=int(value)):
                return value
            case Name(name=name):
                return bound[name]
            case Unary(operand=operand):
                return -exact(operand)
            case Binary(op="/", left=left, right=right):
                a, b = exact(left), exact(right)
                assert a % b == 0
                return a // b
            case Binary(op=op, left=left, right=right):
                a, b = exact(left), exact(right)
                return {
                    "+": lambda: a + b,
                    "-": lambda: a - b,
                    "*": lambda: a * b,
                    "//": lambda: a // b,
                    "%": lambda: a % b,
                }[op]()
            case Call(function="ceildiv", arguments=(left, right)):
                return -((-exact(left)) // exact(right))
            case Call(function=function, arguments=arguments):
                return {"min": min, "max": max}[function](map(exact, arguments))
            case _:
                raise AssertionError(node)

    try:
        actual = expression.evaluate(bound)
    except EvaluationError as error:
        assert "64 bits" in str(error) or "divisor" in str(error) or "integer" in str(error)
    else:
        assert actual == exact(expression)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1+2*3", "1 + 2 * 3"),
        ("(1+2)*3", "(1 + 2) * 3"),
        ("a-(b-c)", "a - (b - c)"),
        ("a-b-c", "a - b - c"),
        ("a / b / c", "a / b / c"),
        ("a/(b*c)", "a / (b * c)"),
        ("-a*b", "-a * b"),
        ("-(a*b)", "-(a * b)"),
        ("--a", "--a"),
        ("- 5", "-5"),
        ("-(5)", "-(5)"),
        ("a - -5", "a - -5"),
        ("min( a,b )", "min(a, b)"),
        ("K > 4*BLOCK_K", "K > 4 * BLOCK_K"),
        ("1e3", "1000.0"),
        ("-inf", "-inf"),
        ("((((a))))", "a"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(parse_expression(text)) == canonical


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7 // 2", 3),
        ("-7 // 2", -4),
        ("-7 % 3", 2),
        ("8 / 2", 4),
        ("ceildiv(7, 2)", 4),
        ("ceildiv(-7, 2)", -3),
        ("max(1, N, 3)", 5),
        ("N * N", 25),
        ("N >= 5", True),
        ("N != 5", False),
        ("2 - 3 - 4", -5),
        ("-N", -5),
    ],
)
def test_value(text: str, value: int | bool) -> None:
    assert parse_expression(text).evaluate({"N": 5}) == value


@pytest.mark.parametrize(
    "text", ["7 / 2", "1 / 0", "1 // 0", "1 % 0", "ceildiv(1, 0)", "1.5", "X", "4611686018427387904 * 2"]
)
def test_without_exact_value(text: str) -> None:
    with pytest.raises(EvaluationError):
        parse_expression(text).evaluate({})


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("a + ", 5),
        ("a + )", 5),
        ("(a", 3),
        ("a b", 3),
        ("a ** 2", 3),
        ("min(a)", 1),
        ("foo(a)", 1),
        ("a $ b", 3),
        ("(a < b) + 1", 2),
        ("a < b < c", 7),
        ("010", 1),
        ("1_000", 2),
        ("a.b", 2),
        ("a[0]", 2),
        ("", 1),
        ("  ", 3),
    ],
)
def test_error_column_is_inside_the_text(text: str, column: int) -> None:
    with pytest.raises(WavespecError) as raised:
        parse_expression(text)
    span = raised.value.diagnostics[0].span
    assert span is not None and span.column == column


ATTACKS = [
    "__import__('os').system('id')",
    "().__class__.__bases__[0]",
    "9**9**9",
    "9**9**9**9",
    "factorial(10**7)",
    "symbols('M:3000000')",
    "lambda: 1",
    "[x for x in y]",
    "{1: 2}",
    "f'{a}'",
    "a if b else c",
    "a := 1",
    "a; b",
    "exec(a)",
    "eval(a)",
    "open(a)",
    "getattr(a, b)",
    "Symbol.as_dummy.__globals__",
    "a\n+\\\nb",
    "'a' * 9",
    '"x"',
    "a and b",
    "not a",
    "a @ b",
    "a << 99",
    "~a",
    "a | b",
    "a, b",
    "*a",
    "1j",
    "0x10",
    "0b1",
    "1e400",
    "9" * 30,
    "(" * 10_000,
    "-" * 10_000 + "1",
    "min(" * 500,
    "1+" * 5000 + "1",
    "a" * 4100,
    "1." * 100,
    "é",
    "ﬁ",
    "a\u202eb",
    "\x00",
    "a # b",
    "$a",
    "`id`",
    "a?b:c",
    "a=b",
    "...",
    "max()",
    "ceildiv(1)",
    "ceildiv(1,2,3)",
]


@pytest.mark.parametrize("text", ATTACKS)
def test_attack_is_refused_at_once(text: str) -> None:
    start = time.process_time()
    with pytest.raises(WavespecError):
        parse_expression(text)
    assert time.process_time() - start < 5.0


def test_random_text_gives_an_expression_or_an_error() -> None:
    chooser = random.Random(7)
    pieces = [
        "a",
        "1",
        "2.5",
        "(",
        ")",
        "min",
        ",",
        "<",
        "==",
        "**",
        "//",
        "-",
        " ",
        ".",
        "_",
        *string.printable,
    ]
    for _ in range(5000):
        text = "".join(chooser.choices(pieces, k=chooser.randrange(1, 30)))
        try:
            expression = parse_expression(text)
        except WavespecError:
            continue
        assert parse_expression(str(expression)) == expression


def test_long_sum_prints_and_evaluates() -> None:
    expression = parse_expression("1" + "+1" * 99)
    assert expression.evaluate({}) == 100 and parse_expression(str(expression)) == expression


@pytest.mark.parametrize(
    "text", ["M // 3 + N % 4", "ceildiv(M, 8) * 8", "max(M, N, 2) - min(M, 7)", "(M * N) / N", "-M"]
)
def test_sympy_form_has_the_same_value(text: str) -> None:
    expression = parse_expression(text)
    for m, n in [(1, 1), (17, 5), (64, 128), (100, 3)]:
        symbolic = expression_to_sympy(expression)
        bound = {symbol: {"M": m, "N": n}[symbol.name] for symbol in symbolic.free_symbols}
        assert symbolic.subs(bound) == expression.evaluate({"M": m, "N": n})


def test_sympy_condition() -> None:
    condition = expression_to_sympy(parse_expression("M >= 4"))
    assert bool(condition.subs({next(iter(condition.free_symbols)): 4}))


def test_names_come_once_in_order() -> None:
    assert parse_expression("B + A * B - min(C, A)").names() == ("B", "A", "C")


def test_functions_are_those_of_the_grammar() -> None:
    assert set(FUNCTIONS) == {"min", "max", "ceildiv", "size", "start", "end", "stride", "alignment"}


def test_an_argument_that_a_comma_of_braces_has_cut_off_asks_for_quotes() -> None:
    with pytest.raises(WavespecError, match="takes quotes"):
        parse_expression("N // max(K")
    with pytest.raises(WavespecError) as other:
        parse_expression("(N + 1")
    assert "takes quotes" not in str(other.value)

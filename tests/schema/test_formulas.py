"""Expressions of values: the plain ops that they stand for, their places and their mistakes."""

from __future__ import annotations

import pytest

from tests.ops.epilogues import epilogue
from wavespec.diagnostics import WavespecError
from wavespec.schema import KernelSpec, loads
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.language.formula_parser import parse_formula
from wavespec.schema.ops import ValueOp
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.symbols import call

BIAS = "bias: {shape: [N], dtype: f32}"


def plain(*statements: str, spec: KernelSpec | None = None) -> list[str]:
    """The statements behind the loop as YAML, those of expressions as plain ops."""
    spec = spec or epilogue("bias_tile: {read: bias}", *statements, tensors=BIAS)
    whole = spec.model_copy(update={"graph": plain_graph(spec)[0]})
    lines = dump_yaml(whole).partition("bias_tile: {read: bias}\n")[2].splitlines()
    return [line.removeprefix("  - ") for line in lines if line][:-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sums.acc + 1", ["y: {add: [sums.acc, 1]}"]),
        ("-(sums.acc)", ["y: {neg: sums.acc}"]),
        ("sums.acc * (2 - 6 / 4)", ["y: {mul: [sums.acc, 0.5]}"]),
        ("1 - sums.acc * bias_tile", ["y_mul: {mul: [sums.acc, bias_tile]}", "y: {sub: [1, y_mul]}"]),
        ("sums.acc - 1 - 2", ["y_sub: {sub: [sums.acc, 1]}", "y: {sub: [y_sub, 2]}"]),
        ("-sums.acc ** 2", ["y_pow: {pow: [sums.acc, 2]}", "y: {neg: y_pow}"]),
        ("maximum(sums.acc, -inf)", ["y: {maximum: [sums.acc, -.inf]}"]),
        ("sums.acc / N", ["y_size: {size: N, dtype: f32}", "y: {div: [sums.acc, y_size]}"]),
        (
            "sqrt(M / 2) * sums.acc",
            [
                "y_size: {size: M, dtype: f32}",
                "y_div: {div: [y_size, 2]}",
                "y_sqrt: {sqrt: y_div}",
                "y: {mul: [y_sqrt, sums.acc]}",
            ],
        ),
        (
            "where(index(N) < size(N) - 1, sums.acc, 0)",
            [
                "y_index: {index: N}",
                "y_size: {size: N}",
                "y_sub: {sub: [y_size, 1]}",
                "y_lt: {lt: [y_index, y_sub]}",
                "y: {where: [y_lt, sums.acc, 0]}",
            ],
        ),
        (
            "f32(bf16(sums.acc))",
            ["y_cast: {cast: sums.acc, dtype: bf16}", "y: {cast: y_cast, dtype: f32}"],
        ),
        (
            "sums.acc + f32(index(N)) + f32(M) + f32(2)",
            [
                "y_index: {index: N}",
                "y_cast: {cast: y_index, dtype: f32}",
                "y_add: {add: [sums.acc, y_cast]}",
                "y_size: {size: M, dtype: f32}",
                "y_add_2: {add: [y_add, y_size]}",
                "y_register: {register: [], dtype: f32, value: 2}",
                "y: {add: [y_add_2, y_register]}",
            ],
        ),
        (
            "sums.acc * f32(i8(M) + i8(2))",
            [
                "y_size: {size: M}",
                "y_cast: {cast: y_size, dtype: i8}",
                "y_register: {register: [], dtype: i8, value: 2}",
                "y_add: {add: [y_cast, y_register]}",
                "y_cast_2: {cast: y_add, dtype: f32}",
                "y: {mul: [sums.acc, y_cast_2]}",
            ],
        ),
        (
            "sums.acc * random(7, M, N)",
            ["y_random: {random: 7, dims: [M, N]}", "y: {mul: [sums.acc, y_random]}"],
        ),
        ("sums.acc * -(pi / 2)", ["y: {mul: [sums.acc, -1.5707963267948966]}"]),
        (
            "where((sums.acc > 0) & ~(sums.acc >= 9), sums.acc, 0)",
            [
                "y_gt: {gt: [sums.acc, 0]}",
                "y_ge: {ge: [sums.acc, 9]}",
                "y_bitwise_not: {bitwise_not: y_ge}",
                "y_bitwise_and: {bitwise_and: [y_gt, y_bitwise_not]}",
                "y: {where: [y_bitwise_and, sums.acc, 0]}",
            ],
        ),
        (
            "sums.acc + where(index(N) <= index(M), 0, -inf)",
            [
                "y_index: {index: N}",
                "y_index_2: {index: M}",
                "y_le: {le: [y_index, y_index_2]}",
                "y_register: {register: [], dtype: f32, value: 0}",
                "y_where: {where: [y_le, y_register, -.inf]}",
                "y: {add: [sums.acc, y_where]}",
            ],
        ),
    ],
)
def test_an_expression_stands_for_an_op_for_each_operator(text: str, expected: list[str]) -> None:
    assert plain(f'y: "{text}"') == expected


def test_names_that_are_taken_are_passed_over() -> None:
    assert plain("y_mul: {neg: sums.acc}", "y: sums.acc * y_mul + 1")[1:] == [
        "y_mul_2: {mul: [sums.acc, y_mul]}",
        "y: {add: [y_mul_2, 1]}",
    ]


def test_parameters_are_numbers() -> None:
    text = dump_yaml(epilogue("y: sums.acc * (7 + 1)")).replace("(7 +", "(SCALE +")
    text = text.replace("tensors:", "params: {SCALE: 3}\ntensors:", 1)
    assert plain_graph(loads(text))[0][2].model_dump()["rhs"] == 4


def test_every_part_has_its_place_in_the_text() -> None:
    spec = epilogue("y: sums.acc * 2 + exp(sums.acc)")
    spans = {op.name: op.span_of() for op in plain_graph(spec)[0] if isinstance(op, ValueOp)}
    line = spans["y"].source.lines[spans["y"].line - 1]  # pyright: ignore
    cut = {name: line[span.column - 1 : span.end_column - 1] for name, span in spans.items() if span}
    assert (cut["y_mul"], cut["y_exp"], cut["y"]) == (
        "sums.acc * 2",
        "exp(sums.acc)",
        "sums.acc * 2 + exp(sums.acc)",
    )


def test_the_text_survives_yaml() -> None:
    spec = epilogue('y: "where(sums.acc < 0, -sums.acc, sums.acc)"')
    text = dump_yaml(spec)
    assert 'y: "where(sums.acc < 0, -sums.acc, sums.acc)"' in text or "y: where(sums.acc < 0" in text
    assert loads(text) == spec and dump_yaml(loads(text)) == text


def test_python_writes_the_same_expressions() -> None:
    kernel = KernelBuilder("k")
    x = kernel.read("x", kernel.input("a", [kernel.dim("M")], "f32"))
    assert str((x * 2 + 1) / -x) == "((x * 2) + 1) / (-x)"
    assert str(call("where", (x > 0) & ~(x <= 1), x, 1 - x)) == "where((x > 0) & (~(x <= 1)), x, 1 - x)"
    kernel.formula("y", x % 2)
    assert kernel._bodies[-1][-1] == {"op": "formula", "name": "y", "text": "x % 2"}
    assert parse_formula(str((x * 2 + 1) / -x)) is not None


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("sums.acc + ", 12, "the end is not expected here; a number, a name or '(' was."),
        ("exq(sums.acc)", 1, "'exq' is not a function."),
        ("1 + exp(sums.acc, 2)", 5, "'exp' takes 1 argument, not 2."),
        ("1 + bios_tile", 5, "'bios_tile' is not a value of the graph at this point."),
        ("sums.acc < 1 < 2", 14, "A comparison has two sides."),
        ("exp(2)", 1, "The operands of 'exp' are numbers; at least one is a value."),
        ("1 + 2", 1, "'1 + 2' computes nothing; an expression has an operator or a function."),
        ("sums.acc + (bias_tile > 0)", 13, "'add' takes numbers; 'y_gt' is bool."),
        ("sums.acc + index(1)", 18, "'index' takes the name of a dim."),
        ("sums.acc + random(1, 2)", 22, "'random' takes a seed and the names of dims."),
        ("sums.acc + random(bias_tile, N)", 19, "A seed is one number; 'bias_tile' has the dims [N]."),
        ("sums.acc + random(1.5, N)", 19, "The seed of 'random' is an integer; here it is the number 1.5."),
        (
            "sums.acc + random(1, print)",
            22,
            "'print' is a Python builtin, and names become Python names in generated code.",
        ),
        ("sums.acc + random(1, N.x)", 22, "'random' takes a seed and the names of dims."),
        ("sums.acc + index(N.x)", 18, "'index' takes the name of a dim."),
        ("where(2 * 3, sums.acc, 0)", 7, "The condition of 'where' is a value; here it is the number 6."),
        ("sums.acc + size(1)", 17, "'size' takes the name of a dim."),
        ("sums.acc + size(Q)", 17, "'Q' is not a dim."),
        ("sums.acc + bool(bias_tile)", 12, "'add' takes numbers; 'bool(bias_tile)' is bool."),
        ("sums.acc * f16(nan)", 12, "'mul' takes operands of one dtype; 'sums.acc' is f32 and 'f16(nan)' is f16."),
        ("sums.acc + index(Q)", 18, "'Q' is not a dim."),
        ("sums.acc $ 2", 10, "'$' has no meaning in an expression."),
    ],
)
def test_mistakes_are_shown_at_their_column(text: str, column: int, message: str) -> None:
    with pytest.raises(WavespecError) as caught:
        epilogue("bias_tile: {read: bias}", f"y: {text!r}", tensors=BIAS)
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.span is not None
    assert (diagnostic.message, diagnostic.span.column) == (message, len("  - y: '") + column)

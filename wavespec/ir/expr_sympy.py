"""Index expressions in, SymPy out, and the reverse: the user-facing algebra and the tests' oracle.

SymPy's values are typed `Any`: it has no annotations that a strict checker can follow.  No text is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, reduce
from typing import Any

from wavespec.ir.expr import Expr, const, maximum, minimum


def to_sympy(expression: Expr) -> Any:
    """The SymPy expression of the same value; symbols keep their name and whether they can be negative."""
    import sympy

    sp: Any = sympy
    match expression.kind:
        case "const":
            return sp.Integer(expression.value)
        case "symbol":
            name, low, _, _ = expression.args
            assumptions = {} if low is None or low < 0 else {"positive": True} if low > 0 else {"nonnegative": True}
            return sp.Symbol(name, integer=True, **assumptions)
        case "sum":
            return sp.Add(
                expression.constant_part(),
                *(coefficient * to_sympy(term) for coefficient, term in expression.terms()),
            )
        case _:
            arguments = [to_sympy(argument) for argument in expression.args]
    match expression.kind:
        case "product":
            return sp.Mul(*arguments)
        case "floordiv":
            return sp.floor(arguments[0] / arguments[1])
        case "mod":
            return sp.Mod(*arguments)
        case "min":
            return sp.Min(*arguments)
        case "max":
            return sp.Max(*arguments)
        case kind:
            assert kind == "xor", kind
            return _xor_function()(*arguments)


def from_sympy(expression: Any, symbols: Mapping[str, Expr]) -> Expr:
    """The index expression of a SymPy expression over integers.

    Args:
        expression: sums, products, non-negative powers, `floor`, `ceiling`, `Mod`, `Min`, `Max` and xor of integers.
        symbols: what every symbol's name stands for.

    Raises:
        KeyError: a symbol is not in ``symbols``.
        ValueError: the expression is not an integer for every value of its symbols, or uses anything else.
    """
    import sympy

    sp: Any = sympy

    def convert(node: Any) -> Expr:
        return from_sympy(node, symbols)

    if isinstance(node := expression, int) or node.is_Integer:
        return const(int(node))
    if node.is_Symbol:
        return symbols[node.name]
    if isinstance(node, sp.floor):
        numerator, denominator = sp.fraction(sp.together(node.args[0]))
        return convert(numerator) // convert(denominator)
    if isinstance(node, sp.ceiling):
        return -convert(sp.floor(-node.args[0]))
    if isinstance(node, sp.Mod):
        return convert(node.args[0]) % convert(node.args[1])
    if node.is_Pow and node.exp.is_Integer and node.exp >= 0:
        return reduce(Expr.__mul__, [convert(node.base)] * int(node.exp), const(1))
    if node.is_Mul and any(factor.is_Rational and not factor.is_Integer for factor in node.args):
        raise ValueError(f"{node} is not an integer expression: round it with floor or ceiling")
    for kind, combine in (
        (sp.Add, Expr.__add__),
        (sp.Mul, Expr.__mul__),
        (sp.Min, minimum),
        (sp.Max, maximum),
        (_xor_function(), Expr.__xor__),
    ):
        if isinstance(node, kind):
            return reduce(combine, [convert(argument) for argument in node.args])
    raise ValueError(f"no index expression for {node}")


@cache
def _xor_function() -> Any:
    """SymPy has no exclusive or of integers: a function that folds constants."""
    import sympy

    sp: Any = sympy

    def fold(cls: Any, left: Any, right: Any) -> Any:
        return sp.Integer(int(left) ^ int(right)) if left.is_Integer and right.is_Integer else None

    return type("xor", (sp.Function,), {"nargs": 2, "is_integer": True, "eval": classmethod(fold)})

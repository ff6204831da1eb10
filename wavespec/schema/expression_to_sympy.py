"""An expression tree goes in; the SymPy expression of the same meaning comes out. SymPy never sees text."""

from __future__ import annotations

from typing import Any

from wavespec.schema.language.expressions import Binary, Call, Compare, Expression, Name, Num, Unary


def expression_to_sympy(expression: Expression) -> Any:
    """Every name becomes a non-negative integer symbol; `//` becomes `floor`, `/` an exact quotient.

    Typed as `Any` because SymPy has no annotations that a strict checker can follow.
    """
    import sympy

    sp: Any = sympy
    match expression:
        case Num(value=int(value)):
            return sp.Integer(value)
        case Num(value=value):
            return sp.oo if value == float("inf") else -sp.oo if value == -float("inf") else sp.Float(value)
        case Name(name=name):
            return sp.Symbol(name, integer=True, nonnegative=True)
        case Unary(operand=operand):
            return -expression_to_sympy(operand)
        case Binary(op=op, left=left, right=right):
            return _binary(sp, op, expression_to_sympy(left), expression_to_sympy(right))
        case Compare(op=op, left=left, right=right):
            relations = {"<": sp.Lt, "<=": sp.Le, ">": sp.Gt, ">=": sp.Ge, "==": sp.Eq, "!=": sp.Ne}
            return relations[op](expression_to_sympy(left), expression_to_sympy(right))
        case Call(function="ceildiv", arguments=(left, right)):
            return sp.ceiling(expression_to_sympy(left) / expression_to_sympy(right))
        case Call(function=function, arguments=arguments) if function in ("min", "max"):
            extreme = sp.Min if function == "min" else sp.Max
            return extreme(*(expression_to_sympy(argument) for argument in arguments))
        case _:
            raise ValueError(f"no SymPy form of {expression}")


def _binary(sp: Any, op: str, left: Any, right: Any) -> Any:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case "//":
            return sp.floor(left / right)
        case _:
            return sp.Mod(left, right)

"""Index expressions in, text out: what `expr_parser` reads back, and keys that sort terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavespec.ir.names import name_text

if TYPE_CHECKING:
    from wavespec.ir.expr import Expr

_TERM, _ATOM = 2, 3  # of a `context`

_RANK: dict[str, int] = {
    k: i for i, k in enumerate(("symbol", "floordiv", "mod", "xor", "min", "max", "product", "sum", "const"))
}


def sort_key(node: Expr) -> str:
    """A total order that does not depend on addresses or hashing, so printed IR is the same in every process."""
    kind, args = node.kind, node.args
    if kind in ("const", "symbol"):
        return f"({_RANK[kind]}, '{args[0]}')"
    if kind == "sum":
        terms = "".join(f", '{coefficient}', {term.order}" for coefficient, term in args[1])
        return f"({_RANK[kind]}, '{args[0]}'{terms})"
    return f"({_RANK[kind]}, {', '.join([argument.order for argument in args])})"


def expr_to_text(node: Expr, context: int = 0) -> str:
    """The expression as it is printed in IR; ``context``: how tightly what is around it binds."""
    match node.kind:
        case "const":
            return str(node.args[0]) if node.args[0] >= 0 or context < _TERM else f"({node.args[0]})"
        case "symbol":
            return name_text(node.args[0])
        case "sum":
            constant, terms = node.args
            pieces = [
                (c, expr_to_text(t, _TERM) if c == 1 or c == -1 else f"{expr_to_text(t, _ATOM)}*{abs(c)}")
                for c, t in terms
            ]
            text = " ".join(f"{'-' if c < 0 else '+'} {piece}" for c, piece in pieces)
            text = text[2:] if text.startswith("+ ") else "0 " + text
            if constant:
                text += f" {'-' if constant < 0 else '+'} {abs(constant)}"
            return f"({text})" if context >= _TERM else text
        case "product":
            text = "*".join(expr_to_text(factor, _ATOM) for factor in node.args)
        case "floordiv" | "mod":
            sign = "//" if node.kind == "floordiv" else "%"
            text = f"{expr_to_text(node.args[0], _ATOM)}{sign}{expr_to_text(node.args[1], _ATOM)}"
        case _:
            return f"{node.kind}({', '.join(expr_to_text(argument, 0) for argument in node.args)})"
    return f"({text})" if context >= _ATOM else text

"""What a spec has for a dim goes in, a name or an expression such as `K // 2`; what the dim is called comes out.

A dim whose size an expression says where a shape has it is called by the canonical text of that expression, everywhere
behind here: two shapes with the same expression have the same dim, and messages show what was written.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from wavespec.diagnostics import Span, WavespecError, quote
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import FUNCTIONS, LONGEST_EXPRESSION, NUMBERS, PLACES, Expression, Name
from wavespec.schema.language.names import name_problem

_WORD = re.compile(r"\w*")
_FUNCTIONS = {name: counts for name, counts in FUNCTIONS.items() if name not in (*PLACES, *NUMBERS)}


class NumberAsDim(WavespecError, code="number-as-dim"):
    """A size without a name was given where a dim has to be."""

    def __init__(self, span: Span | None, text: str) -> None:
        super().__init__(
            span,
            f"{quote(text)} is a number, not a dim.",
            hints=["Give it a name in 'dims', 'C: {value: 4}', and use that."],
        )


def is_expression(dim: str) -> bool:
    """Whether a dim has no name but an expression of its size."""
    return _WORD.fullmatch(dim) is None


def expression_of_dim(text: str, span: Span | None = None) -> Expression | None:
    """The size of a dim that was written as an expression, found at `span`; `None` of a name, right or wrong.

    Raises:
        WavespecError: no expression, or one without names.
    """
    if not is_expression(text):
        return None
    expression = parse_expression(text, span, _FUNCTIONS)
    if not expression.names():
        raise NumberAsDim(span, text)
    return expression


def _valid_dim(text: str) -> str:
    try:
        expression = expression_of_dim(text)
    except WavespecError as error:
        problem = f"is neither a name nor an expression of dims: {error.diagnostics[0].message}"
        raise PydanticCustomError("bad_name", "{problem}", {"problem": problem}) from None
    if expression is not None and not isinstance(expression, Name):
        return str(expression)
    text = text if expression is None else str(expression)
    if problem := name_problem(text):
        raise PydanticCustomError("bad_name", "{problem}", {"problem": problem})
    return text


DIM_PATTERN = rf"^[-(A-Za-z0-9][-+*/%(), A-Za-z0-9_]{{0,{LONGEST_EXPRESSION - 1}}}$"
DimName = Annotated[str, AfterValidator(_valid_dim), WithJsonSchema({"type": "string", "pattern": DIM_PATTERN})]
"""A dim: its name, or the expression of its size."""

"""Text of an index expression goes in; its tree, or an error with the column inside the text, comes out.

The grammar is that of symbolic expressions without comparisons and `/`. The name of a dim is the index of the element
along it, `size(DIM)` its size; a value of a loop is `loop.name`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, NoReturn

from pydantic import BeforeValidator

from wavespec.diagnostics import Span, WavespecError, quote
from wavespec.schema.language.expression_parser import (
    TOKEN_PATTERN,
    ExpressionParser,
    SpecExpression,
    Token,
    parse_with,
)
from wavespec.schema.language.expressions import COMPARISONS, FUNCTIONS, Expression

INDEX_FUNCTIONS = {name: FUNCTIONS[name] for name in ("min", "max", "ceildiv", "size")} | {"xor": (2, 2)}
"""Functions of index expressions, with the fewest and the most arguments."""


def parse_index(text: str, span: Span | None = None) -> Expression:
    """Parse `text`, found at `span` of a file.

    Raises:
        WavespecError: malformed, too large, or with an unknown function.
    """
    return parse_with(_IndexParser, text, span, INDEX_FUNCTIONS)


def _text_to_index(data: Any) -> Any:
    if not isinstance(data, str):
        return data
    try:
        return parse_index(data)
    except WavespecError as error:
        raise ValueError(str(error)) from None


IndexExpression = Annotated[SpecExpression, BeforeValidator(_text_to_index)]
"""Which element: an integer, or an expression of the indices along dims, sizes, parameters and integer values."""


class _IndexParser(ExpressionParser):
    pattern: ClassVar[re.Pattern[str]] = re.compile(
        TOKEN_PATTERN.replace("A-Za-z0-9_]*)", r"A-Za-z0-9_]*(?:\.[A-Za-z][A-Za-z0-9_]*)?)")
    )

    def whole(self) -> Expression:
        for token in self.tokens:
            if token.text in (*COMPARISONS, "/") or ("." in token.text and token.kind == "number"):
                self._no_index(token)
        return super().whole()

    def _no_index(self, token: Token) -> NoReturn:
        hint = "Write '//', which rounds down." if token.text == "/" else ""
        self._fail(token, f"{quote(token.text)} has no place in an index, which is an integer.", hint)

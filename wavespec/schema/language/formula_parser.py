"""Text of an expression of values goes in; its tree, or an error with the column inside the text, comes out.

Grammar (operators of one line group to the left, `**` to the right; names are those of values, `loop.name` among them,
of parameters and of dims):

    formula = either [("<" | "<=" | ">" | ">=" | "==" | "!=") either]
    either  = both {"|" both}
    both    = sum {"&" sum}
    sum     = product {("+" | "-") product}
    product = unary {("*" | "/" | "//" | "%") unary}
    unary   = ("-" | "~") unary | power
    power   = atom ["**" unary]
    atom    = NUMBER | NAME | FUNCTION "(" formula {"," formula} ")" | "(" formula ")"

NUMBER is that of `expression_parser`, `nan` or `pi`. FUNCTION is a word of the elementwise ops, `where`, an element
type, `index` or `size`, which take the name of a dim, or `random`, which takes a seed and the names of dims. As in
Python, `&` and `|` bind closer than comparisons: `(x > 0) & (y > 0)`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, NoReturn

from wavespec.diagnostics import Span, quote
from wavespec.schema.language.dtypes import DTYPES
from wavespec.schema.language.expression_parser import (
    TOKEN_PATTERN,
    ExpressionParser,
    MalformedExpression,
    Token,
    parse_with,
)
from wavespec.schema.language.expressions import (
    COMPARISONS,
    INT64_MIN,
    Binary,
    Call,
    Compare,
    Expression,
    Name,
    Num,
    Unary,
)
from wavespec.schema.language.synonyms import sign_hint
from wavespec.schema.ops.elementwise import FUNCTIONS

_OF_DIMS = ("index", "size")
_FUNCTIONS = {
    **{row.word: (row.operands, row.operands) for row in FUNCTIONS},
    **dict.fromkeys((*_OF_DIMS, *DTYPES), (1, 1)),
    "random": (2, 17),
}
_CONSTANTS = {"nan": math.nan, "pi": math.pi}


def parse_formula(text: str, span: Span | None = None) -> Expression:
    """Parse `text`, found at `span` of a file.

    Raises:
        WavespecError: malformed, too large, or with an unknown function.
    """
    return parse_with(_FormulaParser, text, span, _FUNCTIONS)


class _FormulaParser(ExpressionParser):
    pattern: ClassVar[re.Pattern[str]] = re.compile(
        TOKEN_PATTERN.replace("A-Za-z0-9_]*)", r"A-Za-z0-9_]*(?:\.[A-Za-z][A-Za-z0-9_]*)?)").replace("[-+", "[-+&|~")
    )

    def _expression(self) -> Expression:
        left = self._either()
        token = self._peek()
        if token.text not in COMPARISONS:
            return left
        self._next()
        right = self._either()
        return self._count(Compare(token.text, left, right, at=self._cover(left, right)))

    def _either(self) -> Expression:
        return self._chain(("|",), lambda: self._chain(("&",), self._sum))

    def _chain(self, signs: tuple[str, ...], inner: Callable[[], Expression]) -> Expression:
        left = inner()
        while (token := self._peek()).text in signs:
            self._next()
            left = self._binary(token.text, left, inner())
        return left

    def _product(self) -> Expression:
        return self._chain(("*", "/", "//", "%"), self._unary)

    def _unary(self) -> Expression:
        token = self._peek()
        if token.text not in ("-", "~"):
            return self._power()
        self._next()
        is_smallest = token.text == "-" and self._peek().text == str(-INT64_MIN)
        if is_smallest and self.tokens[self.position + 1].text != "**":
            return self._negative(token)
        self._deeper(token)
        operand = self._unary()
        self.depth -= 1
        return self._count(Unary(token.text, operand, at=(token.offset, sum(operand.at) - token.offset)))

    def _power(self) -> Expression:
        base = self._atom()
        token = self._peek()
        if token.text != "**":
            return base
        self._next()
        self._deeper(token)
        exponent = self._unary()
        self.depth -= 1
        return self._count(Binary("**", base, exponent, at=self._cover(base, exponent)))

    def _atom(self) -> Expression:
        atom = super()._atom()
        number = _CONSTANTS.get(atom.name) if isinstance(atom, Name) else None
        return atom if number is None else Num(number, at=atom.at)

    def _call(self, function: Token) -> Expression:
        call = super()._call(function)
        if isinstance(call, Call) and call.function in (*_OF_DIMS, "random"):
            is_random = call.function == "random"
            if not is_random and not isinstance(call.arguments[0], Name):
                return replace(call, arguments=(self._dim(call.function, call.arguments[0]),))
            for argument in call.arguments[1:] if is_random else call.arguments:
                if not isinstance(argument, Name) or "." in argument.name:
                    what = "a seed and the names of dims" if is_random else "the name of a dim"
                    message = f"{quote(call.function)} takes {what}."
                    raise MalformedExpression(self.span.part(*argument.at), message)
        return call

    def _two_sides(self, behind: Token) -> None:
        if behind.text in COMPARISONS:
            hint = "Join one condition for each comparison: '(0 < x) & (x < 1)'."
            self._fail(behind, "A comparison has two sides.", hint)

    def _fail(self, token: Token, message: str, hint: str = "") -> NoReturn:
        super()._fail(token, message, hint or sign_hint(self.text, token.offset))

    def _number_only(self, *operands: Expression) -> None:
        """Whatever a part is, an op says what it takes."""

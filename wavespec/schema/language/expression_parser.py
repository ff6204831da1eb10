"""Text of a symbolic expression goes in; its tree, or an error with the column inside the text, comes out.

Grammar (names are ASCII identifiers; operators of one line group to the left):

    expression = sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]
    sum        = product {("+" | "-") product}
    product    = unary {("*" | "/" | "//" | "%") unary}
    unary      = "-" unary | atom
    atom       = NUMBER | NAME | NAME "(" expression {"," expression} ")" | "(" expression ")"
    NUMBER     = DIGITS ["." [DIGITS]] [("e" | "E") ["+" | "-"] DIGITS] | "inf"

`/` divides exactly, `//` rounds down, `%` has the divisor's sign. There is no power, index or string.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, NoReturn

from pydantic import BeforeValidator

from wavespec.diagnostics import Source, Span, WavespecError, name_hints, quote
from wavespec.schema.language.errors import LANGUAGE_PAGE
from wavespec.schema.language.expressions import (
    COMPARISONS,
    FUNCTIONS,
    INT64_MAX,
    INT64_MIN,
    LONGEST_EXPRESSION,
    NUMBERS,
    PLACES,
    Binary,
    Call,
    Compare,
    Expression,
    Name,
    Num,
    Unary,
    may_be_size,
)
from wavespec.schema.language.synonyms import function_hints

_DEEPEST = 32
_MOST_NODES = 400
_QUOTES = "Inside of braces and brackets, an expression with a comma takes quotes: '{N: \"max(K, 1)\"}'."
TOKEN_PATTERN = (
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<op>\*\*|//|<=|>=|==|!=|[-+*/%<>(),]))"
)


class MalformedExpression(WavespecError, code="malformed-expression"):
    """The text is not in the grammar."""


class ExpressionTooLarge(WavespecError, code="expression-too-large"):
    """The text is over a cap: characters, nesting, nodes, or bits of a number."""


class UnknownFunction(WavespecError, code="unknown-function"):
    """A call of something that is not a function of expressions."""

    def __init__(self, span: Span, name: str, allowed: Mapping[str, tuple[int, int]]) -> None:
        hints = function_hints(name, allowed) or name_hints(name, allowed, "The functions are", LANGUAGE_PAGE)
        super().__init__(span, f"{quote(name)} is not a function.", hints=hints, about=[name])


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text: what it is, and where it starts."""

    kind: str
    text: str
    offset: int


def parse_expression(
    text: str, span: Span | None = None, functions: Mapping[str, tuple[int, int]] = FUNCTIONS
) -> Expression:
    """Parse `text`, found at `span` of a file.

    Raises:
        WavespecError: malformed, too large, or with a function outside `functions`.
    """
    return parse_with(ExpressionParser, text, span, functions)


def _data_to_expression(data: object) -> object:
    """What specs that are written in Python or JSON have for an expression."""
    if isinstance(data, int) and not isinstance(data, bool) and INT64_MIN <= data <= INT64_MAX:
        return Num(data)
    if not isinstance(data, str | Expression):
        raise ValueError("expected an integer or an expression")
    try:
        return parse_expression(data) if isinstance(data, str) else data
    except WavespecError as error:
        raise ValueError(str(error)) from None


SpecExpression = Annotated[Expression, BeforeValidator(_data_to_expression)]
"""A field of a model that holds an expression."""


def parse_with(
    parser: type[ExpressionParser], text: str, span: Span | None, functions: Mapping[str, tuple[int, int]]
) -> Expression:
    """Parse `text` in the grammar of `parser`."""
    if span is None:
        span = Span("<expression>", 1, 1, 1, len(text) + 1, Source.of("<expression>", text))
    if len(text) > LONGEST_EXPRESSION:
        message = f"An expression has at most {LONGEST_EXPRESSION} characters; this one has {len(text)}."
        raise ExpressionTooLarge(span, message)
    return parser(text, span, functions).whole()


class ExpressionParser:
    """Reads the grammar above; a subclass reads a larger one."""

    pattern: ClassVar[re.Pattern[str]] = re.compile(TOKEN_PATTERN)

    def __init__(self, text: str, span: Span, functions: Mapping[str, tuple[int, int]]) -> None:
        self.text = text
        self.span = span
        self.functions = functions
        self.end = len(text)
        self.depth = 0
        self.nodes = 0
        self.tokens = self._tokenize(text)
        self.position = 0

    def whole(self) -> Expression:
        result = self._expression()
        token = self._peek()
        self._two_sides(token)
        if token.kind != "end":
            digits = self.tokens[self.position - 1]
            is_number = digits.kind == "number" and digits.offset + len(digits.text) == token.offset
            hint = "Numbers are decimal digits alone." if is_number else ""
            self._fail(token, f"{quote(token.text)} is not expected here; an operator or the end was.", hint)
        return result

    def _expression(self) -> Expression:
        left = self._sum()
        token = self._peek()
        if token.text not in COMPARISONS:
            return left
        self._next()
        right = self._sum()
        self._number_only(left, right)
        return Compare(token.text, left, right, at=self._cover(left, right))

    def _sum(self) -> Expression:
        left = self._product()
        while (token := self._peek()).text in ("+", "-"):
            self._next()
            left = self._binary(token.text, left, self._product())
        return left

    def _product(self) -> Expression:
        left = self._unary()
        while (token := self._peek()).text in ("*", "/", "//", "%"):
            self._next()
            left = self._binary(token.text, left, self._unary())
        if token.text == "**":
            self._fail(token, "Expressions have no power operator.", "Write the product or the number.")
        return left

    def _unary(self) -> Expression:
        token = self._peek()
        if token.text != "-":
            return self._atom()
        self._next()
        if self._peek().kind == "number" or self._peek().text == "inf":
            return self._negative(token)
        self._deeper(token)
        operand = self._unary()
        self.depth -= 1
        self._number_only(operand)
        return self._count(Unary("-", operand, at=(token.offset, sum(operand.at) - token.offset)))

    def _negative(self, sign: Token) -> Expression:
        """The number behind a sign, which belongs to it: the smallest integer has no positive one."""
        literal = self._next()
        value = float("inf") if literal.text == "inf" else self._number(literal, -INT64_MIN)
        return self._count(Num(-value, at=(sign.offset, literal.offset + len(literal.text) - sign.offset)))

    def _atom(self) -> Expression:
        token = self._next()
        at = (token.offset, len(token.text))
        if token.kind == "number":
            return self._count(Num(self._number(token), at=at))
        if token.kind == "name" and self._peek().text == "(":
            return self._call(token)
        if token.kind == "name":
            return self._count(Num(float("inf"), at=at) if token.text == "inf" else Name(token.text, at=at))
        if token.text == "(":
            self._deeper(token)
            inside = self._expression()
            self._expect(")")
            self.depth -= 1
            return inside
        found = quote(token.text) if token.kind != "end" else "the end"
        self._fail(token, f"{found} is not expected here; a number, a name or '(' was.")

    def _call(self, function: Token) -> Expression:
        if function.text not in self.functions:
            raise UnknownFunction(self.span.part(function.offset, len(function.text)), function.text, self.functions)
        self._deeper(self._next())
        arguments = [self._expression()]
        while self._peek().text == ",":
            self._next()
            arguments.append(self._expression())
        fewest, most = self.functions[function.text]
        close = self._expect(")", _QUOTES if len(arguments) < fewest else "")
        self.depth -= 1
        self._number_only(*arguments)
        if not fewest <= len(arguments) <= most:
            counts = str(fewest) if fewest == most else f"{fewest} to {most}"
            self._fail(
                function, f"{quote(function.text)} takes {counts} argument{'s' * (most > 1)}, not {len(arguments)}."
            )
        if function.text in PLACES:
            arguments = [self._dim(function.text, arguments[0])]
        at = (function.offset, close.offset + 1 - function.offset)
        if function.text in NUMBERS:
            return self._count(Name(self._number_name(function.text, arguments), at=at))
        return self._count(Call(function.text, tuple(arguments), at=at))

    def _dim(self, function: str, argument: Expression) -> Name:
        """The dim that a function takes: its name, or the expression that a shape has for it."""
        if isinstance(argument, Name):
            return argument
        if not may_be_size(argument):
            raise MalformedExpression(self.span.part(*argument.at), f"{quote(function)} takes the name of a dim.")
        return Name(str(argument), at=argument.at)

    def _number_name(self, function: str, arguments: Sequence[Expression]) -> str:
        for argument, what in zip(arguments, ("a tensor", "a dim of it"), strict=False):
            if not isinstance(argument, Name) and (what == "a tensor" or not may_be_size(argument)):
                span = self.span.part(*argument.at)
                raise MalformedExpression(span, f"{quote(function)} takes the name of {what} here.")
        return f"{function}({', '.join(map(str, arguments))})"

    def _binary(self, op: str, left: Expression, right: Expression) -> Expression:
        self._number_only(left, right)
        return self._count(Binary(op, left, right, at=self._cover(left, right)))

    def _number(self, token: Token, most: int = INT64_MAX) -> int | float:
        if not token.text.isdigit():
            value = float(token.text)
            if value == float("inf"):
                self._too_large(token, f"{quote(token.text)} is beyond 64-bit floating point.")
            return value
        if len(token.text) > 1 and token.text.startswith("0"):
            self._fail(token, f"{quote(token.text)} starts with 0.", "Integers are decimal, without leading zeros.")
        if len(token.text) > 19 or int(token.text) > most:
            self._too_large(token, f"{quote(token.text)} needs more than 63 bits.")
        return int(token.text)

    def _number_only(self, *operands: Expression) -> None:
        for operand in operands:
            if operand.is_condition:
                message = "A comparison is not a number."
                raise MalformedExpression(self.span.part(*operand.at), message)

    def _cover(self, left: Expression, right: Expression) -> tuple[int, int]:
        return (left.at[0], sum(right.at) - left.at[0])

    def _count(self, node: Expression) -> Expression:
        self.nodes += 1
        if self.nodes > _MOST_NODES:
            raise ExpressionTooLarge(
                self.span, f"An expression has at most {_MOST_NODES} numbers, names and operators."
            )
        return node

    def _deeper(self, token: Token) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            self._too_large(token, f"An expression nests at most {_DEEPEST} levels.")

    def _peek(self) -> Token:
        return self.tokens[self.position]

    def _next(self) -> Token:
        token = self.tokens[self.position]
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return token

    def _two_sides(self, behind: Token) -> None:
        if behind.text in COMPARISONS:
            self._fail(behind, "A comparison has two sides.", "Write one condition for each comparison.")

    def _expect(self, text: str, hint: str = "") -> Token:
        token = self._next()
        self._two_sides(token)
        if token.text != text:
            found = quote(token.text) if token.kind != "end" else "the end"
            self._fail(token, f"{found} is not expected here; {quote(text)} was.", hint if token.kind == "end" else "")
        return token

    def _tokenize(self, text: str) -> list[Token]:
        tokens: list[Token] = []
        offset = 0
        while text[offset:].strip():
            match = self.pattern.match(text, offset)
            if match is None:
                offset += len(text[offset:]) - len(text[offset:].lstrip())
                wrong = Token("wrong", text[offset], offset)
                self._fail(wrong, f"{quote(text[offset])} has no meaning in an expression.")
            kind = match.lastgroup or ""
            tokens.append(Token(kind, match[kind], match.start(kind)))
            offset = match.end()
        return [*tokens, Token("end", "", self.end)]

    def _fail(self, token: Token, message: str, hint: str = "") -> NoReturn:
        span = self.span.part(token.offset, len(token.text))
        raise MalformedExpression(span, message, hints=[hint] if hint else [])

    def _too_large(self, token: Token, message: str) -> NoReturn:
        raise ExpressionTooLarge(self.span.part(token.offset, len(token.text)), message)

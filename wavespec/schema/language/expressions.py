"""A symbolic integer or truth expression: its tree, canonical text, free names and exact value.

`expression_parser` makes the tree from text. Nothing here or there executes text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wavespec.diagnostics import quote

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

LONGEST_EXPRESSION = 4096
"""Characters of an expression."""

PLACES: Mapping[str, str] = {
    "start": "the first element of the current tile of a dim",
    "end": "one past its last element",
    "size": "the size of a dim",
}
"""Functions of the name of a dim; the first two are known inside the graph alone."""

NUMBERS: Mapping[str, tuple[int, int]] = {"stride": (2, 2), "alignment": (1, 1)}
"""Functions of names that make up the name of a number of a call: `stride(x, M)`, of a tensor and a dim of it."""

FUNCTIONS: Mapping[str, tuple[int, int]] = {
    **{"min": (2, 16), "max": (2, 16), "ceildiv": (2, 2)},
    **dict.fromkeys(PLACES, (1, 1)),
    **NUMBERS,
}
"""Functions of integer expressions, with the fewest and the most arguments."""

COMPARISONS = ("<=", ">=", "==", "!=", "<", ">")
_LEVELS = (COMPARISONS, ("|",), ("&",), ("+", "-"), ("*", "/", "//", "%"))
_PRECEDENCE = {sign: level for level, signs in enumerate(_LEVELS, 1) for sign in signs}
_UNARY, _POWER = 6, 7


class EvaluationError(Exception):
    """An expression has no exact value; `node` is the part that has none."""

    def __init__(self, message: str, node: Expression) -> None:
        super().__init__(message)
        self.node = node


@dataclass(frozen=True, slots=True)
class Expression:
    """A node of an expression; `str(node)` is its canonical text, which parses back to an equal tree."""

    at: tuple[int, int] = field(default=(0, 1), compare=False, repr=False, kw_only=True)
    """Offset and length of the node in the text it was parsed from."""
    # Checks and conditions of cases ask for these again and again.
    _text: str = field(default="", init=False, compare=False, repr=False)
    _names: tuple[str, ...] | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def children(self) -> tuple[Expression, ...]:
        return ()

    @property
    def is_condition(self) -> bool:
        """A truth value, not a number."""
        return isinstance(self, Compare)

    def walk(self) -> Iterator[Expression]:
        """This node and all below it, in the order of the text."""
        yield self
        for child in self.children:
            yield from child.walk()

    def names(self) -> tuple[str, ...]:
        """Free names, those of dims whose tile is meant among them, each once, in the order of the text."""
        known = self._names
        if known is None:
            known = tuple(dict.fromkeys([node.name for node in self.walk() if isinstance(node, Name)]))
            object.__setattr__(self, "_names", known)
        return known

    def evaluate(self, values: Mapping[str, int]) -> int | bool:
        """The exact value, with every name bound in `values`.

        Raises:
            EvaluationError: an unbound name, an inexact `/`, a division by zero, a fraction, over 64 bits.
        """
        return _evaluate(self, values)

    def __str__(self) -> str:
        text = self._text
        if not text:
            text = _print(self, 0)
            object.__setattr__(self, "_text", text)
        return text

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.is_instance_schema(
            cls, serialization=core_schema.plain_serializer_function_ser_schema(expression_to_data)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        text = {"type": "string", "minLength": 1, "maxLength": LONGEST_EXPRESSION}
        return {"anyOf": [{"type": "integer"}, text]}


@dataclass(frozen=True, slots=True)
class Num(Expression):
    """A literal."""

    value: int | float


@dataclass(frozen=True, slots=True)
class Name(Expression):
    """A dim, a parameter, a value of the graph, or a number of a call as `stride(x, M)`."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary(Expression):
    """`-operand`."""

    op: str
    operand: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    """`left op right` with one of `+ - * / // %`."""

    op: str
    left: Expression
    right: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, slots=True)
class Compare(Expression):
    """`left op right` with one of `COMPARISONS`: a truth value."""

    op: str
    left: Expression
    right: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """`function(arguments)` with one of the allowed functions."""

    function: str
    arguments: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.arguments


def may_be_size(expression: Expression) -> bool:
    """Whether a dim may have this expression for its name: arithmetic of names and whole numbers, a name at least."""
    for node in expression.walk():
        match node:
            case Name(name=name) if "." not in name and "(" not in name:
                pass
            case Num(value=int()) | Unary(op="-") | Binary(op="+" | "-" | "*" | "/" | "//" | "%"):
                pass
            case Call(function="min" | "max" | "ceildiv"):
                pass
            case _:
                return False
    return bool(expression.names())


def expression_to_data(expression: Expression) -> int | float | str:
    """How YAML and JSON write the expression: a plain number, or its canonical text."""
    if isinstance(expression, Num):
        return expression.value
    return str(expression)


def _print(node: Expression, outer: int) -> str:
    match node:
        case Num(value=value):
            # A negative literal binds like a unary minus: `-2 * x` needs no parentheses.
            return repr(value)
        case Name(name=name):
            return name
        case Call(function=function, arguments=arguments):
            return f"{function}({', '.join(_print(argument, 0) for argument in arguments)})"
        case Unary(op=op, operand=operand):
            # `-(2)` is a negation of 2, `-2` is one literal: the parentheses keep the tree.
            literal = isinstance(operand, Num) and not repr(operand.value).startswith("-")
            inner = _UNARY
            text = f"{op}({_print(operand, 0)})" if literal else f"{op}{_print(operand, inner)}"
        case Binary(op="**", left=left, right=right):
            inner = _POWER
            text = f"{_print(left, _POWER + 1)} ** {_print(right, _UNARY)}"
        case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
            inner = _PRECEDENCE[op]
            # Operators of one precedence group to the left; a comparison takes no comparison.
            below = inner + 1 if isinstance(node, Compare) else inner
            text = f"{_print(left, below)} {op} {_print(right, inner + 1)}"
        case _:
            raise AssertionError(f"not an expression: {node!r}")
    return f"({text})" if inner < outer else text


def _evaluate(node: Expression, values: Mapping[str, int]) -> int | bool:
    match node:
        case Num(value=value):
            if not isinstance(value, int):
                raise EvaluationError(f"{value!r} is not an integer", node)
            return value
        case Name(name=name):
            if name not in values:
                raise EvaluationError(f"{quote(name)} has no value here", node)
            return values[name]
        case Unary(operand=operand):
            result = -_evaluate(operand, values)
        case Binary(op=op, left=left, right=right):
            result = _arithmetic(op, _evaluate(left, values), _evaluate(right, values), node)
        case Compare(op=op, left=left, right=right):
            return _COMPARE[op](_evaluate(left, values), _evaluate(right, values))
        case Call(function=function) if function in PLACES:
            if str(node) not in values:
                raise EvaluationError(f"{quote(str(node))} is known inside the graph only", node)
            return values[str(node)]
        case Call(function=function, arguments=arguments):
            result = _call(function, [_evaluate(argument, values) for argument in arguments], node)
        case _:
            raise AssertionError(f"not an expression: {node!r}")
    if not INT64_MIN <= result <= INT64_MAX:
        raise EvaluationError("the value needs more than 64 bits", node)
    return result


def _arithmetic(op: str, left: int, right: int, node: Expression) -> int:
    if op in ("/", "//", "%") and right == 0:
        raise EvaluationError("the divisor is 0", node)
    match op:
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
        case "/" if left % right == 0:
            return left // right
        case _:
            raise EvaluationError(f"{left} / {right} is not an integer", node)


def _call(function: str, arguments: list[int], node: Expression) -> int:
    if function == "min":
        return min(arguments)
    if function == "max":
        return max(arguments)
    if function == "ceildiv":
        if arguments[1] == 0:
            raise EvaluationError("the divisor is 0", node)
        return -(-arguments[0] // arguments[1])
    raise EvaluationError(f"{quote(function)} has no value before the kernel runs", node)


_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}

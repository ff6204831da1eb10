"""`name: "x * 2 + 1"`: an expression of values, which stands for plain ops, one for each of its operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, cast, get_args

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.base import Path, Position
from wavespec.schema.language.dim_names import is_expression
from wavespec.schema.language.dtypes import DTYPES, DType
from wavespec.schema.language.expression_parser import MalformedExpression
from wavespec.schema.language.expressions import LONGEST_EXPRESSION, Binary, Call, Compare, Expression, Name, Num, Unary
from wavespec.schema.language.formula_parser import parse_formula
from wavespec.schema.language.names import LONGEST_NAME, name_problem
from wavespec.schema.ops.base import Scope, ValueOp, ValueType
from wavespec.schema.ops.cast import Cast
from wavespec.schema.ops.elementwise import ELEMENTWISE, FUNCTIONS, Elementwise, NoValue
from wavespec.schema.ops.index import Index
from wavespec.schema.ops.random import Random
from wavespec.schema.ops.register import Register
from wavespec.schema.ops.size import SIZE_DTYPES, Size

Number = int | float
_WORDS: Mapping[str, str] = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "//": "floor_divide",
    "%": "remainder",
    "**": "pow",
    "&": "bitwise_and",
    "|": "bitwise_or",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "==": "eq",
    "!=": "ne",
}
_UNARY: Mapping[str, str] = {"-": "neg", "~": "bitwise_not"}
_FOLDED: Mapping[str, Callable[[Number, Number], Number]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
    "//": lambda left, right: left // right,
    "%": lambda left, right: left % right,
}
_MODELS: Mapping[str, type[ValueOp]] = {
    model.word: model for model in (*ELEMENTWISE, Index, Size, Random, Cast, Register)
}
_OF_FLOATS = {row.word for row in FUNCTIONS if row.dtypes in ("floats", "small floats")}
_TYPED: Mapping[str, DType | None] = {"index": "i32", "size": None, "random": "f32"}
"""Element types of what is made of dims; that of a size is the one of what is around it."""
_COMPUTED: DType = "f32"
"""What floating point is where nothing in an expression says: `sqrt(D)` of a dim."""
_IS_BOOL = {row.word for row in FUNCTIONS if row.result == "bool"}


class Formula(ValueOp):
    """An expression of values, numbers, parameters and sizes of dims: `name: "where(x > 0, x, x * 2)"`; or another
    name for a value, `name: loop.acc`."""

    word: ClassVar[str] = "formula"
    headline: ClassVar[tuple[str, ...]] = ("text",)

    op: Literal["formula"] = "formula"
    text: Annotated[str, Field(min_length=1, max_length=LONGEST_EXPRESSION)]
    """The expression."""

    def infer(self, scope: Scope) -> ValueType | None:
        result: ValueType | None = None
        try:
            ops = _Expansion(self, scope).ops()
        except WavespecError as error:
            scope.report(error)
            return None
        for op in ops:
            result = op.infer(scope)
            if op.name != self.name:
                scope.define(op.name, result)
        scope.expand(self, ops)
        return result


class _Expansion:
    def __init__(self, formula: Formula, scope: Scope) -> None:
        self.formula, self.scope = formula, scope
        self.span = formula.span_of("text")
        self.tree = parse_formula(formula.text, self.span)
        self.made: list[ValueOp] = []
        self.names: set[str] = set()

    def ops(self) -> tuple[ValueOp, ...]:
        """The last one has the name of the formula."""
        result = self._lower(self.tree, None)
        if isinstance(self.tree, Name) and isinstance(result, str) and not self.made:  # another name for a value
            fields = {"value": (result, self.tree), "dtype": (self.scope.dtype_of(result) or "f32", self.tree)}
            result = self._op(self.tree, "cast", fields)
        if not self.made or self.made[-1].name != result:
            message = f"{quote(self.formula.text)} computes nothing; an expression has an operator or a function."
            raise MalformedExpression(self._where(self.tree), message)
        last = self.made.pop()
        renamed = last.model_copy(update={"name": self.formula.name})
        key = self.formula.key_span_of("name")
        renamed.was_written_at({**last.positions, **({("name",): Position(key, key)} if key else {})})
        return (*self.made, renamed)

    def _lower(self, node: Expression, wanted: DType | None) -> str | Number:
        """A value by its name, or a number; ``wanted``: the element type that the place around asks for."""
        match node:
            case Num(value=value):
                return value
            case Name(name=name):
                if self.scope.is_dim(name):
                    return self._size(node, node, wanted)
                number = self.scope.param(name)
                return name if number is None else number
            case Unary(op=sign, operand=operand):
                value = self._lower(operand, wanted)
                if sign == "-" and not isinstance(value, str):
                    return -value
                return self._op(node, _UNARY[sign], {"operand": (value, operand)})
            case Binary(op=sign, left=left, right=right) | Compare(op=sign, left=left, right=right):
                kind = self._common((left, right)) or (wanted if isinstance(node, Binary) else None)
                kind = kind or (_COMPUTED if _WORDS[sign] in _OF_FLOATS else None)
                first, second = self._lower(left, kind), self._lower(right, kind)
                if not isinstance(first, str) and not isinstance(second, str) and sign in _FOLDED:
                    return self._folded(node, sign, first, second)
                return self._op(node, _WORDS[sign], {"lhs": (first, left), "rhs": (second, right)})
            case Call(function=function, arguments=arguments):
                return self._call(node, function, arguments, wanted)
            case _:
                raise AssertionError(f"an expression has no {node}")

    def _call(self, node: Expression, function: str, arguments: tuple[Expression, ...], wanted: DType | None) -> str:
        first = arguments[0]
        if function == "index":
            return self._op(node, "index", {"dim": (str(first), first)})
        if function == "size":
            return self._size(node, first, wanted)
        if function == "random":
            for dim in arguments[1:]:
                self._check_name(str(dim), dim)
            dims = tuple(str(dim) for dim in arguments[1:])
            return self._op(node, "random", {"seed": (self._lower(first, "i64"), first), "dims": (dims, node)})
        if function in DTYPES:
            return self._converted(node, first, cast("DType", function))
        fields = _MODELS[function].headline
        typed = arguments[1:] if function == "where" else arguments
        kind = self._common(typed) or wanted or (_COMPUTED if function in _OF_FLOATS else None)
        values = [self._lower(argument, kind) for argument in arguments]
        if function == "where" and kind and not isinstance(then := values[1], str) and not isinstance(values[2], str):
            values[1] = self._number(typed[0], typed[0], then, kind)
        return self._op(node, function, dict(zip(fields, zip(values, arguments, strict=True), strict=True)))

    def _size(self, node: Expression, dim: Expression, wanted: DType | None) -> str:
        """In the type of what is around it, where that can be the type of a size."""
        dtype = wanted if wanted in SIZE_DTYPES else "i32"
        return self._op(node, "size", {"dim": (str(dim), dim), "dtype": (dtype, dim)})

    def _converted(self, node: Expression, part: Expression, dtype: DType) -> str:
        value = self._lower(part, None if self._dtype(part) else dtype)
        if not isinstance(value, str):
            return self._number(node, part, value, dtype)
        is_made = bool(self.made) and self.made[-1].name == value
        if self._dtype(part) == dtype and (is_made or node is not self.tree):  # What is asked for is there.
            return value
        if (
            self.made
            and self.made[-1].name == value
            and isinstance(made := self.made[-1], Size)
            and made.dtype == dtype
        ):
            return value
        return self._op(node, "cast", {"value": (value, part), "dtype": (dtype, node)})

    def _number(self, node: Expression, part: Expression, value: Number, dtype: DType) -> str:
        return self._op(node, "register", {"shape": ((), part), "dtype": (dtype, part), "value": (value, part)})

    def _op(self, node: Expression, word: str, fields: Mapping[str, tuple[Any, Expression]]) -> str:
        numbers = [value for value, _ in fields.values() if not isinstance(value, str)]
        if issubclass(_MODELS[word], Elementwise) and len(numbers) == len(fields):
            raise NoValue(self._where(node), word)
        for field, (value, part) in fields.items():
            if field != "dtype":
                self._check_name(value, part)
            if isinstance(value, int | float):
                self._check_number(word, field, value, part)
        name = self._fresh(word)
        op = _MODELS[word].model_validate({"name": name, **{field: value for field, (value, _) in fields.items()}})
        span = self.span
        if span is not None:
            places: dict[Path, Position] = {(field,): Position(span.part(*n.at)) for field, (_, n) in fields.items()}
            whole = Position(span.part(*node.at))
            op.was_written_at({**places, (): whole, ("op",): whole, ("name",): whole})
        self.made.append(op)
        return name

    def _check_name(self, value: object, node: Expression) -> None:
        """What an expression calls a value may be no name at all, such as a Python keyword."""
        if isinstance(node, Name) and isinstance(value, str) and not is_expression(value.replace(".", "")):
            problem = next(filter(None, map(name_problem, value.split("."))), None)
            if problem:
                raise MalformedExpression(self._where(node), f"{quote(value)} {problem}.")

    def _check_number(self, word: str, field: str, value: Number, node: Expression) -> None:
        """Some operands of ops are values only, or whole numbers."""
        takes = get_args(_MODELS[word].model_fields[field].annotation)
        if type(value) not in takes:
            what = "an integer" if int in takes else "a value"
            message = f"The {field} of {quote(word)} is {what}; here it is the number {value}."
            raise MalformedExpression(self._where(node), message)

    def _fresh(self, word: str) -> str:
        base, number = f"{self.formula.name}_{word}"[: LONGEST_NAME - 4], 1
        name = base
        while self.scope.is_taken(name) or name in self.names:
            number += 1
            name = f"{base}_{number}"
        self.names.add(name)
        return name

    def _folded(self, node: Expression, sign: str, left: Number, right: Number) -> Number:
        try:
            return _FOLDED[sign](left, right)
        except ArithmeticError:
            raise NoValue(self._where(node), _WORDS[sign]) from None

    def _dtype(self, node: Expression) -> DType | None:
        """The element type of a part; `None` where it has none of its own, or an unknown one."""
        if isinstance(node, Name):
            return self.scope.dtype_of(node.name)
        if isinstance(node, Compare):
            return "bool"
        parts = node.children
        if isinstance(node, Call):
            if node.function in _TYPED:
                return _TYPED[node.function]
            if node.function in DTYPES:
                return cast("DType", node.function)
            if node.function in _IS_BOOL:
                return "bool"
            parts = parts[1:] if node.function == "where" else parts
        return self._common(parts)

    def _common(self, parts: Sequence[Expression]) -> DType | None:
        for part in parts:
            if found := self._dtype(part):
                return found
        return None

    def _where(self, node: Expression) -> Where:
        return self.span.part(*node.at) if self.span else self.formula.in_words("text")

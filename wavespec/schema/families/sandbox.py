"""jinja2's sandbox as templates of families have it: integers, few filters and tests, and nothing that grows large."""

from __future__ import annotations

from typing import Any

from jinja2 import StrictUndefined, Undefined
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from wavespec.diagnostics import quote
from wavespec.schema.language.expressions import INT64_MAX, INT64_MIN

FILTERS = ("abs", "first", "last", "length", "lower", "max", "min", "upper")
TESTS = ("divisibleby", "even", "in", "integer", "odd", "string")
_LONGEST_RANGE = 10_000


class NoValue(Exception):
    """An expression has no value; the text is the end of a sentence."""


class Environment(ImmutableSandboxedEnvironment):
    """jinja2's sandbox with integers for numbers, and nothing that makes large things of small ones."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))
    intercepted_unops = frozenset(("+", "-"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            undefined=StrictUndefined,
            finalize=_finalize,
            optimized=False,
            cache_size=0,
        )
        self.filters = {name: self.filters[name] for name in FILTERS}
        self.tests = {name: self.tests[name] for name in (*TESTS, "eq", "ne", "lt", "le", "gt", "ge")}
        self.globals = {"range": _range}

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> int:
        left, right = _integer(left), _integer(right)
        if operator == "**" and not 0 <= right <= 64:
            raise NoValue(f"{left} ** {right} is no integer of 63 bits")
        if operator in ("/", "//", "%") and right == 0:
            raise NoValue("there is a division by 0")
        if operator == "/" and left % right:
            raise NoValue(f"{left} / {right} is no integer; '//' rounds down")
        operator = "//" if operator == "/" else operator
        return _integer(self.binop_table[operator](left, right))

    def call_unop(self, context: Context, operator: str, arg: Any) -> int:
        return -_integer(arg) if operator == "-" else _integer(arg)


def _integer(value: Any) -> int:
    if isinstance(value, Undefined):
        str(value)  # says that it is undefined
    if not isinstance(value, int) or isinstance(value, bool):
        raise NoValue(f"{_shown(value)} is no integer")
    if not INT64_MIN <= value <= INT64_MAX:
        raise NoValue("a number needs more than 63 bits")
    return value


def _range(*limits: int) -> range:
    """The `range` of templates."""
    numbers = [_integer(limit) for limit in limits]
    if not 1 <= len(numbers) <= 3 or (len(numbers) == 3 and numbers[2] == 0):
        raise NoValue("'range' takes an end, or a start, an end and a step other than 0")
    made = range(*numbers)
    if len(made) > _LONGEST_RANGE:
        raise NoValue(f"a range has at most {_LONGEST_RANGE} numbers")
    return made


def _finalize(value: Any) -> str:
    """The text of a value that is written into the kernel."""
    if isinstance(value, Undefined):
        return str(value)  # says that it is undefined
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.isprintable():
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        return str(_integer(value))
    raise NoValue(f"{_shown(value)} cannot be written into a kernel")


def _shown(value: object) -> str:
    return quote(value) if isinstance(value, str) else "what is neither text nor a number"


ENVIRONMENT = Environment()

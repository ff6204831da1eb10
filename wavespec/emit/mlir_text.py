"""A writer of MLIR text: unique value names, one set of constants per function, nested blocks, source locations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from wavespec.diagnostics import Span
from wavespec.ir.dtype import DTYPES

_UNKNOWN = "loc(unknown)"


class TooLong(Exception):
    """A text has more lines than it may; ``lines``: so far."""

    def __init__(self, lines: int) -> None:
        super().__init__(f"{lines} lines so far")
        self.lines = lines


class MlirText:
    """Collects the lines of one function.

    Blocks are open lists of lines, or of texts of closed blocks: while an inner block is being written, a line can still
    be added to a block around it, and lands before the operation that owns the inner block.  That is how index
    arithmetic finds its place outside of loops.
    """

    def __init__(self, most_lines: int = 0) -> None:
        """``most_lines``: that name something, each of which is a line; 0 for any number.  Beyond them `op` raises
        `TooLong`, before the rest is written for nothing."""
        self.most_lines = most_lines or math.inf
        self.blocks: list[list[str]] = [[]]
        self.head: list[str] = []
        self.locations: dict[tuple[str, int, int], str] = {}
        self._span: Span | None = None
        self._location = _UNKNOWN
        self._constants: dict[tuple[str, str], str] = {}
        self._integers: dict[tuple[int, str], str] = {}
        self._count = 0

    @property
    def span(self) -> Span | None:
        """Where the current operation was written in the spec; set before its lines are."""
        return self._span

    @span.setter
    def span(self, span: Span | None) -> None:
        if span is not self._span:
            self._span, self._location = span, ""

    @property
    def depth(self) -> int:
        """Number of the innermost open block; the function body is 0."""
        return len(self.blocks) - 1

    def name(self) -> str:
        """A new value name."""
        self._count += 1
        return f"%{self._count}"

    def op(self, text: str, depth: int | None = None) -> str:
        """Append an operation with one result; returns its name."""
        self._count += 1
        if self._count > self.most_lines:
            raise TooLong(self._count)
        name = f"%{self._count}"
        self.blocks[-1 if depth is None else depth].append(f"{name} = {text} {self._location or self.location()}")
        return name

    def address(self, memref: str, type_: str, integer: str = "i64", depth: int | None = None) -> str:
        """Where a ``memref`` begins, as a number."""
        index = self.op(f"memref.extract_aligned_pointer_as_index {memref} : {type_} -> index", depth)
        return self.op(f"arith.index_cast {index} : index to {integer}", depth)

    def do(self, text: str, depth: int | None = None) -> None:
        """Append an operation without a result that anybody needs."""
        self.blocks[-1 if depth is None else depth].append(f"{text} {self._location or self.location()}")

    def either(
        self,
        condition: str,
        then: Callable[[], Sequence[str]],
        otherwise: Callable[[], Sequence[str]] | None = None,
        types: Sequence[str] = (),
    ) -> str:
        """``scf.if``; the two forms return the names of their results, ``NAME#0`` and on, of the given types."""
        forms: list[list[str]] = []
        for form in (then, otherwise) if otherwise else (then,):
            self.open()
            names = form()
            if types:
                self.do(f"scf.yield {', '.join(names)} : {', '.join(types)}")
            forms.append(self.close())
        result = self.name()
        self.branch(condition, *forms, head=f"{result}:{len(types)} = " if types else "", types=types)
        return result

    def branch(
        self,
        condition: str,
        then: Sequence[str],
        otherwise: Sequence[str] | None = None,
        *,
        head: str = "",
        types: Sequence[str] = (),
    ) -> None:
        """``scf.if`` of lines that are written; ``head``: what names its results, of the given types."""
        results = f" -> ({', '.join(types)})" if types else ""
        self.blocks[-1] += [f"{head}scf.if {condition}{results} {{", *then]
        if otherwise is not None:
            self.blocks[-1] += ["} else {", *otherwise]
        self.do("}")

    def location(self) -> str:
        """`span` as lines end with it."""
        if not self._location:
            self._location = _UNKNOWN if self._span is None else f"loc({self._alias(self._span)})"
        return self._location

    def _alias(self, span: Span) -> str:
        return self.locations.setdefault((span.file, span.line, span.column), f"#spec{len(self.locations)}")

    def location_lines(self) -> list[str]:
        """Definitions of the locations used, for the top level of the module."""
        return [
            f'{alias} = loc("{_escaped(file)}":{line}:{column})'
            for (file, line, column), alias in self.locations.items()
        ]

    def constant(self, value: int | float, type_: str) -> str:
        """A constant; ``type_`` may be a vector, which is filled."""
        if type(value) is not int:  # -0.0 == 0.0, True == 1
            return self._constant(value, type_)
        known = self._integers.get((value, type_))
        if known is None:
            known = self._integers[value, type_] = self._constant(value, type_)
        return known

    def numbers(self, values: Sequence[int], type_: str) -> str:
        """A constant vector of integers."""
        return self._literal(f"dense<[{', '.join(map(str, values))}]>", type_)

    def _constant(self, value: int | float, type_: str) -> str:
        scalar = type_.rpartition("x")[2].rstrip(">") if type_.startswith("vector") else type_
        number = _float_text(float(value), scalar) if scalar[0] in "fb" else str(int(value))
        if type_.endswith("xi1>"):
            number = "true" if value else "false"
        return self._literal(f"dense<{number}>" if type_.startswith("vector") else number, type_)

    def _literal(self, literal: str, type_: str) -> str:
        key = (literal, type_)
        if key not in self._constants:
            self._constants[key] = f"%c{len(self._constants)}"
            self.head.append(f"{self._constants[key]} = arith.constant {literal} : {type_}")
        return self._constants[key]

    def open(self) -> None:
        self.blocks.append([])

    def close(self) -> list[str]:
        """What the innermost block has, as one text: lines inside several blocks are moved by the pattern of a text,
        not each by itself."""
        lines = self.blocks.pop()
        return [indented("\n".join(lines), 2)] if lines else []

    def lines(self) -> list[str]:
        """The body of the function."""
        assert self.depth == 0, "a block was left open"
        return self.head + self.blocks[0]


def indented(text: str, spaces: int) -> str:
    """Every line behind so many spaces; no line of MLIR is empty."""
    margin = " " * spaces
    return margin + text.replace("\n", "\n" + margin)


def _float_text(value: float, type_: str) -> str:
    if not math.isfinite(value):  # MLIR has no other spelling than their bits
        dtype = DTYPES[type_]
        infinity = (1 << (dtype.bits - 1)) - (1 << dtype.mantissa)
        quiet, minus = 1 << (dtype.mantissa - 1), 1 << (dtype.bits - 1)
        number = infinity | quiet if math.isnan(value) else infinity if value > 0 else infinity | minus
        return f"0x{number:0{dtype.bits // 4}X}"
    digits, mark, exponent = repr(value).partition("e")
    return (digits if "." in digits else digits + ".0") + mark + exponent


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')

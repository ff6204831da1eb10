"""`scan` and `reduce`: elements of several values along a dim are joined by statements of the spec."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, enumeration, quote
from wavespec.schema.language.dim_names import DimName
from wavespec.schema.language.dtypes import fits, is_computed
from wavespec.schema.language.errors import NumberOutOfRange
from wavespec.schema.language.expressions import Call
from wavespec.schema.language.formula_parser import parse_formula
from wavespec.schema.language.names import Name, Reference
from wavespec.schema.ops.base import Op, Scope, ValueType
from wavespec.schema.ops.cast import Cast
from wavespec.schema.ops.elementwise import Elementwise
from wavespec.schema.ops.formula import Formula
from wavespec.schema.ops.iterate import CarryNotRedefined
from wavespec.schema.ops.mma import DimsMismatch, DtypeMismatch
from wavespec.schema.ops.register import Register
from wavespec.schema.ops.restarts import NotWalkedBackwards, RestartsEachStep
from wavespec.schema.ops.structured import Structured

if TYPE_CHECKING:
    from wavespec.schema.ops import AnyOp


_OF_PLACES = ("index", "size", "random")


class NotACombine(WavespecError, code="not-a-combine"):
    def __init__(self, where: Where, message: str, hint: str) -> None:
        super().__init__(where, message, hints=[hint])


class Joined(Structured):
    """Joins elements along a dim by the statements of `combine`, in which a carried name means what is joined so far,
    and the name of its value the element that comes next, or several of them, joined."""

    headline: ClassVar[tuple[str, ...]] = ("dim",)
    what: ClassVar[str] = "combine"
    bodies: ClassVar[tuple[str, ...]] = ("combine",)

    dim: DimName
    """The dim along which elements follow each other."""
    carry: Annotated[dict[Name, Reference], Field(min_length=1, max_length=16)]  # pyright: ignore[reportGeneralTypeIssues] - what joins nothing does nothing
    """Name inside of `combine` of what is joined so far: the value whose elements are joined."""
    identity: Annotated[dict[Name, int | float], Field(max_length=16)]
    """Of each carried name the number that joins with any other without changing it."""
    combine: Annotated[tuple[AnyOp, ...], Field(min_length=1, max_length=200)]
    """Elementwise statements that give every carried name what it is with the next element. They are associative: runs
    of elements may be joined before they are joined to what comes before them."""
    init: Annotated[dict[Name, Reference], Field(max_length=16)] = Field(default_factory=dict)
    """Of each carried name what comes before the first element, of the other dims; absent: nothing."""

    def infer(self, scope: Scope) -> ValueType | None:
        dim = scope.dim(self, "dim")
        first = {name: scope.value(self, "carry", name) for name in self.carry}
        starts = {name: scope.value(self, "init", name) for name in self.init}
        self._check_names(scope)
        alike = all([self._check_value(scope, name, value, first) for name, value in first.items()])
        defined = self.inside(scope, dict(first), self.combine)
        for name in self.carry:
            if name not in defined:
                scope.report(CarryNotRedefined(self.where_key("carry", name), name))
        self._check_body(scope)
        for name, value in first.items():
            joined = None
            if value is not None and dim is not None and alike:
                joined = ValueType(tuple(other for other in value.dims if other != dim), value.dtype)
            start = starts.get(name)
            if joined and start and (set(start.dims), start.dtype) != (set(joined.dims), joined.dtype):
                message = f"It starts from a {joined}; {quote(self.init[name])} is {start}."
                scope.report(DimsMismatch(self.where("init", name), message, about=[self.init[name]]))
            self._define(scope, name, value, joined)
        return None

    def _define(self, scope: Scope, name: str, value: ValueType | None, joined: ValueType | None) -> None:
        """Record the results of a carried name."""
        raise NotImplementedError

    def _check_names(self, scope: Scope) -> None:
        """Every carried name has an identity, of the numbers of its type, and is joined to a value of its own."""
        for field in ("identity", "init"):
            given: dict[str, Any] = getattr(self, field)
            for name in given:
                if name not in self.carry:
                    message = f"{quote(name)} is not carried."
                    scope.report(NotACombine(self.where_key(field, name), message, f"Carried are {self._names}."))
            missing = [name for name in self.carry if name not in given]
            if missing and (given or field == "identity"):
                message = f"{quote(field)} says nothing about {enumeration(map(quote, missing))}."
                scope.report(NotACombine(self.where("op"), message, f"It has a line for each of {self._names}."))
        seen = {*self.carry}
        for name, value in self.carry.items():
            if value in seen:
                message = f"In 'combine' {quote(value)} would be two things; a name there is of one of them."
                hint = f"Give one of them another name: '- {name}_next: {value}'."
                scope.report(NotACombine(self.where("carry", name), message, hint))
            seen.add(value)

    @property
    def _names(self) -> str:
        return enumeration(map(quote, self.carry))

    def _check_value(
        self, scope: Scope, name: str, value: ValueType | None, first: dict[str, ValueType | None]
    ) -> bool:
        """Whether the value can be joined with the others."""
        if value is None:
            return False
        written = quote(self.carry[name])
        where = self.where("carry", name)
        if not is_computed(value.dtype) or value.dtype == "bool":
            message = f"{quote(self.word)} takes integers, and floating point of at least 16 bits; "
            message += f"{written} is {value.dtype}."
            scope.report(DtypeMismatch(where, message, about=[self.carry[name]]))
            return False
        number = self.identity.get(name)
        if number is not None and not fits(number, value.dtype):
            place = self.where("identity", name)
            scope.report(NumberOutOfRange(place, str(number), f"the numbers of {value.dtype}"))
        other = next(one for one in first.values() if one is not None)
        if value.dims != other.dims:
            message = (
                f"{written} has the dims [{', '.join(value.dims)}]; the first value has [{', '.join(other.dims)}]."
            )
            scope.report(DimsMismatch(where, message, about=[self.carry[name]]))
            return False
        if self.dim not in value.dims:
            message = f"{written} has the dims [{', '.join(value.dims)}], not {quote(self.dim)}."
            scope.report(DimsMismatch(self.where("dim"), message, about=[self.carry[name]]))
            return False
        return True

    def _check_body(self, scope: Scope) -> None:
        """It is made of elementwise statements, of what is joined and nothing else."""
        known = {*self.carry, *self.carry.values()}
        self._check_elements(scope)
        for op in self.combine:
            if not isinstance(op, Elementwise | Cast | Formula) and not (isinstance(op, Register) and not op.shape):
                message = f"{quote(op.word)} is more than a step of one element."
                hint = "'combine' has elementwise ops, casts, and registers without dims."
                scope.report(NotACombine(op.where("op"), message, hint))
            elif isinstance(op, Cast) and not is_computed(op.dtype):
                message = f"'combine' computes nothing in {op.dtype}."
                scope.report(NotACombine(op.where("dtype"), message, "Cast what was joined."))
            for field, name in _operands(op):
                if name in _OF_PLACES or scope.is_dim(name):
                    message = f"Elements are joined whatever their places and their number: {quote(name)} is of them."
                    scope.report(NotACombine(op.where(field), message, "Join it as well, as a value of its own."))
                elif name not in known and scope.is_value(name):
                    message = f"{quote(name)} is neither joined here nor made in 'combine'."
                    names = enumeration(map(quote, sorted(known)))
                    hint = f"Join it as well: carry it under a name of its own. Known are {names}."
                    scope.report(NotACombine(op.where(field), message, hint))
            known.add(getattr(op, "name", ""))

    def _check_elements(self, scope: Scope) -> None:
        """The next element of every value matters: the identity joined with it would not be it otherwise."""
        named = [{name for _, name in _operands(op)} for op in self.combine if not isinstance(op, Register)]
        used = {name for names in named for name in names}
        if not all(named) or not used.isdisjoint(_OF_PLACES):  # a formula that is no expression, or is refused
            return
        for name, value in self.carry.items():
            if value not in used:
                message = f"'combine' does nothing with {quote(value)}, so {quote(name)} is not joined to its elements."
                hint = f"Use {quote(value)}, which of a run of elements is what these are joined to."
                scope.report(NotACombine(self.where("carry", name), message, hint))


class ScanBy(Joined):
    """Joins each element along a dim with all before it, by statements of the spec; `scan.name` is what a carried name
    is at each element. Inside `iterate` over the dim `last` and `init` carry from step to step."""

    word: ClassVar[str] = "scan"

    op: Literal["scan"] = "scan"
    reverse: bool = False
    """Whether the last element comes first: each is joined with all behind it."""
    last: Annotated[dict[Name, Name], Field(max_length=16)] = Field(default_factory=dict)
    """Of carried names what they are after all elements: `last: {h: h_end}` makes `scan.h_end`."""

    def infer(self, scope: Scope) -> ValueType | None:
        super().infer(scope)
        for name, end in self.last.items():
            if name not in self.carry or end in self.carry:
                message = f"{quote(name)} is not carried." if name not in self.carry else f"{quote(end)} is carried."
                hint = "'last' has a carried name, and another name for what that is after all elements."
                scope.report(NotACombine(self.where_key("last", name), message, hint))
        if not scope.is_dim(self.dim) or not scope.is_walked(self.dim):
            return None
        if self.reverse:
            scope.report(NotWalkedBackwards(self.where("reverse"), self.dim))
        elif not self.init:
            hint = "Write 'init', and carry what 'last' makes to the next step."
            scope.report(RestartsEachStep(self.where_key("name"), self.word, self.dim, hint))
        return None

    def _define(self, scope: Scope, name: str, value: ValueType | None, joined: ValueType | None) -> None:
        scope.define(f"{self.name}.{name}", value)
        if name in self.last:
            scope.define(f"{self.name}.{self.last[name]}", joined)


class ReduceBy(Joined):
    """Joins all elements along a dim by statements of the spec; `reduce.name` is what a carried name is after all of
    them. Inside `iterate` over the dim `init` is what the steps before have made."""

    word: ClassVar[str] = "reduce"

    op: Literal["reduce"] = "reduce"

    def _define(self, scope: Scope, name: str, value: ValueType | None, joined: ValueType | None) -> None:
        scope.define(f"{self.name}.{name}", joined)


def _operands(op: Op) -> Iterator[tuple[str, str]]:
    """The values that a statement of one element names, and in which field."""
    if isinstance(op, Formula):
        try:
            tree = parse_formula(op.text, op.span_of("text"))
        except WavespecError:  # reported where it is inferred
            return
        called = {node.function for node in tree.walk() if isinstance(node, Call)}.intersection(_OF_PLACES)
        yield from (("text", name) for name in (*sorted(called), *(() if called else tree.names())))
    elif isinstance(op, Cast):
        yield "value", op.value
    elif isinstance(op, Elementwise):
        yield from ((field, one) for field in op.headline if isinstance(one := getattr(op, field), str))

"""What an operation is: its operands, results, attributes and traits, said once for verifier, passes and docs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, Literal, cast

from wavespec.ir.expr import Expr
from wavespec.ir.layout import Layout

Level = Literal["tile", "thread"]


class Trait(Enum):
    """What a pass may ask of an operation without knowing which one it is; the value is what it promises."""

    PURE = "makes values of values and does nothing else"
    ALIKE = "operands and results are distributed over lanes in the same way"
    ACROSS = "joins elements along its `dim`, all of which a workgroup has to have"
    READS_MEMORY = "reads the memory that it names"
    WRITES_MEMORY = "changes the memory that it names, from registers"
    FILLS = "writes shared memory with what a tensor holds, or may be the second half of that"
    MOVES = "puts elements elsewhere in registers, with their values as they are but for their type"
    NAMES_A_SYMBOL = "says what a symbol stands for from here on"
    BY_ALL_LANES = "is done by all lanes of a wave together"


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _all(each: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, tuple) and all(map(each, cast("tuple[object, ...]", value)))


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(cast("tuple[object, ...]", value)) == 2


class Kind(Enum):
    """Of what sort the value of an attribute is."""

    INTEGER = "a number"
    NUMBER = "a number, whole or not"
    FLAG = "true or false"
    TEXT = "a text"
    MEMORY = "a memory"
    SYMBOL = "a symbol"
    EXPRESSION = "an index expression"
    EXTENT = "an index expression, or None"
    MASK = "pairs of expressions, the first below the second"
    PLACES = "an expression for each of some dims"
    EXPRESSIONS = "expressions"
    NAMES = "names"
    NUMBERS = "numbers"
    LAYOUT = "a layout"
    TABLE = "a table"


_HOLDS: Final[Mapping[Kind, Callable[[Any], bool]]] = {
    Kind.INTEGER: _is_integer,
    Kind.NUMBER: lambda value: isinstance(value, (int, float)),
    Kind.FLAG: lambda value: isinstance(value, bool),
    **dict.fromkeys((Kind.TEXT, Kind.MEMORY, Kind.SYMBOL), lambda value: isinstance(value, str)),
    Kind.EXPRESSION: lambda value: isinstance(value, Expr),
    Kind.EXTENT: lambda value: value is None or isinstance(value, Expr),
    Kind.MASK: _all(lambda pair: _is_pair(pair) and all(isinstance(side, Expr) for side in pair)),
    Kind.PLACES: _all(lambda pair: _is_pair(pair) and isinstance(pair[0], str) and isinstance(pair[1], Expr)),
    Kind.EXPRESSIONS: _all(lambda item: isinstance(item, Expr)),
    Kind.NAMES: _all(lambda item: isinstance(item, str)),
    Kind.NUMBERS: _all(_is_integer),
    Kind.LAYOUT: lambda value: isinstance(value, Layout),
    Kind.TABLE: lambda value: isinstance(value, tuple),
}


_EXACT: Final[Mapping[Kind, type]] = {
    Kind.INTEGER: int,
    Kind.FLAG: bool,
    **dict.fromkeys((Kind.TEXT, Kind.MEMORY, Kind.SYMBOL), str),
    **dict.fromkeys((Kind.EXPRESSION, Kind.EXTENT), Expr),
    Kind.LAYOUT: Layout,
}
"""Types whose values are of a sort, which most are found by, without a call."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """``absent``: what it means that an operation lacks the attribute; none where each has it.

    ``set_by``: the pass that gives operations the attribute, where they do not have it from the start.
    """

    kind: Kind
    absent: str | None = None
    set_by: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Some operations: what `Op.is_` is asked, as in ``op.is_(LOAD, STORE)`` or ``op.is_(PURE | LOAD)``."""

    names: frozenset[str]

    def __or__(self, other: Group) -> Group:
        return Group(self.names | other.names)


@dataclass(frozen=True, slots=True, eq=False)
class Declaration(Group):
    """One operation of one level: a group of its own.

    ``signature``: operands and results as the docs have them; ``operands`` and ``results``: the fewest and the most
    there are, None for any number.
    """

    name: str
    level: Level
    signature: str
    doc: str
    operands: tuple[int, int | None]
    results: tuple[int, int | None]
    attributes: Mapping[str, Attribute]
    traits: frozenset[Trait]
    has_region: bool
    needed: frozenset[str]
    """The attributes that every one of it has."""
    holds: Mapping[str, Callable[[Any], bool]]
    """By attribute: whether a value is of its sort."""
    exact: Mapping[str, type]
    """By attribute: a type whose values are."""
    naming: frozenset[str]
    """The attributes that name a memory or a symbol."""

    def set_by(self, name: str) -> frozenset[str]:
        """The attributes that the pass of this name gives it."""
        return frozenset(key for key, one in self.attributes.items() if one.set_by == name)


Count = int | tuple[int, int | None]
ANY: Final[Count] = (0, None)


class Declarations:
    """The operations of a level, by name."""

    def __init__(self, level: Level) -> None:
        self.level: Level = level
        self._by_name: dict[str, Declaration] = {}

    def declare(
        self,
        name: str,
        signature: str,
        doc: str,
        *traits: Trait,
        operands: Count = 0,
        results: Count = 0,
        region: bool = False,
        attributes: Mapping[str, Kind | Attribute] = MappingProxyType({}),
    ) -> Declaration:
        """Add an operation; attributes that are just a kind are there in every one of it."""
        whole = {key: Attribute(one) if isinstance(one, Kind) else one for key, one in attributes.items()}
        declared = self._by_name[name] = Declaration(
            frozenset((name,)),
            name,
            self.level,
            signature,
            doc,
            (operands, operands) if isinstance(operands, int) else operands,
            (results, results) if isinstance(results, int) else results,
            whole,
            frozenset(traits),
            region,
            frozenset(key for key, one in whole.items() if one.absent is None),
            {key: _HOLDS[one.kind] for key, one in whole.items()},
            {key: _EXACT[one.kind] for key, one in whole.items() if one.kind in _EXACT},
            frozenset(key for key, one in whole.items() if one.kind in (Kind.MEMORY, Kind.SYMBOL)),
        )
        return declared

    def get(self, name: str) -> Declaration | None:
        return self._by_name.get(name)

    def __getitem__(self, name: str) -> Declaration:
        return self._by_name[name]

    def all(self) -> Iterable[Declaration]:
        return self._by_name.values()

    def having(self, *traits: Trait) -> Group:
        """The operations with one of these traits."""
        return Group(frozenset(one.name for one in self.all() if one.traits.intersection(traits)))

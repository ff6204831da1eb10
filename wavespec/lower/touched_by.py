"""An operation goes in; what it and those inside it use and touch comes out, as `SerializeWaves` asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from wavespec.ir.kernel import Op
from wavespec.ir.thread_ops import BIND, READS_MEMORY, STORE, WRITES_MEMORY

_NONE: Final = frozenset[str]()


class Inside(NamedTuple):
    """What an operation and those inside it use and touch: names of values and symbols that they take, memories that
    they load from and store to; ``made``: the names of what it defines itself, values and the symbol of a value;
    ``places``: by memory, the symbols in the offsets of stores."""

    uses: frozenset[str]
    loaded: frozenset[str]
    stored: frozenset[str]
    made: tuple[str, ...]
    places: Mapping[str, frozenset[str]]


def inside_of(op: Op, inner: Sequence[Inside]) -> Inside:
    """Of an operation, given that of those in its region."""
    memory = frozenset((op["memory"],)) if op.is_(READS_MEMORY, WRITES_MEMORY) else _NONE
    return Inside(
        op.symbols.union([value.name for value in op.operands], *[one.uses for one in inner]),
        (memory if op.is_(READS_MEMORY) else _NONE).union(*[one.loaded for one in inner]),
        (memory if op.is_(WRITES_MEMORY) else _NONE).union(*[one.stored for one in inner]),
        (*[value.name for value in op.results], *([op["symbol"]] if op.is_(BIND) else ())),
        {op["memory"]: op["offset"].symbols} if op.is_(STORE) else _joined([one.places for one in inner]),
    )


def _joined(places: Iterable[Mapping[str, frozenset[str]]]) -> Mapping[str, frozenset[str]]:
    joined: dict[str, frozenset[str]] = {}
    for memory, symbols in (pair for one in places for pair in one.items()):
        joined[memory] = joined.get(memory, _NONE) | symbols
    return joined


@dataclass(slots=True)
class Noted:
    """What is known of an operation: its depth and, of a loop, whether it mixes levels; each with after how many
    changes of depths that was found without another one."""

    op: Op  # kept, as it is looked up by its identity
    inside: Inside
    depth: int = 0
    changes: int = -1
    mixes: bool = False
    mixes_changes: int = -1


@dataclass(slots=True)
class Run:
    """Operations in program order, with what they make and touch noted once: a kernel may have thousands in a row."""

    ops: list[Op] = field(default_factory=list[Op])
    made: set[str] = field(default_factory=set[str])
    loaded: set[str] = field(default_factory=set[str])
    stored: set[str] = field(default_factory=set[str])

    def append(self, op: Op, inside: Inside) -> None:
        self.ops.append(op)
        self.made.update(inside.made)
        self.loaded |= inside.loaded
        self.stored |= inside.stored

    def may_follow(self, inside: Inside) -> bool:
        """Whether what is like that inside, and comes after them in the program, may run before them."""
        return (
            self.made.isdisjoint(inside.uses)
            and self.loaded.isdisjoint(inside.stored)
            and self.stored.isdisjoint(inside.stored | inside.loaded)
        )

"""A class of fields goes in; a node comes out: frozen for type checkers, and made as fast as Python makes objects."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Final, TypeVar, dataclass_transform

C = TypeVar("C")
_FIELDS: Final = "_fields"


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def node(described: type[C]) -> type[C]:
    """A dataclass with slots whose fields nobody sets again.

    Type checkers see to that.  ``frozen=True`` would have Python do so as well, and set each field of a new node by a
    call: lowering makes nodes, and took a twentieth longer.
    """
    made: Any = dataclass(slots=True, unsafe_hash=True)(described)
    names = [field.name for field in fields(made) if field.init]
    setattr(made, _FIELDS, (attrgetter(*names), {name: place for place, name in enumerate(names)}))
    return made


def replace(of: C, /, **changes: Any) -> C:
    """`dataclasses.replace` of a node, in less than half of the time: passes change operations more than they make any.

    Raises:
        KeyError: it has no such field.
    """
    values_of, places = getattr(of, _FIELDS)
    values = [*values_of(of)]
    for name, value in changes.items():
        values[places[name]] = value
    return type(of)(*values)

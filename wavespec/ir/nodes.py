"""A class of fields goes in; a node comes out: frozen for type checkers, and made as fast as Python makes objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

C = TypeVar("C")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def node(described: type[C]) -> type[C]:
    """A dataclass with slots whose fields nobody sets again.

    Type checkers see to that.  ``frozen=True`` would have Python do so as well, and set each field of a new node by a
    call: lowering makes nodes, and took a twentieth longer.
    """
    return dataclass(slots=True, unsafe_hash=True)(described)

"""`debug`: nothing, until a spec is made that writes the value (`wavespec.schema.debug`)."""

from __future__ import annotations

from wavespec.ops.contexts import ReferenceContext, TileContext
from wavespec.schema.ops import Debug


def to_tile(statement: Debug, context: TileContext) -> None:
    del statement, context


def reference(statement: Debug, context: ReferenceContext) -> None:
    del statement, context

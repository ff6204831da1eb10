"""`assert`: nothing, until a spec is made that writes where it fails (`wavespec.schema.assertions`)."""

from __future__ import annotations

from wavespec.ops.contexts import ReferenceContext, TileContext
from wavespec.schema.ops import Assert


def to_tile(statement: Assert, context: TileContext) -> None:
    del statement, context


def reference(statement: Assert, context: ReferenceContext) -> None:
    del statement, context

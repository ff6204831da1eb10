"""The dims of an input, and those under which a schedule lays it out anew, go in; which of these are one of its own,
filled up to a multiple, comes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wavespec.schema.language.expressions import Binary, Call, Expression, Name, Num
from wavespec.schema.language.index_parser import parse_index
from wavespec.schema.language.models import Dim
from wavespec.schema.ops import Read


def filled_dims(dims: Mapping[str, Dim], own: Sequence[str], asked: Sequence[str]) -> dict[str, str]:
    """For each of ``asked`` that is not among ``own`` and that `equals: ceildiv(C, 8) * 8`, or the factors the other
    way round, makes of one of them: that one, behind whose last element there are zeros."""
    sources = {name: _filled_up(dims[name].equals) for name in asked if name not in own and name in dims}
    return {
        name: source for name, source in sources.items() if source is not None and source in own and source not in asked
    }


def with_filled(own: Sequence[str], filled: Mapping[str, str]) -> tuple[str, ...]:
    """The dims ``own`` with those that fill one of them up in its place."""
    names = {source: name for name, source in filled.items()}
    return tuple(names.get(dim, dim) for dim in own)


def _filled_up(size: Expression | None) -> str | None:
    match size:
        case (
            Binary(op="*", left=Call() as rounded, right=Num(value=times))
            | Binary(op="*", left=Num(value=times), right=Call() as rounded)
        ):
            pass
        case _:
            return None
    match rounded:
        case Call(function="ceildiv", arguments=(Name(name=name), Num(value=count))) if count == times >= 1:
            return name
        case _:
            return None


def read_filled(op: Read, own: Sequence[str], filled: Mapping[str, str]) -> dict[str, Any]:
    """What changes of the read of a tensor of dims ``own`` where some are ``filled``."""
    names = {source: name for name, source in filled.items()}
    at = {names.get(dim, dim): place for dim, place in op.at.items()}
    at |= {name: parse_index(source) for source, name in names.items() if source not in op.at}
    return {"dims": op.dims or tuple(own), "at": at}

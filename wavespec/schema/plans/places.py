"""Reads of a graph go in; which of them are at places that values say, and what shares these places, come out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from wavespec.schema.language.expressions import Binary, Call, Expression, Name
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import Read, ValueType


def are_looked_up(reads: Iterable[Read], types: Mapping[str, ValueType]) -> bool:
    """Whether some are at places that values say, which each step reads beside."""
    return any(name in types for one in reads for place in one.at.values() for name in place.names())


def sharing_places(
    spec: KernelSpec, reads: Iterable[Read], types: Mapping[str, ValueType], results: Sequence[str], columns: str
) -> str:
    """Of ``results`` the innermost dim whose elements are read at the same places along rows of a tensor, each of which
    is a value of its own for each of the ``columns``; none where there is no such."""
    for read in reads:
        last = spec.tensors[read.tensor].shape[-1:]
        places = [name for dim in last if dim in read.at for name in read.at[dim].names() if name in types]
        told = {dim for name in places for dim in types[name].dims}
        if columns in told:
            shared = (dim for dim in reversed(results) if dim in types[read.name].dims and dim not in told)
            if found := next(shared, ""):
                return found
    return ""


def divisors(reads: Iterable[Read], sides: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """By the name of a side: dims whose sizes take places along it apart, ``Q`` of ``N // size(Q)`` and
    ``(N + 3) % size(Q)``; none where anything else does."""
    places = [one for read in reads for place in read.at.values() for one in place.walk()]
    divided = [one for one in places if isinstance(one, Binary) and one.op in ("//", "%")]
    return {side: _sizes(one.right for one in divided if dim in indices_in(one.left)) for side, dim in sides.items()}


def _sizes(asked: Iterable[Expression]) -> tuple[str, ...]:
    """The dims whose sizes are asked for; none where something else is asked for, too."""
    found = dict[str, None]()
    for one in asked:
        match one:
            case Call("size", (Name(dim),)):
                found[dim] = None
            case _:
                return ()
    return (*found,)


def staged_as(read: Read) -> tuple[str, str]:
    """What reads of the same elements have in common: where a dim has another name alone, one tile has all of them."""
    return read.tensor, str({dim: place for dim, place in read.at.items() if not isinstance(place, Name)} or "")


def indices_in(place: Expression) -> Iterator[str]:
    """Names in a place but for those whose sizes it asks for."""
    if isinstance(place, Name):
        yield place.name
    for child in place.children if not isinstance(place, Call) or place.function != "size" else ():
        yield from indices_in(child)

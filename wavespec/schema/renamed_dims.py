"""A read goes in; the dims of its value along those of the tensor come out, where each of these is a whole dim."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.schema.language.expressions import Name
from wavespec.schema.ops import Read


def dims_along(read: Read, shape: Sequence[str]) -> tuple[str, ...] | None:
    """The dims of the value, one along each dim of the tensor, such as ``I`` along ``D`` of ``at: {D: I}``.

    None where the place along a dim is another expression, or two dims have one place.
    """
    places = [read.at.get(dim, Name(name=dim)) for dim in shape]
    found = tuple(place.name for place in places if isinstance(place, Name))
    own = {*(read.dims or shape)}
    return found if len(found) == len(shape) == len({*found}) and {*found} == own else None

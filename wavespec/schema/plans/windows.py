"""The ops of a graph go in; the dims of windows that move over what is read, and those that they move along, come out.

A window is a loop over few neighbours of the place that a result has: ``at: {W: X * 2 + S}`` for results along X.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wavespec.ir.dtype import DTYPES
from wavespec.schema.language.expressions import Binary, Expression, Name
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import Iterate, Op, Read, Written, every
from wavespec.targets.names import WIDEST_BITS


@dataclass(frozen=True, slots=True)
class Windows:
    """Dims of loops, and dims of results along which these look at neighbours."""

    dims: tuple[str, ...]
    moved: frozenset[str]


def windows_of(
    spec: KernelSpec, ops: Sequence[Op], loops: Collection[str], results: Collection[str], constants: Mapping[str, int]
) -> Windows | None:
    """None where some loop is over something else, takes a part of its dim or writes, and where neighbours of results
    are further apart in memory than a widest access is wide: a loop goes along rows there.
    """
    for loop in every(Iterate, ops):
        bounds = (loop.start, loop.end, loop.step, loop.until)
        if any(one is not None for one in bounds) or any(every(Written, loop.body)):
            return None
    found: dict[str, None] = {}
    moved: set[str] = set()
    for tensor, dim, place in _places(ops):
        inner = [one for one in place.names() if one in loops]
        along = [one for one in place.names() if one in results]
        if not inner or not along:
            continue
        apart = [_elements_apart(place, one, constants) for one in along]
        widest = WIDEST_BITS // max(8, DTYPES[spec.tensors[tensor].dtype].bits)
        if dim == spec.tensors[tensor].shape[-1] and not all(one is not None and abs(one) < widest for one in apart):
            return None
        found |= dict.fromkeys(inner)
        moved |= {*along}
    return Windows(tuple(found), frozenset(moved)) if found and {*loops} <= found.keys() else None


def _places(ops: Sequence[Op]) -> Iterator[tuple[str, str, Expression]]:
    """The tensors and their dims that are read by a mapping, and that."""
    for op in every(Read, ops):
        yield from ((op.tensor, dim, place) for dim, place in op.at.items())


def _elements_apart(place: Expression, dim: str, constants: Mapping[str, int]) -> int | None:
    """How far the place of the next element along a dim is, if that is a number."""
    if dim not in place.names():
        return 0
    if isinstance(place, Name):
        return 1
    if not isinstance(place, Binary) or place.op not in ("+", "-", "*"):
        return None
    left, right = (_elements_apart(one, dim, constants) for one in (place.left, place.right))
    if left is None or right is None:
        return None
    if place.op == "*":
        factor, apart = (place.left, right) if left == 0 else (place.right, left)
        return apart * int(factor.evaluate(constants)) if {*factor.names()} <= constants.keys() else None
    return left + right if place.op == "+" else left - right

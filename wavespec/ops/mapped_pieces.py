"""A tensor under an index mapping and elements of a tile go in; where these are, and the widest accesses to them, come
out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, pairwise, takewhile
from typing import NamedTuple

from wavespec.ir.expr import Expr, at_most, const, less, loose_part, minimum
from wavespec.ir.kernel import Memory, Op
from wavespec.ir.quotients import settled
from wavespec.ir.thread import Mask
from wavespec.ops.accesses import Coordinates, is_aligned
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.index_map import index_of
from wavespec.ops.line_ends import takes_ends_apart
from wavespec.targets.machine import Machine


@dataclass(frozen=True, slots=True)
class MappedTensor:
    """A tensor as the elements of a tile see it.

    ``at``: the place of an element, for every dim of the tensor.  ``edges``: dims of the tile whose last tile may be
    partial, with their sizes.  ``is_whole``: one lane has a whole tile, and would divide for each of its rows.
    ``outside``: of an element that the mapping leaves out one of them is above 0.  ``clamped``: dims of the tile beyond
    whose edge the last element is read, where its place is the index.
    """

    memory: Memory
    at: tuple[tuple[str, Expr], ...]
    edges: tuple[tuple[str, Expr], ...]
    is_whole: bool = False
    outside: tuple[Expr, ...] = ()
    clamped: tuple[str, ...] = ()

    def element(self, tile: Coordinates, values: Coordinates) -> MappedElement:
        """Where an element of the tile lives, and when it does: its checks are those that its range leaves open."""
        known = {index_of(dim).args[0]: index for dim, index in tile.items()}
        known.update(values)
        places: dict[str, Expr] = {}
        mask: list[tuple[Expr, Expr]] = [(tile[dim], size) for dim, size in self.edges]
        for (dim, expr), size in zip(self.at, self.memory.shape, strict=True):
            if expr is index_of(dim):
                places[dim] = minimum(tile[dim], size - 1) if dim in self.clamped else tile[dim]
                continue
            used = tuple([(name, known[name]) for name in expr.symbols if name in known])
            places[dim], checks = _place(expr, size, used, is_whole=self.is_whole)
            mask += checks
        mask += [(expr.substitute(known), const(1)) for expr in self.outside]
        if not self.is_whole:  # neighbours that exist together have one check, which they can be told by
            mask = [(left if left.is_const else _firm(left, right), right) for left, right in mask]
        return MappedElement(self.memory.offset(places), tuple(mask))


@lru_cache(maxsize=1 << 13)
def _firm(left: Expr, right: Expr) -> Expr:
    return left - loose_part(left, right)


# Elements of a tile share their places along some of the dims.
@lru_cache(maxsize=1 << 13)
def _place(expr: Expr, size: Expr, known: tuple[tuple[str, Expr], ...], *, is_whole: bool) -> tuple[Expr, Mask]:
    """Where an element is along one dim, and the checks that it is inside: of quotients in a whole tile, of what is
    divided."""
    place = expr.substitute(dict(known))
    mask: list[tuple[Expr, Expr]] = []
    if is_whole:
        place, times = _without_sizes(settled(place), size)
        mask += [_undivided(times, const(1))] if times else []
    if place.low is None or place.low < 0:
        mask.append((const(-1), place))
    if not _is_below(place, size):
        mask.append(_undivided(place, size) if is_whole else (place, size))
    return place, tuple(mask)


def _without_sizes(place: Expr, size: Expr) -> tuple[Expr, Expr | None]:
    """``p + size · t`` as ``p``, and ``t``, which is 0 inside of the tensor, if neither can be less than 0."""
    for by, term in place.terms():
        if by == 1 and term.kind == "product" and len(term.args) == 2 and size in term.args:
            times = term.args[term.args[0] is size]
            if at_most(const(0), place - term) and at_most(const(0), times):
                return place - term, times
    return place, None


def _undivided(place: Expr, size: Expr) -> tuple[Expr, Expr]:
    """``x // d < n`` as ``x < n · d``."""
    while place.kind == "floordiv" and (place.args[1].low or 0) >= 1 and not place.args[1].is_const:
        place, size = place.args[0], size * place.args[1]
    return place, size


class MappedElement(NamedTuple):
    offset: Expr
    mask: Mask


@dataclass(frozen=True, slots=True)
class MappedPiece:
    """Consecutive registers that are consecutive in the tensor, and exist together, but for those from ``valid`` on and
    the first few, ``front``."""

    register: int
    width: int
    offset: Expr
    mask: Mask
    valid: Expr | None = None
    front: Expr | None = None

    @property
    def firm(self) -> MappedPiece:
        """With the checks that it has in common with all that exist together with it."""
        mask = tuple((left if left.is_const else _firm(left, right), right) for left, right in self.mask)
        return replace(self, mask=mask)


def mapped_tensor(op: Op, context: ThreadContext, memory: Memory) -> MappedTensor:
    edges = tuple((dim, context.kernel.size(dim)) for dim in op.get("masked", ()))
    return MappedTensor(
        memory, op["at"], edges, context.kernel.lanes == 1, op.get("outside", ()), op.get("clamped", ())
    )


def mapped_pieces(
    tensor: MappedTensor, tiles: Iterable[Coordinates], values: Iterable[Coordinates], widest: int, machine: Machine
) -> Iterator[MappedPiece]:
    """Cut registers, with the indices ``tiles`` along the dims of the tile, into the widest accesses possible."""
    elements = (tensor.element(tile, known) for tile, known in zip(tiles, values, strict=True))
    start, ahead = 0, list(islice(elements, widest))
    while ahead:
        neighbours = takewhile(lambda pair: pair[1].offset.beyond(pair[0].offset) == 1, pairwise(ahead))
        width = 1 << (1 + sum(1 for _ in neighbours)).bit_length() - 1
        while width > 1:
            if piece := in_one_access(tensor.memory, ahead[:width], start, machine):
                break
            width //= 2
        else:
            piece = MappedPiece(start, 1, ahead[0].offset, ahead[0].mask)
        yield piece
        start += width
        ahead = [*ahead[width:], *islice(elements, width)]


def in_one_access(
    memory: Memory, elements: Sequence[MappedElement], start: int, machine: Machine, *, width: int = 0
) -> MappedPiece | None:
    """Consecutive elements in one access, where all of them, or the first few, exist; ``width``: of those between whose
    ends ``elements`` are."""
    steps = (0, width - 1) if width else range(len(elements))
    first, width = elements[0], width or len(elements)
    if elements[-1].offset.beyond(first.offset) != width - 1:
        return None
    if any(len(one.mask) != len(first.mask) for one in elements):
        return None
    if not is_aligned(memory, first.offset.divisor, width, machine):
        return None
    valid: Expr | None = None
    front: Expr | None = None
    mask: list[tuple[Expr, Expr]] = []
    for number, (left, right) in enumerate(first.mask):
        others = [one.mask[number] for one in elements]
        if all(other == (left, right) for other in others):
            mask.append((left, right))
            continue
        is_lower = all(one == const(-1) for one, _ in others)
        divisor = _divisor(others[-1][is_lower])
        others = [_multiplied(*other, divisor, is_lower) for other in others] if divisor else others
        left, right = others[0]
        if any(other != _moved_along(left, right, step, is_lower) for step, other in zip(steps, others, strict=True)):
            return None
        if right.divisor % width == 0 and (is_lower or left.divisor % width == 0):
            mask.append((left, right))
        elif not is_lower and _has_valid(memory, width, machine):
            valid = right - left if valid is None else minimum(valid, right - left)
        elif is_lower and front is None and _has_front(memory, width, machine):
            front = 0 - right
        else:
            return None
    return MappedPiece(start, width, first.offset, tuple(mask), valid, front)


def _has_front(memory: Memory, width: int, machine: Machine) -> bool:
    """Whether an access of so many elements may leave out the first few."""
    return machine.lanes == 1 and machine.element_masks and memory.role == "input" and not memory.dtype.is_packed


def _has_valid(memory: Memory, width: int, machine: Machine) -> bool:
    """Whether of an access of so many elements the first few may be all that exist."""
    return (machine.element_masks and not memory.dtype.is_packed) or takes_ends_apart(memory, width, machine)


def _divisor(place: Expr) -> Expr | None:
    """What a place is a quotient by, beside what is added to that."""
    found = [term.args[1] for by, term in place.terms() if by == 1 and term.kind == "floordiv"]
    return found[0] if len(found) == 1 and less(const(0), found[0]) else None


def _multiplied(left: Expr, right: Expr, divisor: Expr, is_lower: bool) -> tuple[Expr, Expr]:
    """``x // d + c < n`` as ``x + c · d < n · d``, and ``-1 < x // d + c`` as ``-1 < x + c · d``: also of the first
    elements, of which ``x // d`` is 0."""
    place = right if is_lower else left
    quotients = [term for by, term in place.terms() if by == 1 and term.kind == "floordiv" and term.args[1] is divisor]
    quotient = quotients[0] if quotients else const(0)
    value = (place - quotient) * divisor + (quotient.args[0] if quotients else 0)
    return (left, value) if is_lower else (value, right * divisor)


def _moved_along(left: Expr, right: Expr, step: int, is_lower: bool) -> tuple[Expr, Expr]:
    """The check of the first element, for one that is so many steps further."""
    return (left, right + step) if is_lower else (left + step, right)


def _is_below(place: Expr, size: Expr) -> bool:
    """Whether ``place < size`` follows from ranges, or from a remainder of the size."""
    if less(place, size):
        return True
    terms = place.terms()
    if len(terms) != 1 or terms[0][0] != 1 or terms[0][1].kind != "mod":
        return False
    remainder = terms[0][1]
    return remainder.args[1] is size and place.constant_part() < remainder.divisor

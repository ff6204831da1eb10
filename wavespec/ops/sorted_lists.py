"""The ranks of each lane go in; the largest of all lanes, in order, come out: lanes sort what they have, and whose
first one is the largest takes the next of its list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from wavespec.ir.kernel import Value
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.reduce import identity

MOST_LISTED = 32
"""Ranks of a lane that are sorted: by 191 comparisons, where the search for one looks at all of them each time."""
MOST_TAKEN = 16
"""Ranks that are taken, one written out after the other."""


def taken(
    build: ThreadBuilder,
    ranks: Sequence[Sequence[Value]],
    count: int,
    largest_of: Callable[[list[Value]], list[Value]],
    hint: str,
) -> list[list[Value]]:
    """For each group of a lane's ranks, no two of which are the same, the largest of all lanes, the largest first.

    Args:
        largest_of: of one rank for each group, the largest that any lane has.
    """
    lists = [_in_order(build, group, count, hint) for group in ranks]
    found: list[list[Value]] = [[] for _ in lists]
    for number in range(count):
        largest = largest_of([group[0] for group in lists])
        for group, one, results in zip(lists, largest, found, strict=True):
            results.append(one)
            if number + 1 < count:
                _take(build, group, one, count - number - 1, hint)
    return found


def _take(build: ThreadBuilder, group: list[Value], largest: Value, left: int, hint: str) -> None:
    """Of the list that the largest one comes from, the next ones, as many as may be taken yet."""
    first = group[0]
    is_taken = build.elementwise("eq", first, largest, hint=hint)
    nothing = build.constant(identity("maximum", first.vector.dtype), first.vector.dtype, first.vector.elements)
    after = [*group[1:], nothing][: max(left, 1)]
    group[:] = [
        build.elementwise("where", is_taken, later, one, hint=hint) for later, one in zip(after, group, strict=False)
    ]


def merged(build: ThreadBuilder, found: Sequence[Value], known: Sequence[Value], hint: str) -> list[Value]:
    """The largest of two lists in order, as many as each has, in order."""
    pairs = zip(found, reversed(known), strict=True)
    return _in_order(build, [build.elementwise("maximum", *pair, hint=hint) for pair in pairs], len(found), hint)


def _in_order(build: ThreadBuilder, ranks: Sequence[Value], count: int, hint: str) -> list[Value]:
    """The largest ranks of a lane, the largest first."""
    found = list(ranks)
    for one, other, sides in _comparisons(len(found), count):
        is_less = build.elementwise("lt", _hidden(build, found[one], hint), found[other], hint=hint)
        pair = {one: (found[other], found[one]), other: (found[one], found[other])}
        for side in sides:
            found[side] = build.elementwise("where", is_less, *pair[side], hint=hint)
    return found[:count]


def _hidden(build: ThreadBuilder, value: Value, hint: str) -> Value:
    """The same: of one comparison and two choices compilers make a minimum and a maximum, which of 64 bits are two
    comparisons."""
    if value.vector.dtype.bits <= 32:
        return value
    hidden = Value(build.fresh(hint), value.type)
    build.add("opaque", (value,), (hidden,))
    return hidden


def _comparisons(size: int, count: int) -> list[tuple[int, int, tuple[int, ...]]]:
    """Of Batcher's network those that the first ``count`` of ``size`` numbers depend on: two places and those of them
    that somebody looks at, the larger number goes to the first.

    https://en.wikipedia.org/wiki/Batcher_odd%E2%80%93even_mergesort
    """
    needed, found = set(range(count)), list[tuple[int, int, tuple[int, ...]]]()
    for one, other in reversed([*_network(size)]):
        if sides := tuple(side for side in (one, other) if side in needed):
            needed |= {one, other}
            found.append((one, other, sides))
    return found[::-1]


def _network(size: int) -> Iterator[tuple[int, int]]:
    top = 1 << max(0, (size - 1).bit_length() - 1)
    part = top
    while part and size > 1:
        reach, far, digit = part, top, 0
        while reach:
            yield from ((at, at + reach) for at in range(size - reach) if at & part == digit)
            reach, far, digit = far - part, far // 2, part
        part //= 2

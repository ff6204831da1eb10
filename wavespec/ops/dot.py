"""`dot`: ``acc + Σ_k a · b`` at the same places, lane by lane; no statement of a graph is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wavespec.ir.kernel import Op, Value
from wavespec.ops.contexts import ThreadContext


def to_thread(op: Op, context: ThreadContext) -> None:
    """One instruction for each vector of results and each group of elements along the dim.

    Steps along the dim that share fragments of ``a``, as taps in one row of a window do, are taken together: a fragment
    meets all that a part of it is multiplied with before the next one is needed, so that few of ``b`` are alive.  The
    next one is not its neighbour, which adds to the same results.
    """
    (a, b, acc), dim = op.operands, op["dim"]
    row = context.machine.instruction(op["instruction"])
    assert row is not None
    left, right = _by_place(a, context), _by_place(b, context)
    places = list(_places(acc))
    layout = a.tile.layout
    assert layout is not None
    inner = layout.axes[len(layout.repeats) :]
    run = next((axis.extent for axis in inner if axis.stride(dim)), 1)
    runs = layout.fragment_elements // run

    def fragment(table: Mapping[tuple[int, ...], Value], value: Value, place: Mapping[str, int], step: int) -> Value:
        return table[tuple(step if one == dim else place[one] for one in value.tile.dims)]

    sums = list(context.fragments[acc.name])
    steps = sorted({place[dim] for place in _places(a)})
    uses = [[(fragment(left, a, place, step), step, at) for at, place in enumerate(places)] for step in steps]
    for group in _sharing(uses):
        for start in range(0, run, row.k):
            for value, used in _apart(list(group.items())):
                for step, at in used:
                    factor = fragment(right, b, places[at], step + start)
                    sums[at] = context.build.dot(row.name, value, factor, sums[at], start, runs, op.result.name)
    context.fragments[op.result.name] = tuple(sums)


def _apart(each: Sequence[tuple[Value, list[tuple[int, int]]]]) -> Sequence[tuple[Value, list[tuple[int, int]]]]:
    """All of them, those behind one another that have no result in common."""
    most = max(len(used) for _, used in each)
    return [one for first in range(most) for one in each[first::most]]


def _places(value: Value) -> Sequence[Mapping[str, int]]:
    """Where each fragment begins."""
    layout = value.tile.layout
    assert layout is not None
    return layout.register_offsets(layout.fragment_elements)


def _by_place(value: Value, context: ThreadContext) -> dict[tuple[int, ...], Value]:
    fragments = context.fragments[value.name]
    keys = (tuple(place[dim] for dim in value.tile.dims) for place in _places(value))
    return dict(zip(keys, fragments, strict=True))


def _sharing(uses: Sequence[Sequence[tuple[Value, int, int]]]) -> Iterator[dict[Value, list[tuple[int, int]]]]:
    """What each fragment is multiplied for, of the steps in a row that have fragments in common."""
    group: dict[Value, list[tuple[int, int]]] = {}
    for step in uses:
        if group and not any(value in group for value, _, _ in step):
            yield group
            group = {}
        for value, where, at in step:
            group.setdefault(value, []).append((where, at))
    if group:
        yield group

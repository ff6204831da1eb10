"""The body of a loop of matrix products in; its slices of k, and the order in which one feeds the next, out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wavespec.ir.kernel import Op, attribute_pairs
from wavespec.ir.thread_ops import LOAD, LOAD_MATRIX, MMA, MOVES
from wavespec.schedule.loop_plan import fences

_FRAGMENT_OPS = MOVES | LOAD | LOAD_MATRIX


@dataclass(slots=True)
class Slice:
    """One step of k inside a tile, by numbers of operations: ``loads`` make the fragments that ``mmas`` use."""

    loads: list[int]
    mmas: list[int]


def slices_of(ops: Sequence[Op], numbers: Sequence[int]) -> list[Slice]:
    """The slices of a body, or nothing where it does more than load fragments and multiply them."""
    slices: list[Slice] = []
    for number in numbers:
        if ops[number].is_(MMA) and slices:
            slices[-1].mmas.append(number)
        elif ops[number].is_(_FRAGMENT_OPS):
            if not slices or slices[-1].mmas:
                slices.append(Slice([], []))
            slices[-1].loads.append(number)
        else:
            return []
    return slices if slices and slices[-1].mmas else []


def in_groups(
    ops: Sequence[Op], slices: Sequence[Slice], moves: Sequence[int], kind: str, closing: Sequence[int] = ()
) -> tuple[list[int], list[tuple[int, Op]]]:
    """An order with ``moves`` under the first products and ``closing`` behind them, and what to put between.

    ``fragments of slice 0; [fence; moves, fragments of slice 1, products of slice 0]; [fence; fragments of slice 2,
    products of slice 1] ...``, where groups put one product in front of each move (of this ``kind``) and of each load
    of a fragment, or of as many as there are for one.
    """
    order, between = list(slices[0].loads), list[tuple[int, Op]]()
    for at, part in enumerate(slices):
        between += fences([len(order)])
        issued: Sequence[int] = moves if at == 0 else ()
        following = slices[at + 1].loads if at + 1 < len(slices) else []
        order += [*issued, *following, *part.mmas]
        loads = sum(ops[number].is_(LOAD) for number in following)
        between += [(len(order), op) for op in _groups(len(part.mmas), {"shared_load": loads, kind: len(issued)})]
        order += closing if at == 0 else ()
    return order, between


def _groups(products: int, others: dict[str, int]) -> Iterator[Op]:
    """A product, then its share of what else there is, until only products are left."""
    shares = {kind: -(-count // products) for kind, count in others.items()}
    while any(others.values()):
        yield _group("matrix", 1)
        products -= 1
        for kind, share in shares.items():
            if count := min(share, others[kind]):
                yield _group(kind, count)
                others[kind] -= count
    if products:
        yield _group("matrix", products)


def _group(kind: str, count: int) -> Op:
    return Op("schedule_group", attributes=attribute_pairs({"kind": kind, "count": count}))

"""Thread kernel in, thread kernel out: what goes past the caches is stored line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import ClassVar

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import STORE
from wavespec.lower.base import Pass
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine


class StoreWholeLines(Pass):
    """Store one after the other what lies side by side in a row of a result that goes past the caches.

    Before: stores that stand one behind the other, with ``cache = streaming``, write a part of each of many rows, and
            then another part of each: of elements of 16 bits, registers of which have half a line, turned in blocks.
    After:  each row has its parts in one go, in the order of their places.  A machine gathers what goes past the caches
            in few buffers of a line, and writes those that are not full to memory part by part.
    """

    name: ClassVar[str] = "store-whole-lines"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        return replace(kernel, body=_ordered(kernel.body))


def _ordered(ops: Sequence[Op]) -> tuple[Op, ...]:
    result = list[Op]()
    for is_streamed, together in groupby(ops, _is_streamed):
        some = [*together]
        result += _by_rows(some) if is_streamed else map(_inside, some)
    return tuple(result)


def _inside(op: Op) -> Op:
    if not op.region:
        return op
    return replace(op, region=replace(op.region, ops=_ordered(op.region.ops)))


def _is_streamed(op: Op) -> bool:
    return op.is_(STORE) and bool(op.get("cache")) and not op.get("mapped")


def _by_rows(stores: list[Op]) -> Iterator[Op]:
    """Rows in the order of their first stores; what may write the same elements keeps its order."""
    rows = dict[tuple[str, Expr], list[Op]]()
    for op in stores:
        offset = op["offset"]
        rows.setdefault((op["memory"], offset - offset.constant_part()), []).append(op)
    for row in rows.values():
        yield from sorted(row, key=lambda op: op["offset"].constant_part())

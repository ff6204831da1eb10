"""Tile kernel in, tile kernel out: what lies beyond the edge of a tile becomes a number once, for all who skip it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Value, attribute_pairs, rewrite
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, ITERATE, MMA, PAD, REDUCE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.index_bounds import fails_beyond
from wavespec.lower.tile_properties import accesses_are_masked
from wavespec.lower.value_ranges import ANY, Range, range_of
from wavespec.ops.reduce import identity
from wavespec.targets.machine import Machine


class PadOnce(Pass):
    """Replace what lies beyond an edge once, and not where that would change nothing.

    Before: in loops of products each masked ``reduce`` and ``pad`` leaves out what lies beyond the edge by itself.
    After:  the first one has a ``pad``, and what comes behind takes what that makes: registers hold one version of the
            tile.  Whoever would put there what is there already is not masked any more: behind scores of minus infinity
            the powers are 0, and where a comparison of indices fails beyond an edge, what stands for it is there.
            Nobody sees what is beyond an edge, so it may be any number; only NaN would spread, and that comes from rows
            alone, where it spreads to what is inside as well.
    """

    name: ClassVar[str] = "pad-once"
    requires = (accesses_are_masked,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        inside = dict[str, Range]()
        for op in kernel.walk():
            if len(op.results) == 1 and op.region is None:
                inside[op.result.name] = range_of(op, [inside.get(value.name, ANY) for value in op.operands])
        fresh = fresh_names(kernel)

        def change(op: Op) -> tuple[Op, ...]:
            if not any(inner.is_(MMA) for inner in op.body.ops):
                return (op,)
            fails = fails_beyond(op.body.ops, op["dim"], kernel.all_sizes)
            return (_Edge(op, inside, fails, fresh).padded_once(),)

        return replace(kernel, body=rewrite(kernel.body, change, ITERATE))


class _Edge:
    """Follows what lies beyond the edge of the dim of one loop."""

    def __init__(self, loop: Op, inside: dict[str, Range], fails: set[str], fresh: Callable[[str], str]) -> None:
        self.loop, self.inside, self.fails, self.fresh = loop, inside, fails, fresh
        self.dim: str = loop["dim"]
        self.beyond = dict[str, Range]()
        self.names = dict[str, Value]()
        self.ops: list[Op] = []

    def padded_once(self) -> Op:
        before = self.loop.body.ops
        for op in before:
            self._add(op)
        changed = len(before) != len(self.ops) or any(
            one is not other for one, other in zip(before, self.ops, strict=True)
        )
        return replace(self.loop, region=replace(self.loop.body, ops=tuple(self.ops))) if changed else self.loop

    def _add(self, op: Op) -> None:
        if op.is_(ELEMENTWISE, CAST, PAD, REDUCE) and any(value.name in self.names for value in op.operands):
            op = replace(op, operands=tuple(self.names.get(value.name, value) for value in op.operands))
        masked = op.is_(PAD, REDUCE) and op.get("masked") and op["dim"] == self.dim
        if not masked or not op.operands[0].tile.dtype.is_float:
            self.ops.append(op)
            if len(op.results) == 1 and self.dim in op.result.tile.dims:
                self.beyond[op.result.name] = self._of(op)
            return
        (value, *_), number = op.operands, op["value"] if op.is_(PAD) else 0.0
        if op.is_(REDUCE):
            if op.result.tile.dtype != value.tile.dtype:  # it computes in a wider one
                self.ops.append(op)
                return
            number = identity(op["function"], value.tile.dtype)
        if self.beyond.get(value.name, ANY) != (number, number):
            value = self._pad(op, value, number)
        self.ops.append(replace(op.with_(masked=False), operands=(value, *op.operands[1:])))
        if op.is_(PAD):
            self.beyond[op.result.name] = number, number

    def _pad(self, op: Op, value: Value, number: float) -> Value:
        """``value`` with the number beyond the edge, for all who come behind."""
        padded = replace(value, name=self.fresh(value.name))
        edge = {key: op[key] for key in ("dim", "origin", "size")} | {"value": number, "masked": True}
        self.ops.append(Op("pad", (value,), (padded,), attribute_pairs(edge), span=op.span, node=op.node))
        self.names[value.name] = padded
        self.beyond[padded.name] = number, number
        return padded

    def _of(self, op: Op) -> Range:
        operands = list[Range]()
        if op.is_(ELEMENTWISE) and op["function"] == "where":
            flag, one, other = op.operands
            op = replace(op, operands=(other, other, other) if flag.name in self.fails else (one, one, other))
        for value in op.operands:
            along = self.dim in value.tile.dims
            operands.append(self.beyond.get(value.name, ANY) if along else self.inside.get(value.name, ANY))
            if along and operands[-1] == ANY:  # it may be NaN
                return ANY
        return range_of(op, operands)

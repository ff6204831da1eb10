"""Tile kernel in, tile kernel out: the steps of a loop are shared out among workgroups that add up their sums."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.expr import Expr, ceildiv, const, minimum
from wavespec.ir.kernel import Kernel, Memory, Op, Region, Value, attribute_pairs
from wavespec.ir.layout import row_major, widest_spread
from wavespec.ir.tile_ops import ACROSS, ELEMENTWISE, ITERATE, MMA, REGISTER, TAKE, WRITE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.tile_properties import (
    products_have_instructions,
    shares_are_summed_up,
    tiles_are_placed,
    tiles_have_extents,
)
from wavespec.ops.index_map import moved_dims
from wavespec.schedule.buffer_ring import signal
from wavespec.targets.machine import Machine

_PADDING_BYTES = 32  # behind a row: rows that lanes of a matrix instruction write together are on banks of their own
_MET = "sums.met"


class SplitNotPossible(WavespecError, code="split-not-possible"):
    def __init__(self, where: Where, split: int, why: str, hint: str) -> None:
        super().__init__(where, f"The loop cannot be split among {split} workgroups: {why}.", hints=[hint])


class SplitK(Pass):
    """Give each workgroup of a cluster a part of the steps of the loop.

    Before: one workgroup takes all steps of the loop over a tile.
    After:  workgroup ``wg0`` of the cluster takes the steps from ``lower`` to ``extent``, from sums of 0 on.  Behind
            the loop ``cluster_sum`` adds up some rows of the tile, others in each workgroup, through a shared memory
            ``<sum>.parts``; what follows is done for those rows alone.  What it uses from before the loop is computed
            behind it, initial values of the sums too, which are added at the end.
    Errors: ``split-not-possible`` at the schedule's workgroups.
    """

    name: ClassVar[str] = "split-k"
    requires = (products_have_instructions, tiles_have_extents, tiles_are_placed)
    ensures = (shares_are_summed_up,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        plan = kernel.distribution
        if plan.split == 1 or not any(op.is_(MMA) for op in kernel.walk()):
            return kernel
        loop = _loop_to_split(kernel, machine)
        at, fresh = kernel.body.index(loop), fresh_names(kernel)
        before, behind = kernel.body[:at], _Rows(kernel, loop, machine, fresh)
        kept = _needed(before, loop.body.ops)
        zero = {op.result.name for op in before if op.is_(REGISTER) and not op["value"]}
        starts = tuple(value for value in loop.operands if value.name not in zero)
        later = _needed(before, (*kernel.body[at + 1 :], Op("start", starts)))
        zeros = tuple(replace(value, name=fresh(value.name)) for value in loop.operands)
        lower, upper = _share(loop, kernel.symbol("wg0"), plan.split)
        body = [op for op in before if not op.results or op.result.name in kept]
        body += [_register_of_zero(value) for value in zeros]
        body.append(replace(loop.with_(lower=lower, extent=upper), operands=zeros))
        for op in before:
            if op.results and op.result.name in later:
                behind.add(op)
        behind.add_sums({value.name for value in starts})
        for op in kernel.body[at + 1 :]:
            behind.add(op)
        met = signal(_MET, len(loop.results), kernel.wave_count * kernel.cluster)
        return replace(kernel, body=(*body, *behind.ops), memories=(*kernel.memories, *behind.memories, met))


class _Rows:
    """Operations behind the loop, done for the rows of one workgroup alone."""

    def __init__(self, kernel: Kernel, loop: Op, machine: Machine, fresh: Callable[[str], str]) -> None:
        self.kernel, self.loop, self.fresh = kernel, loop, fresh
        self.ops: list[Op] = []
        self.memories: list[Memory] = []
        self.values: dict[str, Value] = {}
        written = [kernel.memory(op["memory"]) for op in kernel.body if op.is_(WRITE)]
        first = loop.results[0].tile
        self.column = next((m.contiguous_dim for m in written if m.contiguous_dim in first.dims), first.dims[-1])
        self.row = next(dim for dim in first.dims if dim != self.column)
        height, split = first.extent(self.row), kernel.distribution.split
        self.rows = height // split
        lanes, widest = kernel.wave_count * kernel.lanes, machine.shared.access_bytes // first.dtype.bytes
        self.width = widest_spread((self.rows, first.extent(self.column)), widest, lanes)
        if height % split or not self.width:
            raise SplitNotPossible(
                kernel.distribution.workgroups_span,
                split,
                f"{height} rows of '{self.row}' cannot be shared out evenly among {split} workgroups of {lanes} lanes",
                "Use a larger tile, or fewer workgroups.",
            )

    def add(self, op: Op) -> None:
        """An operation of the kernel, for these rows."""
        along = moved_dims(op) if op.is_(TAKE) else (op["dim"],) if op.is_(ACROSS) else ()
        if self.row in along and any(self.row in value.tile.dims for value in op.operands):
            why, hint = f"'{op.name}' along '{self.row}' needs all of its rows", "Leave out 'split'."
            raise SplitNotPossible(op.span, self.kernel.distribution.split, why, hint)
        operands = tuple(self.values.get(value.name, value) for value in op.operands)
        for value in op.results:
            self.values[value.name] = self._narrowed(value)
        op = replace(op, operands=operands, results=tuple(self.values[value.name] for value in op.results))
        if op.get("origin") is not None:
            op = op.with_(origin=tuple((dim, at + self._start(dim)) for dim, at in op["origin"]))
        self.ops.append(op)

    def add_sums(self, initial: Collection[str]) -> None:
        """The sums, each with its value from before the loop where that is one of ``initial``."""
        for number, (sums, start) in enumerate(zip(self.loop.results, self.loop.operands, strict=True)):
            tile, dims = sums.tile, (self.row, self.column)
            extents = (tile.extent(self.row), tile.extent(self.column))
            parts = Memory(
                f"{sums.name}.parts",
                tile.dtype,
                dims,
                tuple(map(const, extents)),
                "shared",
                arrangement=row_major(dims, extents, _PADDING_BYTES // tile.dtype.bytes),
                span=self.loop.span,
            )
            self.memories.append(parts)
            total = self._narrowed(sums)
            attributes = {
                "memory": parts.name,
                "signal": _MET,
                "index": const(number),
                "origin": tuple((dim, self._start(dim)) for dim in dims),
                "width": self.width,
            }
            self.ops.append(Op("cluster_sum", (sums,), (total,), attribute_pairs(attributes), span=self.loop.span))
            if start.name in initial:
                added, function = replace(total, name=self.fresh(sums.name)), attribute_pairs({"function": "add"})
                operands = total, self.values[start.name]
                self.ops.append(Op("elementwise", operands, (added,), function, span=self.loop.span))
                total = added
            self.values[sums.name] = total

    def _start(self, dim: str) -> Expr:
        return self.kernel.symbol("wg0") * self.rows if dim == self.row else const(0)

    def _narrowed(self, value: Value) -> Value:
        tile = value.tile
        extents = tuple(self.rows if d == self.row else e for d, e in zip(tile.dims, tile.extents, strict=True))
        return Value(self.fresh(value.name), replace(tile, extents=extents))


def _loop_to_split(kernel: Kernel, machine: Machine) -> Op:
    plan = kernel.distribution

    def refuse(why: str, hint: str) -> SplitNotPossible:
        return SplitNotPossible(plan.workgroups_span, plan.split, why, hint)

    if plan.split not in machine.clusters:
        sizes = " or ".join(map(str, machine.clusters))
        hint = f"Use {sizes} workgroups." if sizes else "Leave out 'split' for this target."
        raise refuse(f"{machine.variant} has no clusters of that size", hint)
    if not plan.roles.producers or plan.persistent or plan.cluster > 1:
        raise refuse("that takes a producer, and a workgroup for each tile", "Leave out 'persistent' and 'cluster'.")
    loops = [op for op in kernel.body if op.is_(ITERATE)]
    if any(op.get(key) is not None for op in loops for key in ("once", "lower", "stride", "goes_on")):
        raise refuse("that takes a loop over a whole dim, and no branches", "Leave out 'split'.")
    if len(loops) != 1 or len(kernel.grid) - len(kernel.joined) > 3:
        raise refuse("that takes one loop, and at most two axes of workgroups", "Leave out 'split'.")
    (loop,) = loops
    for argument, result in zip(loop.body.arguments, loop.body.yields, strict=True):
        adds = is_sum(loop.body, argument, result) or _is_total(loop.body, argument, result)
        if not adds or len(result.tile.dims) != 2:
            raise refuse(f"'{argument.name}' is no sum of matrix products over the loop", "Leave out 'split'.")
    return loop


def is_sum(body: Region, argument: Value, result: Value) -> bool:
    """Whether a carried value is only ever added to, by matrix products."""
    products = {op.result.name: op for op in body.ops if op.is_(MMA)}
    chain = [result]
    while chain[-1].name in products:
        chain.append(products[chain[-1].name].operands[2])
    names = {value.name for value in chain}
    others = (v.name for op in body.ops for v in (op.operands[:2] if op.is_(MMA) else op.operands))
    return chain[-1] == argument and len(chain) > 1 and names.isdisjoint(others)


def _is_total(body: Region, argument: Value, result: Value) -> bool:
    """Whether each step adds what it has summed up by itself, as products of parts do."""
    ops = [op for op in body.ops if argument in op.operands]
    added = len(ops) == 1 and ops[0].is_(ELEMENTWISE) and ops[0]["function"] == "add" and ops[0].result == result
    used = [value for op in body.ops for value in op.operands]
    return added and used.count(argument) == 1 and result not in used


def _share(loop: Op, rank: Expr, split: int) -> tuple[Expr, Expr]:
    """Where a workgroup's steps start and end."""
    extent, step = loop["extent"], loop["step"].value
    share = ceildiv(ceildiv(extent, step), split) * step
    lower = minimum(rank * share, extent)
    return lower, minimum(lower + share, extent)


def _needed(before: Sequence[Op], ops: Iterable[Op]) -> set[str]:
    """Values of ``before`` that ``ops`` use, and those that these are made of."""
    names = {value.name for op in ops for inner in op.walk() for value in inner.operands}
    for op in reversed(before):
        if not op.results or op.result.name in names:
            names |= {value.name for value in op.operands}
    return names


def _register_of_zero(value: Value) -> Op:
    zero = 0.0 if value.tile.dtype.is_float else 0
    return Op("register", (), (value,), attribute_pairs({"value": zero}))

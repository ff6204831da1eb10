"""Tile kernel in, tile kernel out: the steps of a loop are shared out among workgroups that add up their sums."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.expr import Expr, ceildiv, const, maximum, minimum
from wavespec.ir.kernel import Kernel, Memory, Op, Region, Value, attribute_pairs
from wavespec.ir.layout import row_major, widest_spread
from wavespec.ir.tile_ops import ACROSS, ELEMENTWISE, ITERATE, MMA, REGISTER, TAKE, WRITE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.scaled_sums import CarriedValues
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
_AXES = 3  # of a launch
_DIMS = 2  # of a product


class SplitNotPossible(WavespecError, code="split-not-possible"):
    def __init__(self, where: Where, split: int, why: str, hint: str) -> None:
        super().__init__(where, f"The loop cannot be split among {split} workgroups: {why}.", hints=[hint])


class SplitK(Pass):
    """Give each workgroup of a cluster a part of the steps of the loop.

    Before: one workgroup takes all steps of the loop over a tile.
    After:  workgroup ``wg0`` of the cluster takes the steps from ``lower`` to ``extent``, from sums of 0 on.  Behind
            the loop ``cluster_sum`` adds up some rows of the tile, others in each workgroup, through a shared memory
            ``<sum>.parts``; what follows is done for those rows alone.  What it uses from before the loop is computed
            behind it, initial values of the sums too, which are added at the end.  Where the loop carries extremes,
            ``cluster_extreme`` finds those of all workgroups first, and sums are scaled to them as a step scales them.
    Errors: ``split-not-possible`` at the schedule's workgroups.
    """

    name: ClassVar[str] = "split-k"
    requires = (products_have_instructions, tiles_have_extents, tiles_are_placed)
    ensures = (shares_are_summed_up,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        plan = kernel.distribution
        if plan.split == 1 or not any(op.is_(MMA) for op in kernel.walk()):
            return kernel
        loop, carried = _loop_to_split(kernel, machine)
        at, fresh = kernel.body.index(loop), fresh_names(kernel)
        before, behind = kernel.body[:at], _Rows(kernel, loop, carried, machine, fresh)
        extremes = tuple(loop.operands[number] for number in carried.extremes)
        kept = _needed(before, (*loop.body.ops, Op("start", extremes)))
        zero = values_of_zero(before)
        starts = tuple(value for value in loop.operands if value.name not in zero and value not in extremes)
        later = _needed(before, (*kernel.body[at + 1 :], Op("start", starts)))
        firsts = [one if one in extremes else replace(one, name=fresh(one.name)) for one in loop.operands]
        lower, upper = share_of_steps(loop, kernel.symbol("wg0"), plan.split)
        body = [op for op in before if not op.results or op.result.name in kept]
        body += [_register_of_zero(value) for value in firsts if value not in extremes]
        body.append(replace(loop.with_(lower=lower, extent=upper), operands=tuple(firsts)))
        behind.scale_sums()
        for op in before:
            if op.results and op.result.name in later:
                behind.add(op)
        behind.add_sums({value.name for value in starts})
        for op in kernel.body[at + 1 :]:
            behind.add(op)
        met = signal(_MET, len(loop.results), kernel.wave_count * kernel.cluster)
        memories = (*kernel.memories, *behind.memories, met)
        many = len(kernel.grid) - len(kernel.joined) > _AXES  # the first axis of a launch is the one that may be long
        joined = tuple(range(1, len(kernel.grid))) if many else kernel.joined
        return replace(kernel, body=(*body, *behind.ops), memories=memories, joined=joined)


class _Rows:
    """Operations behind the loop, done for the rows of one workgroup alone."""

    def __init__(
        self, kernel: Kernel, loop: Op, carried: CarriedValues, machine: Machine, fresh: Callable[[str], str]
    ) -> None:
        self.kernel, self.loop, self.carried, self.fresh = kernel, loop, carried, fresh
        self.ops: list[Op] = []
        self.memories: list[Memory] = []
        self.values: dict[str, Value] = {}
        self.sums = list(loop.results)
        written = [kernel.memory(op["memory"]) for op in kernel.body if op.is_(WRITE)]
        first = next(value.tile for value in loop.results if len(value.tile.dims) == _DIMS)
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
        for value in loop.results:
            if value.tile.dims not in ((self.row,), first.dims):
                why = f"'{value.name}' is of other elements than rows of '{self.row}'"
                raise SplitNotPossible(kernel.distribution.workgroups_span, split, why, "Leave out 'split'.")

    def scale_sums(self) -> None:
        """Extremes of all workgroups, and the sums as they would be had they been found in the own steps."""
        joined: dict[int, Value] = {}
        for number, one in self.carried.extremes.items():
            own = self.sums[number]
            tile = own.tile
            parts = self._parts(own, tile.dims, tile.extents)
            joined[number] = Value(self.fresh(own.name), tile)
            met = {"function": one.function, "memory": parts.name, "signal": _MET, "index": const(number)}
            found = attribute_pairs(met)
            self.ops.append(Op("cluster_extreme", (own,), (joined[number],), found, span=self.loop.span))
        ops, factors = self.carried.scaling(joined, self.sums, self.fresh)
        self.ops += ops
        multiplied = attribute_pairs({"function": "mul"})
        for number, factor in factors.items():
            own = self.sums[number]
            self.sums[number] = scaled = Value(self.fresh(own.name), own.type)
            self.ops.append(Op("elementwise", (own, factor), (scaled,), multiplied, span=self.loop.span))

    def _parts(self, sums: Value, dims: tuple[str, ...], extents: tuple[int, ...]) -> Memory:
        """The shared memory where a workgroup lays down what it has."""
        padding = _PADDING_BYTES // sums.tile.dtype.bytes if len(dims) > 1 else 0
        parts = Memory(
            f"{sums.name}.parts",
            sums.tile.dtype,
            dims,
            tuple(map(const, extents)),
            "shared",
            arrangement=row_major(dims, extents, padding),
            span=self.loop.span,
        )
        self.memories.append(parts)
        return parts

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
        for number, (result, start) in enumerate(zip(self.loop.results, self.loop.operands, strict=True)):
            if number in self.carried.extremes:
                continue
            sums = self.sums[number]
            dims = tuple(dim for dim in (self.row, self.column) if dim in sums.tile.dims)
            parts = self._parts(result, dims, tuple(map(sums.tile.extent, dims)))
            total = self._narrowed(result)
            attributes = {
                "memory": parts.name,
                "signal": _MET,
                "index": const(number),
                "origin": tuple((dim, self._start(dim)) for dim in dims),
                "width": self.width,
            }
            self.ops.append(Op("cluster_sum", (sums,), (total,), attribute_pairs(attributes), span=self.loop.span))
            if start.name in initial:
                added, function = replace(total, name=self.fresh(result.name)), attribute_pairs({"function": "add"})
                operands = total, self.values[start.name]
                self.ops.append(Op("elementwise", operands, (added,), function, span=self.loop.span))
                total = added
            self.values[result.name] = total

    def _start(self, dim: str) -> Expr:
        return self.kernel.symbol("wg0") * self.rows if dim == self.row else const(0)

    def _narrowed(self, value: Value) -> Value:
        tile = value.tile
        extents = tuple(self.rows if d == self.row else e for d, e in zip(tile.dims, tile.extents, strict=True))
        return Value(self.fresh(value.name), replace(tile, extents=extents))


def _loop_to_split(kernel: Kernel, machine: Machine) -> tuple[Op, CarriedValues]:
    plan = kernel.distribution

    def refuse(why: str, hint: str) -> SplitNotPossible:
        return SplitNotPossible(plan.workgroups_span, plan.split, why, hint)

    if plan.split not in machine.clusters:
        sizes = " or ".join(map(str, machine.clusters))
        hint = f"Use {sizes} workgroups." if sizes else "Leave out 'split' for this target."
        raise refuse(f"{machine.variant} has no clusters of that size", hint)
    if plan.persistent or plan.cluster > 1:
        raise refuse("that takes a workgroup for each tile", "Leave out 'persistent' and 'cluster'.")
    loops = [op for op in kernel.body if op.is_(ITERATE)]
    if any(op.get(key) is not None for op in loops for key in ("once", "stride", "goes_on")):
        raise refuse("that takes a loop that goes on by one tile, and no branches", "Leave out 'split'.")
    if len(loops) != 1:
        raise refuse("that takes one loop", "Leave out 'split'.")
    (loop,) = loops
    carried, zero = CarriedValues(loop["dim"], loop.body), values_of_zero(kernel.body)
    used = {value.name for op in kernel.body for value in op.operands}
    for number, (argument, result) in enumerate(zip(loop.body.arguments, loop.body.yields, strict=True)):
        if number in carried.extremes:
            if loop.results[number].name in used:
                raise refuse(f"'{argument.name}' is used behind the loop", "Use the sums alone.")
        elif number in carried.sums:
            if loop.operands[number].name not in zero:
                raise refuse(f"'{argument.name}' starts from other numbers than 0", "Add them behind the loop.")
        elif not (is_sum(loop.body, argument, result) or is_total(loop.body, argument, result)):
            raise refuse(f"'{argument.name}' is no sum of matrix products over the loop", "Leave out 'split'.")
        elif carried.extremes and carried.depends[result.name] != frozenset({number}):
            raise refuse(f"'{argument.name}' is relative to what else the loop carries", "Leave out 'split'.")
    if all(len(value.tile.dims) != _DIMS for value in loop.results):
        raise refuse("it has no sum of matrix products", "Leave out 'split'.")
    return loop, carried


def is_sum(body: Region, argument: Value, result: Value) -> bool:
    """Whether a carried value is only ever added to, by matrix products."""
    products = {op.result.name: op for op in body.ops if op.is_(MMA)}
    chain = [result]
    while chain[-1].name in products:
        chain.append(products[chain[-1].name].operands[2])
    names = {value.name for value in chain}
    others = (v.name for op in body.ops for v in (op.operands[:2] if op.is_(MMA) else op.operands))
    return chain[-1] == argument and len(chain) > 1 and names.isdisjoint(others)


def is_total(body: Region, argument: Value, result: Value) -> bool:
    """Whether each step adds what it has summed up by itself, as products of parts do, or scaled ones."""
    ops = [op for op in body.ops if argument in op.operands]
    added = len(ops) == 1 and ops[0].is_(ELEMENTWISE) and ops[0].result == result and _adds(ops[0], argument)
    used = [value for op in body.ops for value in op.operands]
    return added and used.count(argument) == 1 and result not in used


def _adds(op: Op, value: Value) -> bool:
    return op["function"] == "add" or (op["function"] == "fma" and op.operands[2] == value)


def share_of_steps(loop: Op, rank: Expr, split: int) -> tuple[Expr, Expr]:
    """Where a workgroup's steps start and end."""
    first: Expr | None = loop.get("lower")
    extent, step = loop["extent"], loop["step"].value
    there = extent if first is None else maximum(extent - first, 0)
    share = ceildiv(ceildiv(there, step), split) * step
    lower = minimum(rank * share if first is None else first + rank * share, extent)
    return lower, minimum(lower + share, extent)


def values_of_zero(ops: Sequence[Op]) -> set[str]:
    """What is 0 everywhere."""
    return {op.result.name for op in ops if op.is_(REGISTER) and not op["value"]}


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

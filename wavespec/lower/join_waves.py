"""Tile kernel in, tile kernel out: sums of products whose elements along k waves share out are added up."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Memory, Op, Value, attribute_pairs
from wavespec.ir.layout import row_major, widest_spread
from wavespec.ir.tile_ops import CAST, CLUSTER_SUM, ELEMENTWISE, ITERATE, MMA, REGISTER, SHARED_SUM, WAVE_SUM, WRITE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.shared_sums import waves_of_sum
from wavespec.lower.split_k import is_sum
from wavespec.lower.tile_properties import products_have_instructions, tiles_have_extents, waves_are_summed_up
from wavespec.targets.machine import Machine

_BEHIND = CAST | ELEMENTWISE | REGISTER | SHARED_SUM | WRITE
_DIMS = 2  # of a product
_PADDING_BYTES = 16  # behind a row: rows that lanes of a matrix instruction write together are on banks of their own


class JoinWaves(Pass):
    """Add up what the waves of a workgroup have summed along a dim that they share out.

    Before: each wave multiplies its own elements along k, and adds to what the product starts from.
    After:  it starts at zero; ``wave_sum`` adds up what all waves have, once behind the loop where that does nothing
            but add to the sums, and what the product started from is added to that.  Where there is nothing but
            arithmetic and a write behind it, and enough for all lanes, it is a ``spread_sum``.
    """

    name: ClassVar[str] = "join-waves"
    requires = (products_have_instructions, tiles_have_extents)
    ensures = (waves_are_summed_up,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        joining = _Joining(kernel, machine)
        if not any(joining.shared_dim(op) for op in kernel.walk()):
            return kernel
        joined = replace(kernel, body=joining.block(kernel.body, frozenset()))
        return _spread_out(_with_clusters(joined), machine)


class _Joining:
    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self.kernel, self.machine, self.fresh = kernel, machine, fresh_names(kernel)
        self.zeros = {op.result.name for op in kernel.walk() if op.is_(REGISTER) and not op["value"]}

    def shared_dim(self, op: Op) -> str:
        """The dim that a product sums over, where waves share it out."""
        return op["k"] if op.is_(MMA) and waves_of_sum(self.kernel, op, self.machine) > 1 else ""

    def block(self, ops: tuple[Op, ...], summed: frozenset[str]) -> tuple[Op, ...]:
        """Operations with sums added up behind them; ``summed``: products that a loop around does that for."""
        return tuple(one for op in ops for one in self._joined(op, summed))

    def _joined(self, op: Op, summed: frozenset[str]) -> tuple[Op, ...]:
        if op.is_(MMA) and op.result.name not in summed and (dim := self.shared_dim(op)):
            return self._added(op, {0: dim}, {0: op.operands[2]})
        if op.region is None:
            return (op,)
        dims = dict[int, str]()
        for number, (argument, result) in enumerate(zip(op.body.arguments, op.body.yields, strict=True)):
            chain = _products(op, argument, result) if op.is_(ITERATE) and is_sum(op.body, argument, result) else ()
            shared = {self.shared_dim(one) for one in chain}
            if len(shared) == 1 and (dim := shared.pop()):
                dims[number] = dim
                summed |= {one.result.name for one in chain}
        op = replace(op, region=replace(op.body, ops=self.block(op.body.ops, summed)))
        return self._added(op, dims, {number: op.operands[number] for number in dims})

    def _added(self, op: Op, dims: dict[int, str], starts: dict[int, Value]) -> tuple[Op, ...]:
        """The operation from zeros on, and behind it the sums of all waves, and what it started from."""
        before, behind, operands, results = list[Op](), list[Op](), list(op.operands), list(op.results)
        for number, dim in dims.items():
            whole, start = op.results[number], starts[number]
            part = results[number] = Value(self.fresh(whole.name), whole.type)
            is_zero = start.name in self.zeros
            total = whole if is_zero else Value(self.fresh(whole.name), whole.type)
            attributes = attribute_pairs({"dim": dim})
            behind.append(Op("wave_sum", (part,), (total,), attributes, span=op.span, node=op.node))
            if not is_zero:
                zero = Value(self.fresh(start.name), start.type)
                nothing = attribute_pairs({"value": 0.0 if zero.tile.dtype.is_float else 0})
                before.append(Op("register", (), (zero,), nothing, span=op.span, node=op.node))
                operands[operands.index(start)] = zero
                function = attribute_pairs({"function": "add"})
                behind.append(Op("elementwise", (start, total), (whole,), function, span=op.span, node=op.node))
        return (*before, replace(op, operands=tuple(operands), results=tuple(results)), *behind)


def _with_clusters(kernel: Kernel) -> Kernel:
    """The kernel in which workgroups of a cluster add up what all waves of all of them have, at once."""
    sums = {op.result.name: op for op in kernel.body if op.is_(WAVE_SUM)}
    uses = Counter(value.name for op in kernel.walk() for value in op.operands)
    memories, body = {memory.name: memory for memory in kernel.memories}, list[Op]()
    for op in kernel.body:
        own = sums.get(op.operands[0].name) if op.is_(CLUSTER_SUM) else None
        if own is None or uses[own.result.name] > 1 or len(op.result.tile.dims) != _DIMS:
            body.append(op)
            continue
        body.remove(own)
        memory = memories[op["memory"]]
        memories[memory.name] = _of_waves(memory, kernel.waves_along(own["dim"]))
        body.append(replace(op, operands=own.operands).with_(dim=own["dim"]))
    return replace(kernel, body=tuple(body), memories=tuple(memories.values()))


def _of_waves(parts: Memory, waves: int) -> Memory:
    """The memory with what each wave has, one behind the other."""
    dims, shape = ("part", *parts.dims), (const(waves), *parts.shape)
    sizes, padding = tuple(extent.value for extent in shape), _PADDING_BYTES // parts.dtype.bytes
    return replace(parts, dims=dims, shape=shape, arrangement=row_major(dims, sizes, padding))


def _spread_out(kernel: Kernel, machine: Machine) -> Kernel:
    """The kernel with sums of waves, if there is one tile of them, of which each lane of the workgroup goes on with
    some, side by side, where nothing but what is made of them element by element is written behind them."""
    sums = [op for op in kernel.body if op.is_(WAVE_SUM)]
    parts = _parts_of_waves(kernel, sums[0], machine) if len(sums) == 1 else None
    if parts is None:
        return kernel
    at = kernel.body.index(sums[0])
    spread = replace(sums[0], name="spread_sum").with_(memory=parts.name, width=_width(kernel, parts, machine))
    body = (*kernel.body[:at], spread, *kernel.body[at + 1 :])
    return replace(kernel, body=body, memories=(*kernel.memories, parts))


def _parts_of_waves(kernel: Kernel, op: Op, machine: Machine) -> Memory | None:
    """Where waves lay down in shared memory what they have of a sum; None where lanes cannot go on with parts of it."""
    (own,), later = op.operands, kernel.body[kernel.body.index(op) + 1 :]
    behind = [inner for one in later for inner in one.walk() if not _is_branch(inner)]
    tiles = [value.tile.dims for one in behind for value in (*one.operands, *one.results)]
    written = [kernel.memory(one["memory"]).contiguous_dim for one in behind if one.is_(WRITE)]
    if not all(one.is_(_BEHIND) and not one.get("at") and not one.get("combine") for one in behind):
        return None
    if len(set(written)) != 1 or any(dims != own.tile.dims for dims in tiles) or len(own.tile.dims) != _DIMS:
        return None
    column = written[0]
    (row,) = (dim for dim in own.tile.dims if dim != column)
    sizes = (kernel.waves_along(op["dim"]), own.tile.extent(row), own.tile.extent(column))
    shape = tuple(map(const, sizes[1:]))
    parts = Memory(f"{own.name}.parts", own.tile.dtype, (row, column), shape, "shared", span=op.span)
    parts = _of_waves(parts, sizes[0])
    return parts if _width(kernel, parts, machine) else None


def _width(kernel: Kernel, parts: Memory, machine: Machine) -> int:
    """Elements that a lane has side by side of a sum; 0 where that is not several, or not the same for all lanes."""
    (_, height, depth), lanes = (extent.value for extent in parts.shape), kernel.wave_count * kernel.lanes
    width = widest_spread((height, depth), machine.shared.access_bytes // parts.dtype.bytes, lanes)
    return width if width > 1 and height * depth % (width * lanes) == 0 else 0


def _is_branch(op: Op) -> bool:
    """Whether some workgroups do what is in a block, and others nothing."""
    return op.is_(ITERATE) and not op["dim"] and bool(op.get("once")) and not op.results


def _products(loop: Op, argument: Value, result: Value) -> list[Op]:
    """Those that add to a sum that a loop carries, from the last one on."""
    makers = {op.result.name: op for op in loop.body.ops if op.is_(MMA)}
    found = list[Op]()
    while result != argument:
        found.append(makers[result.name])
        result = found[-1].operands[2]
    return found

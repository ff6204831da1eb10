"""Tile kernel in, tile kernel out: sums of products whose elements along k waves share out are added up."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Value, attribute_pairs
from wavespec.ir.tile_ops import ITERATE, MMA, REGISTER
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.shared_sums import waves_of_sum
from wavespec.lower.split_k import is_sum
from wavespec.lower.tile_properties import products_have_instructions, tiles_have_extents, waves_are_summed_up
from wavespec.targets.machine import Machine


class JoinWaves(Pass):
    """Add up what the waves of a workgroup have summed along a dim that they share out.

    Before: each wave multiplies its own elements along k, and adds to what the product starts from.
    After:  it starts at zero; ``wave_sum`` adds up what all waves have, once behind the loop where that does nothing
            but add to the sums, and what the product started from is added to that.
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
        return replace(kernel, body=joining.block(kernel.body, frozenset()))


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


def _products(loop: Op, argument: Value, result: Value) -> list[Op]:
    """Those that add to a sum that a loop carries, from the last one on."""
    makers = {op.result.name: op for op in loop.body.ops if op.is_(MMA)}
    found = list[Op]()
    while result != argument:
        found.append(makers[result.name])
        result = found[-1].operands[2]
    return found

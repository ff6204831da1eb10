"""A read of a staged tile in; what its places depend on, as lanes that copy find it, out."""

from __future__ import annotations

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.names import operand_name
from wavespec.ir.tile_ops import READ
from wavespec.ops.index_map import index_of, value_symbol


class ComputedPlace(WavespecError, code="computed-place"):
    def __init__(self, where: Where, tensor: str, value: str) -> None:
        super().__init__(
            where,
            f"The tile of '{tensor}' is staged through shared memory, and its place depends on '{value}', "
            "which is computed; lanes that copy can only read what is in a tensor.",
            hints=[
                f"Keep '{tensor}' out of shared memory, 'space: global', or let '{value}' be what a 'read' gives: "
                f"arithmetic can stand in 'at' itself, such as 'at: {{dim: place + 1}}'."
            ],
        )


def places_behind(kernel: Kernel, op: Op) -> tuple[tuple[str, str, tuple[tuple[str, Expr], ...]], ...]:
    """What the places of a staged tile depend on, since lanes copy other elements than they compute with: each value as
    its symbol, and the tensor and place that it is read from. A place may depend on the values before it."""
    reads, computed = reads_behind(kernel, op)
    for name in computed:
        raise ComputedPlace(op.span, kernel.memory(op["memory"]).name, name)
    return tuple((_by_name(read.result), read["memory"], place_of(read, kernel)) for read in reversed(reads))


def reads_behind(kernel: Kernel, op: Op) -> tuple[list[Op], list[str]]:
    """The reads, the last one first, that the place of a tile depends on, and the names of what else it does."""
    missing, found = dict.fromkeys(value.name for value in op.operands), list[Op]()
    for read in reversed([known for known in kernel.walk() if known.is_(READ)]):
        if read.result.name in missing:
            del missing[read.result.name]
            missing |= dict.fromkeys(value.name for value in read.operands)
            found.append(read)
    return found, list(missing)


def place_of(read: Op, kernel: Kernel) -> tuple[tuple[str, Expr], ...]:
    """Where each element is read, the values it depends on called by their own names."""
    if not read.get("at"):
        return tuple((dim, index_of(dim)) for dim in kernel.memory(read["memory"]).dims)
    values = {
        operand_name(number): value_symbol(_by_name(value), value.tile.dtype)
        for number, value in enumerate(read.operands)
    }
    return tuple((dim, expr.substitute(values)) for dim, expr in read["at"])


def _by_name(value: Value) -> str:
    return f"value.{value.name}"

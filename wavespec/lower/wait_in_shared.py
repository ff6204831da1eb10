"""Loads of the next tile go in; copies of theirs to shared memory, and loads of what has landed there, come out."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op, attribute_pairs
from wavespec.ir.layout import row_major
from wavespec.ir.nodes import replace
from wavespec.ir.thread_ops import ASYNC_COMMIT, ASYNC_WAIT, COPY_ASYNC
from wavespec.ops.staged_writes import shared_bytes_of_all
from wavespec.schedule.buffer_ring import make
from wavespec.targets.machine import Machine


class Waiting:
    """What a tile needs of the inputs waits in shared memory for its turn, as lanes have no registers for it.

    Each lane has places of its own there: it awaits its own copies, reads what they brought and has them overwritten
    behind that, so nobody meets.  A copy begins behind the instruction that starts it, which stands behind the loads
    of what was there before.
    """

    def __init__(self, kernel: Kernel, machine: Machine, loads: Sequence[Op]) -> None:
        """``loads``: of one lane for one tile.  Those that the machine can copy wait, as far as there is room."""
        free = machine.shared.bytes // kernel.distribution.resident - shared_bytes_of_all(kernel.memories)
        self._threads = kernel.threads
        self._thread = kernel.wave_number * kernel.lanes + kernel.symbol("lane")
        found: list[Op] = []
        for op in loads:
            needed = op.result.vector.elements * kernel.memory(op["memory"]).dtype.bytes * kernel.threads
            if _can_be_copied(kernel, machine, op) and needed <= free:
                found.append(op)
                free -= needed
        self.loads = tuple(found)
        self._names = {op["memory"]: f"{op['memory']}.ahead" for op in found}
        self.memories = tuple(self._memory(kernel, found, name) for name in self._names)

    def _memory(self, kernel: Kernel, copied: Sequence[Op], name: str) -> Memory:
        elements = sum(op.result.vector.elements for op in copied if op["memory"] == name) * self._threads
        dtype, dims = kernel.memory(name).dtype, ("element",)
        place = row_major(dims, (elements,))
        return Memory(self._names[name], dtype, dims, (const(elements),), "shared", arrangement=place, own=True)

    def copies(self, moved: Sequence[Op]) -> tuple[Op, ...]:
        """``moved``: the same loads for another tile."""
        if not moved:
            return ()
        made = (
            make(
                COPY_ASYNC.name,
                source=op["memory"],
                source_offset=op["offset"],
                memory=self._names[op["memory"]],
                offset=place,
                elements=op.result.vector.elements,
                buffer=const(0),
                mask=op["mask"],
                valid=None,
                **{key: op[key] for key in ("around", "cache") if op.get(key)},
            )
            for op, place in zip(moved, self._places(), strict=True)
        )
        return (*made, make(ASYNC_COMMIT.name))

    def landed(self) -> tuple[Op, ...]:
        """The loads of what has been copied, behind a wait for it."""
        loads: list[Op] = []
        for op, place in zip(self.loads, self._places(), strict=True):
            at = {"memory": self._names[op["memory"]], "offset": place, "buffer": const(0), "mask": (), "valid": None}
            loads.append(replace(op, attributes=attribute_pairs(at)))
        return (*self.over(), *loads)

    def over(self) -> tuple[Op, ...]:
        """Behind the last tile copies of none are still under way."""
        return (make(ASYNC_WAIT.name, pending=0),) if self.loads else ()

    def _places(self) -> list[Expr]:
        """Of each load, where this lane has its elements: a row of all lanes for each."""
        taken = dict.fromkeys(self._names, 0)
        places: list[Expr] = []
        for op in self.loads:
            elements = op.result.vector.elements
            places.append(self._thread * elements + taken[op["memory"]] * self._threads)
            taken[op["memory"]] += elements
        return places


def _can_be_copied(kernel: Kernel, machine: Machine, op: Op) -> bool:
    """Whether a load is one copy of the machine from an aligned place."""
    copies, source, elements = machine.globals.async_copies, kernel.memory(op["memory"]), op.result.vector.elements
    if copies.in_lane_order or op["valid"] is not None or elements * source.dtype.bytes not in copies.bytes:
        return False
    is_plain = op.result.vector.dtype == source.dtype and not source.is_packed and not source.is_strided
    return is_plain and (op.get("around", False) or op["offset"].divisor % elements == 0)

"""Loads of the next tile go in; copies of theirs to shared memory, and loads of what has landed there, come out."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.ir.kernel import Kernel, Op, attribute_pairs
from wavespec.ir.nodes import replace
from wavespec.ir.thread_ops import ASYNC_COMMIT, ASYNC_WAIT, COPY_ASYNC
from wavespec.lower.places_of_lanes import PlacesOfLanes
from wavespec.lower.workgroups_together import shared_bytes_left
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
        free = shared_bytes_left(kernel, machine)
        found: list[Op] = []
        for op in loads:
            needed = op.result.vector.elements * kernel.memory(op["memory"]).dtype.bytes * kernel.threads
            if _can_be_copied(kernel, machine, op) and needed <= free:
                found.append(op)
                free -= needed
        self.loads = tuple(found)
        waiting = [
            (f"{op['memory']}.ahead", kernel.memory(op["memory"]).dtype, op.result.vector.elements) for op in found
        ]
        own = PlacesOfLanes(kernel, waiting)
        self.memories, self._places = own.memories, own.places

    def copies(self, moved: Sequence[Op]) -> tuple[Op, ...]:
        """``moved``: the same loads for another tile."""
        if not moved:
            return ()
        made = (
            make(
                COPY_ASYNC.name,
                source=op["memory"],
                source_offset=op["offset"],
                elements=op.result.vector.elements,
                **{**place, "mask": op["mask"]},
                **{key: op[key] for key in ("around", "cache") if op.get(key)},
            )
            for op, place in zip(moved, self._places, strict=True)
        )
        return (*made, make(ASYNC_COMMIT.name))

    def landed(self) -> tuple[Op, ...]:
        """The loads of what has been copied, behind a wait for it."""
        loads = (
            replace(op, attributes=attribute_pairs(place)) for op, place in zip(self.loads, self._places, strict=True)
        )
        return (*self.over(), *loads)

    def over(self) -> tuple[Op, ...]:
        """Behind the last tile copies of none are still under way."""
        return (make(ASYNC_WAIT.name, pending=0),) if self.loads else ()


def _can_be_copied(kernel: Kernel, machine: Machine, op: Op) -> bool:
    """Whether a load is one copy of the machine from an aligned place."""
    copies, source, elements = machine.globals.async_copies, kernel.memory(op["memory"]), op.result.vector.elements
    if copies.in_lane_order or op["valid"] is not None or elements * source.dtype.bytes not in copies.bytes:
        return False
    is_plain = op.result.vector.dtype == source.dtype and not source.is_packed and not source.is_strided
    return is_plain and (op.get("around", False) or op["offset"].divisor % elements == 0)

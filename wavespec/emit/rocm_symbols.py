"""Index symbols of functions for CDNA: what each is, and whether it differs between lanes or changes inside of loops."""

from __future__ import annotations

import re

from wavespec.emit.function import Emitter, Function
from wavespec.emit.lane_operations import LaneOperations
from wavespec.emit.launch import lanes_and_waves, translation, workgroup_ids
from wavespec.ir.kernel import Op
from wavespec.ir.thread_ops import COPY_ASYNC, LET


class RocmSymbols(Emitter):
    """``varying``: what differs between lanes; ``data``: what was read; ``outside``: what is known outside of all loops
    over one tile; ``workgroups``: the places in the grid."""

    def __init__(self, function: Function, lanes: LaneOperations) -> None:
        super().__init__(function)
        self.lanes, self.thread = lanes, ""
        self.varying = frozenset({"lane", *(name for name, _ in self.kernel.waves)})
        self.data: frozenset[str] = frozenset()
        self.outside: frozenset[str] = frozenset()
        self.workgroups: frozenset[str] = frozenset()

    def begin(self) -> None:
        self.function.attributes.append(translation(self.function))
        workgroup_ids(self.function)
        thread = self.text.op(f"gpu.thread_id x upper_bound {self.kernel.threads}")
        self.thread = self.text.op(f"arith.index_cast {thread} : index to i32")
        # In a scalar register, where copies name their place in shared memory by it.
        copies = any(op.is_(COPY_ASYNC) for op in self.kernel.walk())
        lanes_and_waves(self.function, self.thread, self._first_lane if copies else None)
        # `let` says later what a place in the grid is that the launch does not know.
        self.outside = frozenset(self.indices.symbols) - {op["symbol"] for op in self.kernel.walk() if op.is_(LET)}
        self.workgroups = frozenset(name for name in self.outside if re.fullmatch(r"wg\d+", name))

    def _first_lane(self, wave: str) -> str:
        return self.lanes.uniform(wave, 32)

    def emit_bind(self, op: Op) -> None:
        self.lanes.emit_bind(op)
        self.data |= {op["symbol"]}
        if not op.get("uniform"):
            self.varying |= {op["symbol"]}

    def emit_let(self, op: Op) -> None:
        """A place in the grid: along an axis that was folded, or of the tile that a round is for."""
        self.lanes.emit_let(op)
        self.outside |= {op["symbol"]}
        self.workgroups |= {op["symbol"]}

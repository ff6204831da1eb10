"""A thread kernel in; the barriers out at which accesses of LDS may be in flight that LLVM does not see."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import BARRIER, COPY_ASYNC, IF, READS_MEMORY, WRITES_MEMORY

_WRITE = ""
_Flight = frozenset[str]
"""The values that are being read from shared memory, and ``_WRITE`` where something is being written."""


class UnseenAccesses:
    """Finds barriers that another block's accesses may reach in flight.

    LLVM makes a wait of each barrier's fence, and takes it out again where it finds nothing in flight; at the start of a
    loop it can do so before it has seen what the loop's end leaves (LLVM 22).  Accesses of the barrier's own block it
    does see.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._shared = frozenset(memory.name for memory in kernel.memories if memory.space == "shared")
        self._found: set[int] = set()
        self._block(kernel.body, frozenset())

    def meets(self, barrier: Op) -> bool:
        """Whether this operation of the kernel needs a wait of its own."""
        return id(barrier) in self._found

    def _block(self, ops: Sequence[Op], flight: _Flight) -> _Flight:
        """What is in flight behind operations; ``flight``: before them."""
        seen = False
        for op in ops:
            flight -= {value.name for value in op.operands}
            if op.region:
                flight, seen = self._region(op, flight), False
            elif op.is_(BARRIER):
                if flight and not seen:
                    self._found.add(id(op))
                flight = frozenset()
            elif accessed := self._accessed(op):
                flight, seen = flight | accessed, True
        return flight

    def _region(self, op: Op, flight: _Flight) -> _Flight:
        """Of a body that runs or does not; that of a loop meets what it leaves."""
        left = self._block(op.body.ops, flight)
        if not op.is_(IF) and not left <= flight:
            left |= self._block(op.body.ops, flight | left)
        return flight | left

    def _accessed(self, op: Op) -> _Flight:
        if op.is_(COPY_ASYNC) or op.get("memory") not in self._shared:
            return frozenset()
        read = {value.name for value in op.results} if op.is_(READS_MEMORY) else set[str]()
        return frozenset(read | {_WRITE} if op.is_(WRITES_MEMORY) else read)

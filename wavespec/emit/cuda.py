"""Functions for NVIDIA machines: which emitters write them, how they begin, and products of one wave."""

from __future__ import annotations

from wavespec.emit.atomics import Atomics
from wavespec.emit.cuda_lanes import CudaLanes
from wavespec.emit.cuda_memory import CudaMemory
from wavespec.emit.cuda_products import mma_sync, mma_sync_split, outer_product, outer_product_of_sums, word_type
from wavespec.emit.function import Emitter, Function
from wavespec.emit.hopper import AsyncProducts, Barriers, Roles
from wavespec.emit.hopper_copies import BulkCopies
from wavespec.emit.lane_operations import Shuffles
from wavespec.emit.launch import lanes_and_waves, translation, workgroup_ids
from wavespec.emit.loops import AS_SCHEDULED, Loops
from wavespec.emit.registers import Part
from wavespec.emit.scheduling import LeftToTheCompiler
from wavespec.emit.shared_divisor import SharedDivisors
from wavespec.emit.store_runs import StoreRuns
from wavespec.emit.traded_stores import TradedStores
from wavespec.emit.warp_joins import WarpJoins
from wavespec.ir.kernel import Op
from wavespec.ir.thread_ops import ELEMENTWISE, MMA, MMA_ASYNC, ROLE, STORE

# How an instruction family is emitted, and whether it takes its operands as 32-bit words.
_PRODUCTS = {
    "fma": (outer_product, False),
    "fma_sums": (outer_product_of_sums, False),
    "mma_sync": (mma_sync, True),
    "mma_sync_split": (mma_sync_split, True),
}

_BESIDE_LANES = Roles.operations() | BulkCopies.operations() | AsyncProducts.operations()
"""Waves with roles, copy engines and matrix units that work on their own."""


def use_cuda(function: Function) -> None:
    """Have a function written for the ``cuda`` backend."""
    beside_lanes = any(op.name in _BESIDE_LANES for op in function.kernel.walk())
    memory, roles = CudaMemory(function, swizzled_tiles=beside_lanes), Roles(function) if beside_lanes else None
    lanes = CudaLanes(function, memory.matrices)
    function.use(memory, CudaFrame(function, roles), Atomics(function, memory, 'syncscope("device") monotonic'))
    shuffles = Shuffles(function, lanes.word_of_lane, lanes.word_from_lane)
    function.use(lanes, shuffles, Loops(function, lanes, attribute=AS_SCHEDULED, same_in_wave=lanes.same_in_wave))
    function.use(WarpJoins(function), CudaProducts(function, lanes), Barriers(function), LeftToTheCompiler(function))
    if not any(op.is_(MMA, MMA_ASYNC) for op in function.kernel.walk()):  # sums of products leave no room for two forms
        divisors = SharedDivisors(function, lanes)
        function.use(divisors)
        function.together(divisors.run, ELEMENTWISE)
    if roles:
        function.use(BulkCopies(function, memory), roles, AsyncProducts(function, lanes, memory))
        function.together(roles.run, ROLE)
    traded = TradedStores(function, lanes.word_of_lane, memory.address_of)
    function.together(traded.run, STORE)
    function.together(StoreRuns(function, memory.forms).run, STORE)


class CudaFrame(Emitter):
    """Finds out which lane of which wave of which workgroup this is."""

    def __init__(self, function: Function, roles: Roles | None) -> None:
        super().__init__(function)
        self.roles = roles

    def begin(self) -> None:
        self.function.attributes.append(translation(self.function))
        if self.kernel.launched is not None:
            self.function.attributes.append(f"nvvm.maxnreg = {self.kernel.distribution.registers} : i32")
        elif self.kernel.distribution.resident > 1:
            self.function.attributes.append(f"nvvm.minctasm = {self.kernel.distribution.resident} : i32")
        workgroup_ids(self.function)
        thread = self.text.op("nvvm.read.ptx.sreg.tid.x : i32")
        lanes_and_waves(self.function, thread, self.roles.uniform if self.roles else None)


class CudaProducts(Emitter):
    """Matrix instructions and multiply-adds that end before the next instruction."""

    def __init__(self, function: Function, lanes: CudaLanes) -> None:
        super().__init__(function)
        self.lanes = lanes

    def emit_mma(self, op: Op) -> None:
        row, a, b, acc = self.function.product_of(op)
        make, in_words = _PRODUCTS[row.emit.split(":")[0]]
        left, right = (
            self.lanes.words(value, word_type(row)) if in_words else self.function.scalars(value) for value in (a, b)
        )
        names = make(self.text, row, left, right, self.function.scalars(acc))
        self.values[op.result.name] = tuple(Part(name, 1) for name in names)

"""Functions for CPUs: what a thread that runs workgroups one after another begins and ends with."""

from __future__ import annotations

from wavespec.emit.amx import Tiles, uses_tiles
from wavespec.emit.cpu_atomics import CpuAtomics
from wavespec.emit.cpu_lanes import CpuLanes
from wavespec.emit.cpu_memory import CpuMemory
from wavespec.emit.cpu_products import CpuProducts
from wavespec.emit.float_modes import float_modes
from wavespec.emit.function import Emitter, Function
from wavespec.emit.lane_operations import LaneOperations
from wavespec.emit.launch import workgroup_ids
from wavespec.emit.loops import Loops
from wavespec.emit.registers import mlir_type
from wavespec.emit.scheduling import LeftToTheCompiler
from wavespec.emit.shared_divisor import SharedDivisors
from wavespec.emit.word_tables import WordTables
from wavespec.emit.zeros import local_memory
from wavespec.ir.kernel import Op
from wavespec.ir.thread_ops import ACCUMULATE, ATOMIC, ELEMENTWISE, FOR, LOAD, STORE

_MANY_ACCESSES = 256
"""Vectors that one step of a loop loads and stores, from which on it is a long loop."""


def use_cpu(function: Function) -> None:
    """Have a function written for the ``llvm-cpu`` backend."""
    lanes = CpuLanes(function)
    frame = CpuFrame(function, lanes)
    memory = CpuMemory(function, lanes, frame.buffers)
    loops = Loops(function, lanes, end_body=frame.end_body)
    divisors = SharedDivisors(function, lanes)
    tables = WordTables(function, lanes)
    products = CpuProducts(function, lanes, loops, tables)
    function.use(
        frame,
        lanes,
        divisors,
        loops,
        LeftToTheCompiler(function),
        memory,
        CpuAtomics(function, memory, lanes),
        tables,
        products,
    )
    function.together(divisors.run, ELEMENTWISE)
    function.together(memory.run, LOAD | STORE | ACCUMULATE | ATOMIC)
    if uses_tiles(function.kernel, function.machine):
        function.use(Tiles(function, lanes, memory, products, frame.buffers))


class CpuFrame(Emitter):
    """Gets hold of memories, and says what numbers below the smallest normal one are.  ``buffers``: of each memory, its
    ``memref`` and the type of that."""

    def __init__(self, function: Function, lanes: LaneOperations) -> None:
        super().__init__(function)
        self.lanes = lanes
        self.buffers: dict[str, tuple[str, str]] = {}
        self.modes = float_modes(function.text, function.machine)

    def begin(self) -> None:
        function = self.function
        function.attributes.append(
            "translation_info = #iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline>"
        )
        zero = self.text.constant(0, "index")
        self.modes.set_small_numbers(are_kept=not self.kernel.flushes)
        for number, memory in enumerate(function.tensors()):
            type_ = f"memref<?x{mlir_type(memory.dtype)}, #hal.descriptor_type<storage_buffer>>"
            read_only = " flags(ReadOnly)" if memory.role == "input" else ""
            count = self.indices.index(memory.elements)
            name = self.text.op(
                f"hal.interface.binding.subspan layout({function.layout}) binding({number}) alignment(16) offset({zero}){read_only} : {type_}{{{count}}}"
            )
            self.buffers[memory.name] = name, type_
        for memory in self.kernel.memories:
            if memory.space != "global":
                elements, element = memory.elements.value * memory.buffers, mlir_type(memory.dtype)
                self.buffers[memory.name] = local_memory(self.text, elements, element)
        workgroup_ids(function)

    def end(self) -> None:
        if any(
            op.is_(STORE) and op.get("cache") for op in self.kernel.walk()
        ):  # no other store waits for streamed ones
            self.modes.order_streamed_stores()
        self.modes.give_back()

    def end_body(self, op: Op) -> None:
        """Close long loops with an access that stays.

        LLVM compares each access of an innermost loop with each other one, to see whether it could be vectorized or its
        loads be carried, which for 800 of them takes 16 of 18 seconds and finds nothing.  It gives up at an access that
        it must not move, of which this is the cheapest.
        """
        if any(inner.is_(FOR) for one in op.body.ops for inner in one.walk()):
            return
        accesses = (inner for one in op.body.ops for inner in one.walk() if inner.get("memory"))
        if sum(map(self._vectors_accessed, accesses)) > _MANY_ACCESSES:
            self.text.op(f"llvm.load volatile {self.modes.memory} : !llvm.ptr -> i32")

    def _vectors_accessed(self, op: Op) -> int:
        value, *_ = (*op.operands, *op.results, None)
        return len(self.lanes.native_sizes(value.vector.dtype, value.vector.elements)) if value else 0

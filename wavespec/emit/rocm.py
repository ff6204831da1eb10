"""Functions for CDNA: which emitters write them, what one lane does with registers, MFMA and the order of instructions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wavespec.emit.atomics import Atomics
from wavespec.emit.function import Emitter, Function
from wavespec.emit.lane_operations import LaneOperations, Shuffles
from wavespec.emit.loops import AS_SCHEDULED, Loops
from wavespec.emit.registers import Part, vector_type
from wavespec.emit.rocm_barriers import UnseenAccesses
from wavespec.emit.rocm_memory import LDS, RocmMemory
from wavespec.emit.rocm_symbols import RocmSymbols
from wavespec.emit.store_runs import StoreRuns
from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.kernel import Op
from wavespec.ir.thread_ops import STORE

_LARGEST_NAN = 0x7FFF0000  # of f32, that rounds to one of bf16
_BOUNDS = {"fmax": math.inf, "fmin": -math.inf}
_NO_LDS_IN_FLIGHT = 0xC07F  # of s_waitcnt on GFX9: any number of accesses of memory, none of LDS
_GROUPS = {"matrix": "mfma_wmma", "shared_load": "ds_read", "copy": "ldsdma", "global_load": "vmem_read"}

# Tensors lie in memory of the device, where the machine's own instructions are atomic; without these words the compiler
# behind has to assume memory of the host, and compares and swaps.
_ATOMIC_ORDER = 'syncscope("agent") monotonic {rocdl.no_fine_grained_memory, rocdl.no_remote_memory}'


def use_rocm(function: Function) -> None:
    """Have a function written for the ``rocm`` backend."""
    lanes = RocmLanes(function)
    symbols = RocmSymbols(function, lanes)
    memory = RocmMemory(function, symbols)
    function.use(memory, Atomics(function, memory, _ATOMIC_ORDER), lanes, symbols)
    shuffles = Shuffles(function, lanes.word_of_lane, lanes.word_from_lane)
    function.use(shuffles, Loops(function, lanes, attribute=AS_SCHEDULED))
    function.use(RocmProducts(function), RocmOrder(function, symbols))
    function.together(StoreRuns(function, memory.forms).run, STORE)


class RocmLanes(LaneOperations):
    """Whole values in vectors, as LLVM takes them apart best."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.powers = set[str]()
        """Values that are positive, or NaN of any sign."""

    def emit_elementwise(self, op: Op) -> None:
        super().emit_elementwise(op)
        if op["function"] == "exp2":
            self.powers.add(op.result.name)

    def emit_cast(self, op: Op) -> None:
        """Powers that no instruction rounds are rounded by words: their NaN are below the largest one, as integers."""
        (value,), dtype = op.operands, op.result.vector.dtype
        if value.name not in self.powers or dtype.name != "bf16" or dtype.name in self.machine.rounded_types:
            super().emit_cast(op)
            return
        parts = (Part(self._positive_as_bf16(part.name, part.size), part.size) for part in self.function.held(value))
        self.values[op.result.name] = tuple(parts)

    def _positive_as_bf16(self, name: str, size: int) -> str:
        kinds = {dtype: vector_type(DTYPES[dtype], size) for dtype in ("f32", "i32", "i16", "bf16")}
        word = kinds["i32"]
        bits = self.text.op(f"arith.bitcast {name} : {kinds['f32']} to {word}")
        bits = self.text.op(f"arith.minui {bits}, {self.text.constant(_LARGEST_NAN, word)} : {word}")
        sixteen, one = (self.text.constant(number, word) for number in (16, 1))
        odd = self.text.op(f"arith.shrui {bits}, {sixteen} : {word}")
        odd = self.text.op(f"arith.andi {odd}, {one} : {word}")
        half = self.text.op(f"arith.addi {odd}, {self.text.constant(0x7FFF, word)} : {word}")
        bits = self.text.op(f"arith.addi {bits}, {half} : {word}")
        bits = self.text.op(f"arith.shrui {bits}, {sixteen} : {word}")
        short = self.text.op(f"arith.trunci {bits} : {word} to {kinds['i16']}")
        return self.text.op(f"arith.bitcast {short} : {kinds['i16']} to {kinds['bf16']}")

    def uniform(self, name: str, bits: int) -> str:
        return self.text.op(f"rocdl.readfirstlane {name} : i{bits}")

    def exp2(self, name: str, size: int) -> str:
        if size == 1:
            return self.text.op(f"rocdl.exp2 {name} f32 -> f32")
        kind = f"vector<{size}xf32>"
        elements = [self.text.op(f"vector.extract {name}[{i}] : f32 from {kind}") for i in range(size)]
        powers = ", ".join(self.exp2(element, 1) for element in elements)
        return self.text.op(f"vector.from_elements {powers} : {kind}")

    def step(self, function: str, names: Sequence[str], dtype: DType, size: int) -> str:
        """Extremes of numbers alone are a median with an infinity, for which LLVM quiets fewer operands before."""
        if function not in _BOUNDS:
            return super().step(function, names, dtype, size)
        kind = vector_type(dtype, size)
        if dtype.name != "f32":
            number = {"fmax": "maxnum", "fmin": "minnum"}[function]
            return self.text.op(f"llvm.intr.{number}({', '.join(names)}) : ({kind}, {kind}) -> {kind}")
        bound = self.text.constant(_BOUNDS[function], "f32")
        made = list[str]()
        for number in range(size):
            pair = names
            if size > 1:
                pair = [self.text.op(f"vector.extract {name}[{number}] : f32 from {kind}") for name in names]
            called = f'llvm.call_intrinsic "llvm.amdgcn.fmed3.f32"({", ".join(pair)}, {bound})'
            made.append(self.text.op(f"{called} : (f32, f32, f32) -> f32"))
        return made[0] if size == 1 else self.text.op(f"vector.from_elements {', '.join(made)} : {kind}")

    def word_of_lane(self, word: str, mask: int) -> str:
        distance, width = (self.text.constant(value, "i32") for value in (mask, self.machine.lanes))
        result = self.text.name()
        self.text.do(f"{result}:2 = gpu.shuffle xor {word}, {distance}, {width} : i32")
        return f"{result}#0"

    def word_from_lane(self, word: str, lane: int, lanes: int) -> str:
        place, width = (self.text.constant(value, "i32") for value in (lane, lanes))
        result = self.text.name()
        self.text.do(f"{result}:2 = gpu.shuffle idx {word}, {place}, {width} : i32")
        return f"{result}#0"


class RocmProducts(Emitter):
    """Matrix instructions of one wave."""

    def emit_mma(self, op: Op) -> None:
        row, *values = self.function.product_of(op)
        a, b, acc = (self.function.whole(value) for value in values)
        types = ", ".join(vector_type(value.vector.dtype, value.vector.elements) for value in values)
        result = self.text.op(f"amdgpu.mfma {row.m}x{row.n}x{row.k} {a} * {b} + {acc} : {types}")
        self.values[op.result.name] = (Part(result, values[-1].vector.elements),)


class RocmOrder(Emitter):
    """When waves wait for each other, and what the compiler behind may move where."""

    def __init__(self, function: Function, symbols: RocmSymbols) -> None:
        super().__init__(function)
        self.symbols = symbols
        self.unseen = UnseenAccesses(self.kernel)

    def emit_barrier(self, op: Op) -> None:
        if self.unseen.meets(op):
            self.text.do(f"rocdl.s.waitcnt {_NO_LDS_IN_FLIGHT}")
        self.text.do(f"gpu.barrier memfence [{LDS}]")

    def emit_stagger(self, op: Op) -> None:
        """One half of the waves waits for a barrier that the other half reaches a phase later."""
        half = self.text.constant(self.kernel.threads // 2, "i32")
        order = "uge" if op["ahead"] == 1 else "ult"
        condition = self.text.op(f"arith.cmpi {order}, {self.symbols.thread}, {half} : i32")
        self.text.do(f"scf.if {condition} {{ rocdl.s.barrier }}")

    def emit_schedule_fence(self, op: Op) -> None:
        self.text.do("amdgpu.sched_barrier allow = none")

    def emit_schedule_group(self, op: Op) -> None:
        self.text.do(f"rocdl.sched.group.barrier {_GROUPS[op['kind']]}, {op['count']}, 0")

    def emit_priority(self, op: Op) -> None:
        self.text.do(f"rocdl.s.setprio {op['level']}")

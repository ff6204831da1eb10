"""Functions for NVIDIA machines whose matrix unit reads shared memory: roles of waves, and `wgmma`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from wavespec.emit.cuda_lanes import CudaLanes
from wavespec.emit.cuda_memory import CudaMemory
from wavespec.emit.function import Emitter, Function
from wavespec.emit.hopper_products import TIED, packed, tied, undefined, unpacked, wgmma
from wavespec.emit.matrix_descriptor import FIELD, has_leading_dim, matrix_descriptor
from wavespec.emit.registers import Part, mlir_type, vector_type
from wavespec.ir.expr import Expr, as_expr, const
from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.thread_ops import BARRIER, CONSTANT, FOR, MMA_ASYNC, MMA_COMMIT, MMA_FENCE, MMA_WAIT, ROLE
from wavespec.targets.machine import Machine


class Roles(Emitter):
    """Waves that do different things."""

    def begin(self) -> None:
        """How many workgroups a processor has: without it the assembler ignores what a role says of registers."""
        if self.kernel.distribution.resident == 1 and self.kernel.launched is None:
            self.function.attributes.append(f"nvvm.minctasm = {self._together} : i32")

    @property
    def _together(self) -> int:
        """Workgroups that run on one processor beside each other: as many as the schedule says, or as the registers of
        their roles leave room for."""
        roles = [op for op in self.kernel.body if op.is_(ROLE)]
        needed = sum(self.kernel.lanes * role["waves"] * role["registers"] for role in roles)
        by_registers = self.machine.workgroups_by_registers(needed, self.kernel.threads) if needed else 1
        return max(self.machine.workgroups_together(self.kernel.distribution.workers), by_registers)

    def uniform(self, wave: str) -> str:
        """The number of the wave, broadcast from the first lane, so that the assembler knows it to be the same for all of
        a warp."""
        everyone, first, clamp = (self.text.constant(value, "i32") for value in (-1, 0, 31))
        self.wave = self.text.op(f"nvvm.shfl.sync idx {everyone}, {wave}, {first}, {clamp} : i32 -> i32")
        return self.wave

    def run(self, ops: Sequence[Op], start: int) -> int:
        roles = list(takewhile(lambda op: op.is_(ROLE), ops[start:]))
        self._roles(roles)
        return start + len(roles)

    def emit_role(self, op: Op) -> None:
        self._roles([op])

    def _roles(self, roles: Sequence[Op]) -> None:
        """Arms of one branch, which all lanes of a wave take the same way."""
        role, *others = roles
        self.text.span = role.span
        first, waves = self.indices.integer(as_expr(role["first"]), 32), self.text.constant(role["waves"], "i32")
        number = self.text.op(f"arith.subi {self.wave}, {first} : i32")
        condition = self.text.op(f"arith.cmpi ult, {number}, {waves} : i32")
        body = self.function.nested(lambda: self._role_body(role))
        rest = self.function.nested(lambda: self._roles(others)) if others else None
        self.text.branch(condition, body, rest)

    def _role_body(self, role: Op) -> None:
        launched = self.machine.registers_at_launch(self.kernel.threads * self._together)
        if role["registers"] not in (0, launched):
            verb = "increase" if role["registers"] > launched else "decrease"
            self.text.do(f"nvvm.setmaxregister {verb} {role['registers']}")
        self.function.block(role.body.ops)


class Barriers(Emitter):
    """All waves of a workgroup meet, or some of them."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.numbers = _barrier_numbers(self.kernel, self.machine)

    def emit_barrier(self, op: Op) -> None:
        if op.get("first") is None:
            self.text.do("nvvm.barrier")
            return
        if _is_of_one_warp(self.kernel, self.machine, op):
            self.text.do(f"nvvm.bar.warp.sync {self.text.constant(-1, 'i32')} : i32")
            return
        number = self.indices.integer(self.numbers[as_expr(op["first"]), op["waves"]], 32)
        lanes = self.text.constant(op["waves"] * self.kernel.lanes, "i32")
        self.text.do(f"nvvm.barrier id = {number} number_of_threads = {lanes}")


class AsyncProducts(Emitter):
    """The matrix unit that works while lanes go on, and the instruction that stores what it made."""

    def __init__(self, function: Function, lanes: CudaLanes, memory: CudaMemory) -> None:
        super().__init__(function)
        self.lanes, self.memory = lanes, memory
        self._structs: dict[tuple[str, ...], str] = {}
        self._makers = {value.name: op for op in self.kernel.walk() for value in op.results}
        self._batches = dict(_batches(self.kernel.body))

    def emit_mma_fence(self, op: Op) -> None:
        """What was computed stays above the fence; the assembler would serialise products that it finds between."""
        for value in self._batches[id(op)]:
            maker = self._makers.get(value.name)
            if maker is not None and not maker.is_(CONSTANT, FOR, MMA_ASYNC, MMA_WAIT):
                self.function.renamed.append((value.name, self.values[value.name]))
                self._tie(value, value)
        self.text.do("nvvm.wgmma.fence.aligned")

    def emit_mma_async(self, op: Op) -> None:
        name, _, swapped = op["instruction"].partition(":")
        row = self.machine.instruction(name)
        assert row is not None
        left, right = ("b", "a") if swapped else ("a", "b")
        *words, total = op.operands
        element, count = mlir_type(row.acc.dtype), row.acc.layout.elements
        maker = self._makers.get(total.name)
        is_zero = maker is not None and maker.is_(CONSTANT) and maker["value"] == 0
        a = self.lanes.words(words[0], "i32") if words else self._descriptor(op, left)
        majors = "k" if words else op.attribute(f"{left}_major"), op.attribute(f"{right}_major")
        struct = undefined(self.text, element, count) if is_zero else self._struct(total, element)
        fresh = is_zero or bool(op.get("fresh"))
        result = wgmma(self.text, row, a, self._descriptor(op, right), struct, majors, fresh=fresh)
        registers = unpacked(self.text, result, element, count)
        self._structs[tuple(registers)] = result
        self.values[op.result.name] = tuple(Part(name, 1) for name in registers)

    def _struct(self, value: Value, element: str) -> str:
        """Accumulators in the form of the instruction: as the one before left them, where there is one."""
        names = tuple(self.function.scalars(value))
        return self._structs.get(names) or packed(self.text, names, element)

    def emit_mma_commit(self, op: Op) -> None:
        self.text.do("nvvm.wgmma.commit.group.sync.aligned")

    def emit_mma_wait(self, op: Op) -> None:
        """The values go through the wait, so that nothing reads them above it."""
        self.text.do(f"nvvm.wgmma.wait.group.sync.aligned {op['pending']}")
        for value, result in zip(op.operands, op.results, strict=True):
            self._tie(value, result)

    def _tie(self, value: Value, result: Value) -> None:
        dtype = value.vector.dtype
        size = max(1, 4 // dtype.bytes)
        type_ = vector_type(dtype, size)
        element = type_ if type_ in TIED else "i32"
        words = self.function.scalars(value) if type_ == element else self.lanes.words(value, element)
        names = tied(self.text, words, element)
        if type_ != element:
            names = [self.text.op(f"llvm.bitcast {name} : {element} to {type_}") for name in names]
        self.values[result.name] = tuple(Part(name, size) for name in names)

    def _descriptor(self, op: Op, side: str) -> str:
        """Constant bits and the address of a tile in units of 16 bytes, which is the same for all lanes of a wave."""
        memory = self.kernel.memory(op.attribute(f"{side}_memory"))
        assert memory.arrangement is not None
        major = op.attribute(f"{side}_major")
        bits = matrix_descriptor(memory.arrangement, memory.dtype.bytes, major)
        offset: Expr = op.attribute(f"{side}_offset") + op.attribute(f"{side}_buffer") * memory.elements
        constant = offset.constant_part()
        start = self.text.op(f"llvm.ptrtoint {self.memory.address(memory, offset - constant)} : !llvm.ptr<3> to i32")
        units = self.text.op(f"arith.shrui {start}, {self.text.constant(4, 'i32')} : i32")
        if self.kernel.cluster > 1 and has_leading_dim(memory.arrangement, memory.dtype.bytes, major):
            # In a cluster an address of shared memory has the workgroup's number above its 18 bits.
            units = self.text.op(f"arith.andi {units}, {self.text.constant(FIELD, 'i32')} : i32")
        low = self.text.constant((bits & 0xFFFFFFFF) + constant * memory.dtype.bytes // 16, "i32")
        name = self.text.op(f"arith.addi {units}, {low} : i32")
        name = self.text.op(f"arith.extui {name} : i32 to i64")
        high = self.text.constant((bits >> 32 << 32) - (1 << 64 if bits >> 63 else 0), "i64")
        return self.text.op(f"arith.ori {name}, {high} : i64")

    def emit_store_matrix(self, op: Op) -> None:
        memory, (value,) = self.function.memory_of(op), op.operands
        place = self.memory.address(memory, self.function.buffered(op, memory))
        words = self.lanes.words(value, "i32")
        order = "col" if op["transposed"] else "row"
        attributes = (
            f"layout = #nvvm.mma_layout<{order}>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, "
            "eltType = #nvvm.ld_st_matrix_elt_type<b16>"
        )
        types = ", ".join(["!llvm.ptr<3>", *["i32"] * op["count"]])
        self.text.do(f'"nvvm.stmatrix"({", ".join([place, *words])}) <{{{attributes}}}> : ({types}) -> ()')


def _is_of_one_warp(kernel: Kernel, machine: Machine, op: Op) -> bool:
    """Whether lanes meet that run in lockstep, which takes none of the hardware's barriers."""
    return op["waves"] * kernel.lanes == machine.lanes


def _barrier_numbers(kernel: Kernel, machine: Machine) -> dict[tuple[Expr, int], Expr]:
    """The hardware's barrier for each ``first`` and ``waves``; 0 is the one of the whole workgroup."""
    numbers: dict[tuple[Expr, int], Expr] = {}
    free = 1
    for op in kernel.walk():
        if not op.is_(BARRIER) or op.get("first") is None or _is_of_one_warp(kernel, machine, op):
            continue
        first, waves = as_expr(op["first"]), op["waves"]
        if (first, waves) not in numbers:
            numbers[first, waves] = const(free) if first.is_const else first + free
            free += 1 if first.is_const else kernel.threads // kernel.lanes
    assert free <= machine.barriers, f"{kernel.name} needs {free} barriers, the machine has {machine.barriers}"
    return numbers


def _batches(ops: Sequence[Op]) -> Iterator[tuple[int, tuple[Value, ...]]]:
    """Of each `mma_fence`, by identity: the values that the products of its group take."""
    for at, op in enumerate(ops):
        if op.is_(MMA_FENCE):
            group = takewhile(lambda other: not other.is_(MMA_COMMIT), ops[at + 1 :])
            yield id(op), tuple({v.name: v for one in group if one.is_(MMA_ASYNC) for v in one.operands}.values())
        if op.region is not None:
            yield from _batches(op.region.ops)

"""Thread kernels for NVIDIA machines with bulk copies: signals in shared memory, boxes of tensors copied at once."""

from __future__ import annotations

from collections.abc import Callable

from wavespec.emit.cuda import ThreadToCuda
from wavespec.emit.matrix_descriptor import swizzle_bytes
from wavespec.emit.registers import Part, Parts, vector_type
from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Memory, Op
from wavespec.runtime.artifact import TensorMap
from wavespec.targets.machine import Machine

_ALIGNMENT_BYTES = 1024  # what the swizzle of 128 bytes repeats after; more than copies ask for
_SIGNAL_BYTES = 8
_NANOSECONDS = 10_000_000  # that one attempt of a wait may sleep
_ATTEMPTS = 500
_ASYNC_FENCE = (
    '"nvvm.fence.proxy"() <{kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}> : () -> ()'
)


class BulkCopies(ThreadToCuda):
    """What `ThreadToCuda` does, signals and bulk copies.

    Args:
        bounded_waits: have a wait for a signal trap that takes seconds, which makes an error of a hang.
    """

    def __init__(self, kernel: Kernel, machine: Machine, layout: str, *, bounded_waits: bool = False) -> None:
        super().__init__(kernel, machine, layout)
        self.bounded_waits = bounded_waits
        self._maps: dict[TensorMap, str] = {}

    @property
    def tensor_maps(self) -> tuple[TensorMap, ...]:
        """The maps that the emitted kernel takes, in the order of its parameters."""
        return tuple(self._maps)

    def places(self) -> dict[str, range]:
        """Tiles where the swizzle of the hardware starts anew, signals behind them."""
        found: dict[str, range] = {}
        end = 0
        for memory in self.kernel.memories:
            if memory.space == "shared":
                start = -(-end // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
                end = start + memory.elements.value * memory.buffers * memory.dtype.bytes
                found[memory.name] = range(start, end)
        end = -(-end // _SIGNAL_BYTES) * _SIGNAL_BYTES
        for memory in self._signals():
            found[memory.name] = range(end, end + memory.buffers * _SIGNAL_BYTES)
            end += memory.buffers * _SIGNAL_BYTES
        return found

    def _signals(self) -> list[Memory]:
        return [memory for memory in self.kernel.memories if memory.space == "signal"]

    def prologue(self) -> None:
        super().prologue()
        if not self._signals():
            return
        thread = self.text.op("nvvm.read.ptx.sreg.tid.x : i32")
        first = self.text.op(f"arith.cmpi eq, {thread}, {self.text.constant(0, 'i32')} : i32")
        self.text.blocks[-1] += [f"scf.if {first} {{", *self.nested(self._start_signals)]
        self.text.do("}")
        self.text.do(_ASYNC_FENCE)
        if self.kernel.cluster > 1:  # others may arrive at a signal only after it has been made
            self._meet_cluster()
        else:
            self.text.do("nvvm.barrier")

    def epilogue(self) -> None:
        """No workgroup of a cluster ends while another may still write to its shared memory."""
        if self.kernel.cluster > 1:
            self._meet_cluster()

    def attributes(self) -> str:
        cluster = self.kernel.cluster
        return super().attributes() + (f", nvvm.cluster_dim = array<i32: {cluster}, 1, 1>" if cluster > 1 else "")

    def _meet_cluster(self) -> None:
        self.text.do("nvvm.cluster.arrive")
        self.text.do("nvvm.cluster.wait")

    def _start_signals(self) -> None:
        for memory in self._signals():
            arrivals = self.text.constant(memory.arrivals, "i32")
            for index in range(memory.buffers):
                at = self._address(memory, const(index))
                self.text.do(f"nvvm.mbarrier.init {at}, {arrivals} : !llvm.ptr<3>, i32")
        self.text.do("nvvm.fence.mbarrier.init")

    def nested(self, emit: Callable[[], None]) -> list[str]:
        """The lines of a block of its own."""
        self.text.open()
        self.indices.open()
        emit()
        self.indices.close()
        return self.text.close()

    def _signal_arrive(self, op: Op) -> None:
        at = self._signal(op)
        if op.get("everywhere"):
            self._arrive_everywhere(at, ".release.cluster" if op.get("release") else "")
            return
        if not op["bytes"]:
            self.text.op(f"nvvm.mbarrier.arrive {at} : !llvm.ptr<3> -> i64")
            return
        bytes_ = self.text.constant(op["bytes"], "i32")
        self.text.do(f"nvvm.mbarrier.arrive.expect_tx {at}, {bytes_} : !llvm.ptr<3>, i32")

    def _arrive_everywhere(self, at: str, scope: str) -> None:
        """On the signal at the same place in every workgroup of the cluster.

        Without a scope where nothing was written for others: `release.cluster` empties the caches of the processor
        (https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-mbarrier-arrive).
        """
        address = self.text.op(f"llvm.ptrtoint {at} : !llvm.ptr<3> to i32")
        code = "".join(
            f"mapa.shared::cluster.u32 there, $0, {rank}; mbarrier.arrive{scope}.shared::cluster.b64 _, [there]; "
            for rank in range(self.kernel.cluster)
        )
        self.text.do(
            f'llvm.inline_asm has_side_effects asm_dialect = att "{{ .reg .b32 there; {code}}}", "r,~{{memory}}" '
            f"{address} : (i32) -> ()"
        )

    def _signal_wait(self, op: Op) -> None:
        at, phase = self._signal(op), self.indices.integer(op["phase"], 32)
        scope = ".acquire.cluster" if op.get("acquire") else ""
        if not self.bounded_waits and not scope:
            pause = self.text.constant(_NANOSECONDS, "i32")
            self.text.do(f"nvvm.mbarrier.try_wait.parity {at}, {phase}, {pause} : !llvm.ptr<3>, i32, i32")
            return
        address = self.text.op(f"llvm.ptrtoint {at} : !llvm.ptr<3> to i32")
        bound = f"add.u32 tries, tries, 1; setp.gt.u32 late, tries, {_ATTEMPTS}; @late trap; "
        code = (
            "{ .reg .pred done; .reg .pred late; .reg .u32 tries; mov.u32 tries, 0; again: "
            f"mbarrier.try_wait.parity{scope}.shared::cta.b64 done, [$0], $1, {_NANOSECONDS}; @done bra over; "
            f"{bound if self.bounded_waits else ''}bra again; over: }}"
        )
        self.text.do(
            f'llvm.inline_asm has_side_effects asm_dialect = att "{code}", "r,r,~{{memory}}" {address}, {phase} : '
            "(i32, i32) -> ()"
        )

    def _signal(self, op: Op) -> str:
        return self._address(self.kernel.memory(op["signal"]), op["index"])

    def load(self, op: Op, memory: Memory) -> Parts:
        """What another workgroup of the cluster has is read at the same place there."""
        if op.get("rank") is None:
            return super().load(op, memory)
        size = op.result.vector.elements
        address, rank = self._address(memory, self.buffered(op, memory)), self.text.constant(op["rank"], "i32")
        there = self.text.op(f"nvvm.mapa {address}, {rank} : !llvm.ptr<3> -> !llvm.ptr<7>")
        type_ = vector_type(memory.dtype, size)
        attributes = f"alignment = {size * memory.dtype.bytes} : i64, ordering = 0 : i64"
        return (Part(self.text.op(f'"llvm.load"({there}) <{{{attributes}}}> : (!llvm.ptr<7>) -> {type_}'), size),)

    def _bulk_copy(self, op: Op) -> None:
        memory = self.memory_of(op)
        to = self._address(memory, self.buffered(op, memory))
        to = self.text.op(f"llvm.addrspacecast {to} : !llvm.ptr<3> to !llvm.ptr<7>")
        box, multicast = self._box(op), ""
        if op.get("everywhere"):
            multicast = f" multicast_mask = {self.text.constant((1 << self.kernel.cluster) - 1, 'i16')}"
        self.text.do(
            f"nvvm.cp.async.bulk.tensor.shared.cluster.global {to}, {self._map(op['source'], op['box'], memory)}, "
            f"{self._signal(op)}, box[{box}]{multicast} : !llvm.ptr<7>, !llvm.ptr"
        )

    def _bulk_store(self, op: Op) -> None:
        memory = self.memory_of(op)
        start = self._address(memory, self.buffered(op, memory))
        box = self._box(op)
        self.text.do(
            f"nvvm.cp.async.bulk.tensor.global.shared.cta {self._map(op['target'], op['box'], memory)}, {start}, "
            f"box[{box}] : !llvm.ptr, !llvm.ptr<3>"
        )

    def _box(self, op: Op) -> str:
        """Coordinates of the first element, the contiguous dim first."""
        return ", ".join(self.indices.integer(coordinate, 32) for coordinate in reversed(op["corner"]))

    def _map(self, tensor: str, box: tuple[int, ...], memory: Memory) -> str:
        """Pointer to the description of a tensor by which the hardware copies boxes of it."""
        swizzle = 0 if memory.arrangement is None else swizzle_bytes(memory.arrangement, memory.dtype.bytes)
        key = TensorMap(tensor, box, swizzle)
        if key not in self._maps:
            self._maps[key] = self.binding(len(self.bindings()) + len(self._maps), 0)
        return self._maps[key]

    def _bulk_commit(self, op: Op) -> None:
        self.text.do("nvvm.cp.async.bulk.commit.group")

    def _bulk_wait(self, op: Op) -> None:
        self.text.do(f"nvvm.cp.async.bulk.wait_group {op['pending']} read")

    def _fence_async(self, op: Op) -> None:
        self.text.do(_ASYNC_FENCE)

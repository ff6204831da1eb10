"""Thread kernels for NVIDIA machines with bulk copies: signals in shared memory, boxes of tensors copied at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from wavespec.emit.cuda_memory import CudaMemory
from wavespec.emit.function import Emitter, Function
from wavespec.emit.interface import expr_to_size
from wavespec.emit.matrix_descriptor import swizzle_bytes
from wavespec.emit.registers import mlir_type
from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, at_most, const, maximum, minimum, symbol
from wavespec.ir.kernel import Memory, Op
from wavespec.ir.thread import row_axis
from wavespec.ir.thread_ops import SEND
from wavespec.ir.windows import Window as CopiedWindow
from wavespec.ir.windows import limits_of_windows
from wavespec.runtime.artifact import ENDED_DIMS, ENDED_ROWS, Assumption, TensorMap, Window

_ZERO = const(0)
_NANOSECONDS = 10_000_000  # that one attempt of a wait may sleep
_ATTEMPTS = 500
_SENT_BYTES = 16  # at most, at once
_FARTHEST_BOX = 2**16  # beyond either end of a tensor; boxes are shorter
_BEHIND = 2**31 - _FARTHEST_BOX  # no dim is longer
_ASYNC_FENCE = (
    '"nvvm.fence.proxy"() <{kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}> : () -> ()'
)
_ARRIVE = "nvvm.cluster.arrive.relaxed"
"""Says that signals have been made, which `nvvm.fence.mbarrier.init` lets others see: released, it would also wait for
all that was loaded so far."""


class BulkCopies(Emitter):
    """Signals, copies of boxes, and clusters of workgroups."""

    def __init__(self, function: Function, memory: CudaMemory) -> None:
        super().__init__(function)
        self.memory = memory
        self.signals = [memory for memory in self.kernel.memories if memory.space == "signal"]
        self.maps: dict[TensorMap, str] = {}
        self.sends = any(op.is_(SEND) for op in self.kernel.walk())
        self.has_met = False

    def begin(self) -> None:
        if self.kernel.cluster > 1:
            self.function.attributes.append(f"nvvm.cluster_dim = array<i32: {self.kernel.cluster}, 1, 1>")
        if not self.signals:
            return
        thread = self.text.op("nvvm.read.ptx.sreg.tid.x : i32")
        first = self.text.op(f"arith.cmpi eq, {thread}, {self.text.constant(0, 'i32')} : i32")
        self.text.branch(first, self.function.nested(self._start_signals))
        self.text.do(_ASYNC_FENCE)
        if self.sends and self.kernel.distribution.persistent:  # workgroups send something in every round of a loop
            self.text.do(_ARRIVE)
            self.text.do("nvvm.cluster.wait")
            self.has_met = True
        elif self.sends:  # who sends something waits for the others first
            self.text.do(_ARRIVE)
            if self._are_used_before_sends():
                self.text.do("nvvm.barrier")
        elif self.kernel.cluster > 1:  # others may arrive at a signal only after it has been made
            self.text.do(_ARRIVE)
            self.text.do("nvvm.cluster.wait")
        else:
            self.text.do("nvvm.barrier")

    def _are_used_before_sends(self) -> bool:
        """Whether other waves than the one that makes signals may use some before they wait for the cluster, which they
        do in front of the first thing that is sent: not those that announce what is sent, by that wave alone.  Rows
        are on their way sooner where nobody waits for all waves first."""
        return {memory.name for memory in self.signals} != {op["signal"] for op in self.kernel.walk() if op.is_(SEND)}

    def end(self) -> None:
        """No workgroup of a cluster ends while another may still use its shared memory; one that is sent something has
        waited for it."""
        self.function.tensor_maps += self.maps
        if self.kernel.cluster > 1 and not self.sends:
            self.text.do("nvvm.cluster.arrive")
            self.text.do("nvvm.cluster.wait")

    def emit_send(self, op: Op) -> None:
        """As many bytes at once as an access has."""
        memory, (value,) = self.function.memory_of(op), op.operands
        if not self.has_met:
            self.text.do("nvvm.cluster.wait")
            self.has_met = True
        names, each = self.function.scalars(value), max(1, _SENT_BYTES // memory.dtype.bytes)
        with self.function.when(op["mask"]):
            there = self.indices.integer(op["receiver"], 32)
            signal = self.text.op(f"llvm.ptrtoint {self._signal(op)} : !llvm.ptr<3> to i32")
            for start in range(0, len(names), each):
                place = self.memory.address(memory, op["offset"] + start)
                address = self.text.op(f"llvm.ptrtoint {place} : !llvm.ptr<3> to i32")
                self._send_text(memory.dtype, address, signal, there, names[start : start + each])

    def _send_text(self, dtype: DType, address: str, signal: str, there: str, names: Sequence[str]) -> None:
        """https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-st-async"""
        size, bits = len(names), dtype.bits
        vector = f".v{size}" if size > 1 else ""
        values = ", ".join(f"${3 + number}" for number in range(size))
        values = f"{{{values}}}" if size > 1 else values
        code = (
            "{ .reg .b32 place; .reg .b32 met; mapa.shared::cluster.u32 place, $0, $2; "
            "mapa.shared::cluster.u32 met, $1, $2; st.async.weak.shared::cluster.mbarrier::complete_tx::bytes"
            f"{vector}.b{bits} [place], {values}, [met]; }}"
        )
        register = {("float", 32): "f", ("float", 64): "d"}.get((dtype.kind, bits), "l" if bits == 64 else "r")
        constraints = ",".join(["r", "r", "r", *[register] * size, "~{memory}"])
        types = ", ".join(["i32", "i32", "i32", *[mlir_type(dtype)] * size])
        self.text.do(
            f'llvm.inline_asm has_side_effects asm_dialect = att "{code}", "{constraints}" '
            f"{', '.join([address, signal, there, *names])} : ({types}) -> ()"
        )

    def _start_signals(self) -> None:
        for memory in self.signals:
            arrivals = self.text.constant(memory.arrivals, "i32")
            for index in range(memory.buffers):
                at = self.memory.address(memory, const(index))
                self.text.do(f"nvvm.mbarrier.init {at}, {arrivals} : !llvm.ptr<3>, i32")
        self.text.do("nvvm.fence.mbarrier.init")

    def emit_signal_arrive(self, op: Op) -> None:
        at = self._signal(op)
        if op.get("landed"):
            self.text.do(f'"nvvm.cp.async.mbarrier.arrive"({at}) <{{noinc = true}}> : (!llvm.ptr<3>) -> ()')
            return
        if op.get("receiver") is not None:
            self._arrive(at, self.indices.integer(op["receiver"], 32), ".release.cluster")
            return
        if op.get("everywhere"):
            self._arrive_everywhere(at)
            return
        if not op["bytes"]:
            self.text.op(f"nvvm.mbarrier.arrive {at} : !llvm.ptr<3> -> i64")
            return
        bytes_ = self.text.constant(op["bytes"], "i32")
        self.text.do(f"nvvm.mbarrier.arrive.expect_tx {at}, {bytes_} : !llvm.ptr<3>, i32")

    def _arrive(self, at: str, workgroup: str, scope: str) -> None:
        """On the signal at the same place in a workgroup of the cluster."""
        address = self.text.op(f"llvm.ptrtoint {at} : !llvm.ptr<3> to i32")
        code = f"mapa.shared::cluster.u32 there, $0, $1; mbarrier.arrive{scope}.shared::cluster.b64 _, [there]; "
        self.text.do(
            f'llvm.inline_asm has_side_effects asm_dialect = att "{{ .reg .b32 there; {code}}}", "r,r,~{{memory}}" '
            f"{address}, {workgroup} : (i32, i32) -> ()"
        )

    def _arrive_everywhere(self, at: str) -> None:
        """On the signal at the same place in every workgroup of the cluster.

        Without a scope, as nothing was written for others: `release.cluster` empties the caches of the processor
        (https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-mbarrier-arrive).
        """
        address = self.text.op(f"llvm.ptrtoint {at} : !llvm.ptr<3> to i32")
        code = "".join(
            f"mapa.shared::cluster.u32 there, $0, {rank}; mbarrier.arrive.shared::cluster.b64 _, [there]; "
            for rank in range(self.kernel.cluster)
        )
        self.text.do(
            f'llvm.inline_asm has_side_effects asm_dialect = att "{{ .reg .b32 there; {code}}}", "r,~{{memory}}" '
            f"{address} : (i32) -> ()"
        )

    def emit_signal_wait(self, op: Op) -> None:
        self._wait(op)
        if op.get("landed"):
            self.text.do(_ASYNC_FENCE)

    def _wait(self, op: Op) -> None:
        bounded, at, phase = self.function.bounded_waits, self._signal(op), self.indices.integer(op["phase"], 32)
        scope = ".acquire.cluster" if op.get("acquire") else ""
        if not bounded and not scope:
            pause = self.text.constant(_NANOSECONDS, "i32")
            self.text.do(f"nvvm.mbarrier.try_wait.parity {at}, {phase}, {pause} : !llvm.ptr<3>, i32, i32")
            return
        address = self.text.op(f"llvm.ptrtoint {at} : !llvm.ptr<3> to i32")
        bound = f"add.u32 tries, tries, 1; setp.gt.u32 late, tries, {_ATTEMPTS}; @late trap; "
        code = (
            "{ .reg .pred done; .reg .pred late; .reg .u32 tries; mov.u32 tries, 0; again: "
            f"mbarrier.try_wait.parity{scope}.shared::cta.b64 done, [$0], $1, {_NANOSECONDS}; @done bra over; "
            f"{bound if bounded else ''}bra again; over: }}"
        )
        self.text.do(
            f'llvm.inline_asm has_side_effects asm_dialect = att "{code}", "r,r,~{{memory}}" {address}, {phase} : '
            "(i32, i32) -> ()"
        )

    def _signal(self, op: Op) -> str:
        return self.memory.address(self.kernel.memory(op["signal"]), op["index"])

    def emit_bulk_copy(self, op: Op) -> None:
        valid, box = op.get("valid"), op["box"]
        if valid is None:
            self._copy_box(op, self._corner(op), box)
            return
        if len(box) + ENDED_DIMS <= self.machine.globals.bulk_box_dims:
            self._copy_box(op, self._ended_corner(op, valid), box, ended=row_axis(box))
            return
        whole = self.indices.holds(((const(box[row_axis(box)] - 1), valid),))
        at_once = self.function.nested(lambda: self._copy_box(op, self._corner(op), box))
        self.text.branch(whole, at_once, self.function.nested(lambda: self._copy_rows(op, valid)))

    def _copy_rows(self, op: Op, valid: Expr) -> None:
        """Each row of a box by itself, those that are not ``valid`` from outside of the tensor, which gives zeros."""
        axis, text = row_axis(op["box"]), self.text
        height, row = op["box"][axis], symbol("row_of_box", 0, op["box"][axis] - 1)
        lower, upper, step = (text.constant(number, "i32") for number in (0, height, 1))
        induction = text.name()
        text.open()
        self.indices.open()
        self.indices.define(row.args[0], induction, 32)
        corner, outside = self._corner(op, {axis: row}), text.constant(-1, "i32")
        is_there = self.indices.holds(((row, valid),))
        corner[axis] = text.op(f"arith.select {is_there}, {corner[axis]}, {outside} : i32")
        self._copy_box(op, corner, tuple(1 if at == axis else extent for at, extent in enumerate(op["box"])), row)
        self.indices.close()
        lines = text.close()
        text.blocks[-1] += [f"scf.for {induction} = {lower} to {upper} step {step} : i32 {{", *lines]
        text.do("}")

    def _ended_corner(self, op: Op, valid: Expr) -> list[str]:
        """Coordinates of a box whose last rows may not be there, as `TensorMap.ended` has them."""
        axis, corner = row_axis(op["box"]), self._corner(op)
        height, first, size = op["box"][axis], op["corner"][axis], self.kernel.memory(op["source"]).shape[axis]
        rows = maximum(0, minimum(height, minimum(valid, size - first)))
        end = self.indices.integer(kept_outside(first + rows), 32)
        if first.low is None or first.low < 0:  # what is in front of the tensor is none of it
            is_there, outside = self.indices.holds(((const(-1), first),)), self.text.constant(-1, "i32")
            end = self.text.op(f"arith.select {is_there}, {end}, {outside} : i32")
        corner[axis] = self.indices.integer(ENDED_ROWS - rows, 32)
        return [self.text.constant(ENDED_ROWS, "i32"), end, *corner]

    def _copy_box(
        self, op: Op, corner: Sequence[str], box: tuple[int, ...], row: Expr = _ZERO, ended: int | None = None
    ) -> None:
        memory = self.function.memory_of(op)
        to = self.memory.address(memory, self.function.buffered(op, memory) + row * box[-1])
        to = self.text.op(f"llvm.addrspacecast {to} : !llvm.ptr<3> to !llvm.ptr<7>")
        multicast = ""
        rounded = self.machine.globals.rounded_boxes[op["kept_bits"]] if op.get("kept_bits") else ""
        if op.get("everywhere"):
            multicast = f" multicast_mask = {self.text.constant((1 << self.kernel.cluster) - 1, 'i16')}"
        described = self._map(op, op["source"], box, memory, rounded, ended)
        offsets = [self.indices.integer(offset, 16) for offset in reversed(op.get("offsets", ()))]
        windows = f" im2col[{', '.join(offsets)}]" if offsets else ""
        mode = " mode = im2col" if offsets else ""
        self.text.do(
            f"nvvm.cp.async.bulk.tensor.shared.cluster.global {to}, {described}, {self._signal(op)}, "
            f"box[{', '.join(reversed(corner))}]{windows}{multicast}{mode} : !llvm.ptr<7>, !llvm.ptr"
        )

    def emit_bulk_store(self, op: Op) -> None:
        memory = self.function.memory_of(op)
        start = self.memory.address(memory, self.function.buffered(op, memory))
        box = ", ".join(reversed(self._corner(op)))
        self.text.do(
            f"nvvm.cp.async.bulk.tensor.global.shared.cta {self._map(op, op['target'], op['box'], memory)}, {start}, "
            f"box[{box}] : !llvm.ptr, !llvm.ptr<3>"
        )

    def _corner(self, op: Op, moved: Mapping[int, Expr] = MappingProxyType({})) -> list[str]:
        """Coordinates of the first element, or of one that is ``moved`` along some dims; two of rows that are not side
        by side."""
        places, step = [place + moved.get(axis, 0) for axis, place in enumerate(op["corner"])], op.get("row_step") or 1
        if step > 1:
            axis = row_axis(op["box"])
            places[axis : axis + 1] = [places[axis] % step, places[axis] // step]
        return [self.indices.integer(kept_outside(place), 32) for place in places]

    def _map(
        self,
        op: Op,
        tensor: str,
        box: tuple[int, ...],
        memory: Memory,
        rounded: str = "",
        ended: int | None = None,
    ) -> str:
        """Pointer to the description of a tensor by which the hardware copies boxes of it."""
        swizzle = 0 if memory.arrangement is None else swizzle_bytes(memory.arrangement, memory.dtype.bytes)
        view = tuple(expr_to_size(size) for size in op.get("view", ()))
        windows = tuple(Window(first, step, expr_to_size(count)) for first, step, count, _ in op.get("windows", ()))
        key = TensorMap(tensor, box, swizzle, view, windows, rounded, ended, op.get("row_step") or 1)
        if key not in self.maps:
            if op.get("windows"):
                self._limit_windows(op["windows"], tensor)
            pointers = len(self.function.tensors()) + len(self.kernel.scratch)
            self.maps[key] = self.memory.binding(pointers + len(self.maps), 0)
        return self.maps[key]

    def _limit_windows(self, windows: Sequence[CopiedWindow], tensor: str) -> None:
        """Leave calls to other kernels whose windows the machine does not reach."""
        memory = self.kernel.memory(tensor)
        for window, dim, size in zip(windows, memory.dims[1:-1], memory.shape[1:-1], strict=True):
            reach = self.machine.globals.bulk_window_reach[len(memory.dims)]
            for words, number, most in limits_of_windows(window, size, reach):
                if not at_most(number, const(most)):
                    text = f"windows of '{tensor}' that {words} along '{dim}'"
                    limit = Assumption(text, ("le", expr_to_size(number), most), of_machine=True)
                    self.function.assumptions.append(limit)

    def emit_bulk_commit(self, op: Op) -> None:
        self.text.do("nvvm.cp.async.bulk.commit.group")

    def emit_bulk_wait(self, op: Op) -> None:
        self.text.do(f"nvvm.cp.async.bulk.wait_group {op['pending']} read")

    def emit_fence_async(self, op: Op) -> None:
        self.text.do(_ASYNC_FENCE)


def kept_outside(place: Expr) -> Expr:
    """The place of a box, of which the machine takes 32 bits, so that one outside of the tensor stays outside.

    What is a little too large is less than 0 then, which is outside as well.
    """
    low, high = place.low, place.high
    if low is not None and high is not None and low >= -(2**31) and high <= 2**32 - _FARTHEST_BOX:
        return place
    return maximum(minimum(place, _BEHIND), -_FARTHEST_BOX)

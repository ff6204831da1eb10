"""A matrix instruction of this CPU in; a call that issues nothing but that, on every thread, out.

It is the peak to measure kernels against.  The kernel is written at thread level and goes through wavespec's own
emitter: one register tile, operands that never leave the first cache, ``STEPS`` products.  Its result is known, so
that a compiler that left work out would be found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from wavespec.emit.targets import module_to_binaries, thread_to_module
from wavespec.ir.parser import parse_kernel
from wavespec.runtime.artifact import Dim, KernelArtifact, TensorParameter
from wavespec.runtime.kernel import Kernel
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import Fragment, MatrixInstruction

STEPS = 1 << 16
_LOOP = f'{{induction = "step", lower = [0], step = [1], unroll = 1, upper = [{STEPS}]}}'
_TORCH = {
    "f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "i32": torch.int32, "i16": torch.int16,
    "i8": torch.int8, "u8": torch.uint8,
}  # fmt: skip
_TEXT = """\
thread kernel @peak target cpu lanes 1
symbol T in 1..4096 by 1
symbol wg0 in 0..4095 by 1
symbol step in 0..{last} by 1
plan "auto" stages 1 group 1
grid [T]
memory @a : {a} (T: [T], L: [{left}]) global input
memory @b : {b} (R: [{right}]) global input
memory @c : {acc} (T: [T], E: [{sums}]) global output
memory @left : {a} (L: [{left}]) shared [L/1: {left} by 1]
memory @right : {b} (R: [{right}]) shared [R/1: {right} by 1]
{{
  %a = load {{memory = "a", offset = [wg0*{left}]}} : {a}x{left}
  store %a {{memory = "left", offset = [0]}}
  %b = load {{memory = "b", offset = [0]}} : {b}x{right}
  store %b {{memory = "right", offset = [0]}}
  %zero = constant {{value = 0}} : {acc}x{sums}
  %sums = for %zero {loop} : {acc}x{sums} (%before : {acc}x{sums}) do
    %x = {load_a} : {a}x{left}
    %y = {load_b} : {b}x{right}
    %after = mma %x, %y, %before {{instruction = "{name}"}} : {acc}x{sums}
    yield %after
  end
  store %sums {{memory = "c", offset = [wg0*{sums}]}}
}}
"""


@dataclass(frozen=True, slots=True)
class Peak:
    """``call`` does ``work`` operations (a multiply-add counts as two)."""

    call: Callable[[], object]
    work: float


def peak(row: MatrixInstruction, machine: Machine) -> Peak:
    """The peak of one row of a CPU variant, without what a bias costs, on as many threads as torch has."""
    row = replace(row, a=replace(row.a, bias=0))
    machine = replace(machine, instructions=(row,))
    sizes = {"left": row.a.layout.elements, "right": row.b.layout.elements, "sums": row.acc.layout.elements}
    text = _TEXT.format(
        a=row.a.dtype, b=row.b.dtype, acc=row.acc.dtype, name=row.name, loop=_LOOP, last=STEPS - 1,
        load_a=_load("left", row.a, row), load_b=_load("right", row.b, row), **sizes,
    )  # fmt: skip
    left, right, sums = (Dim(name, 1, sizes[key]) for name, key in (("L", "left"), ("R", "right"), ("E", "sums")))
    tensors = [("a", row.a.dtype, ("T", "L")), ("b", row.b.dtype, ("R",)), ("c", row.acc.dtype, ("T", "E"))]
    interface = KernelArtifact(
        name="peak", target="cpu", backend="cpu", architecture="x86_64", entry_point="peak",
        tensors=tuple(TensorParameter(name, dtype.name, dims, name == "c") for name, dtype, dims in tensors),
        dims=(Dim("T", 1, None), left, right, sums), grid=("T", 1, 1), workgroup_size=(1, 1, 1), binaries=(),
        shared_memory_bytes=0, assumptions=(),
    )  # fmt: skip
    binaries, _ = module_to_binaries(thread_to_module(parse_kernel(text), machine, interface))
    kernel = Kernel(replace(interface, binaries=binaries))
    groups = 2 * torch.get_num_threads()
    a = torch.ones(groups, sizes["left"], dtype=_TORCH[row.a.dtype.name])
    b = torch.ones(sizes["right"], dtype=_TORCH[row.b.dtype.name])
    out = torch.empty(groups, sizes["sums"], dtype=_TORCH[row.acc.dtype.name])

    def call() -> object:
        return kernel(a, b, out=out)

    call()
    assert (out == STEPS * row.k).all(), f"{row.name} did not do its {STEPS} products"
    return Peak(call, 2.0 * row.m * row.n * row.k * STEPS * groups)


def _load(memory: str, operand: Fragment, row: MatrixInstruction) -> str:
    where = f'memory = "{memory}", offset = [0]'
    if not row.emit.startswith("amx"):
        return f"load {{{where}}}"
    rows = operand.layout.axes[0].extent
    columns = operand.layout.elements // rows
    return f"load_tile {{columns = {columns}, {where}, rows = {rows}, stride = {columns}}}"

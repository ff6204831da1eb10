"""How a processor rounds and what it takes for zero, while a kernel runs: set where it begins, given back where it ends.

IREE has its threads take numbers below the smallest normal one for zero; the caller's torch does not, nor do kernels
that do not ask for it.
"""

from __future__ import annotations

from typing import Protocol

from wavespec.emit.mlir_text import MlirText
from wavespec.targets.machine import Machine

# Results to zero, and operands: https://cdrdv2.intel.com/v1/dl/getContent/671200, 10.2.3
_MXCSR_FLUSH = 0x8040
# FZ, and FZ16 of f16: https://developer.arm.com/documentation/ddi0601/latest/AArch64-Registers/FPCR--Floating-point-Control-Register
_FPCR_FLUSH_F32 = 1 << 24
_FPCR_FLUSH = _FPCR_FLUSH_F32 | 1 << 19


class FloatModes(Protocol):
    """What differs from one architecture to the next in the frame of a function."""

    memory: str
    """A pointer to four bytes of the function's own, once it is said what small numbers are."""

    def set_small_numbers(self, *, are_kept: bool) -> None:
        """Leave numbers as they are from here on, or take small ones of f32 and f64 for 0."""
        ...

    def order_streamed_stores(self) -> None:
        """Have stores past the caches done before whatever follows."""
        ...

    def give_back(self) -> None:
        """Put back what the caller had."""
        ...


def float_modes(text: MlirText, machine: Machine) -> FloatModes:
    """Those of a machine's architecture."""
    return _OF_ARCHITECTURE[machine.architecture](text)


class _Mxcsr:
    """x86-64: a register that is written from memory, and into it."""

    def __init__(self, text: MlirText) -> None:
        self.text, self.memory = text, ""

    def set_small_numbers(self, *, are_kept: bool) -> None:
        one = self.text.constant(1, "i32")
        theirs, ours = (self.text.op(f"llvm.alloca {one} x i32 : (i32) -> !llvm.ptr") for _ in range(2))
        self.memory = theirs
        self._call_with("stmxcsr", theirs)
        bits = self.text.op(f"llvm.load {theirs} : !llvm.ptr -> i32")
        how, mask = ("andi", ~_MXCSR_FLUSH) if are_kept else ("ori", _MXCSR_FLUSH)
        bits = self.text.op(f"arith.{how} {bits}, {self.text.constant(mask, 'i32')} : i32")
        self.text.do(f"llvm.store {bits}, {ours} : i32, !llvm.ptr")
        self._call_with("ldmxcsr", ours)

    def order_streamed_stores(self) -> None:
        self.text.do('llvm.call_intrinsic "llvm.x86.sse.sfence"() : () -> ()')  # no other store waits for them

    def give_back(self) -> None:
        self._call_with("ldmxcsr", self.memory)

    def _call_with(self, instruction: str, place: str) -> None:
        self.text.do(f'llvm.call_intrinsic "llvm.x86.sse.{instruction}"({place}) : (!llvm.ptr) -> ()')


class _Fpcr:
    """aarch64: a register of the system."""

    def __init__(self, text: MlirText) -> None:
        self.text, self.memory = text, ""
        self.theirs = ""

    def set_small_numbers(self, *, are_kept: bool) -> None:
        self.memory = self.text.op(f"llvm.alloca {self.text.constant(1, 'i32')} x i32 : (i32) -> !llvm.ptr")
        self.theirs = self.text.op('llvm.call_intrinsic "llvm.aarch64.get.fpcr"() : () -> i64')
        bits = self.text.op(f"arith.andi {self.theirs}, {self.text.constant(~_FPCR_FLUSH, 'i64')} : i64")
        if not are_kept:  # f16 stays as it is, as on other machines
            bits = self.text.op(f"arith.ori {bits}, {self.text.constant(_FPCR_FLUSH_F32, 'i64')} : i64")
        self._set(bits)

    def order_streamed_stores(self) -> None:
        """Stores that pass by the caches are ordered as others are: the end of a launch waits for all."""

    def give_back(self) -> None:
        self._set(self.theirs)

    def _set(self, bits: str) -> None:
        self.text.do(f'llvm.call_intrinsic "llvm.aarch64.set.fpcr"({bits}) : (i64) -> ()')


_OF_ARCHITECTURE = {"x86_64": _Mxcsr, "aarch64": _Fpcr}

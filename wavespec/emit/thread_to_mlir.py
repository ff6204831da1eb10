"""Thread kernel in, the text of one `func.func` out, by the emitters that the machine's backend puts together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from wavespec.emit.cuda import use_cuda
from wavespec.emit.function import Function, KernelFunction
from wavespec.emit.llvm_cpu import use_cpu
from wavespec.emit.rocm import use_rocm
from wavespec.ir.kernel import Kernel
from wavespec.targets.machine import Machine


class _Backend(NamedTuple):
    """``use``: has a function written by emitters; ``index_bits``: those of `Function`."""

    use: Callable[[Function], None]
    index_bits: int


_BACKENDS: Mapping[str, _Backend] = {
    "llvm-cpu": _Backend(use_cpu, 64),
    "cuda": _Backend(use_cuda, 32),
    "rocm": _Backend(use_rocm, 32),
}


def thread_to_mlir(kernel: Kernel, machine: Machine, layout: str, *, bounded_waits: bool = False) -> KernelFunction:
    """Emit a kernel for the pipeline layout of that name."""
    return unwritten(kernel, machine, layout, bounded_waits=bounded_waits).write()


def unwritten(kernel: Kernel, machine: Machine, layout: str, *, bounded_waits: bool = False) -> Function:
    """The function that `thread_to_mlir` writes, before it does."""
    backend = _BACKENDS[machine.backend]
    function = Function(kernel, machine, layout, backend.index_bits, bounded_waits=bounded_waits)
    backend.use(function)
    return function

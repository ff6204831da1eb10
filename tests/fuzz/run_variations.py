"""A variation that a machine takes goes in; a function that runs it there, on the CPU, on a GPU, in a simulator of one or
in an emulator of AMD's machine code, comes out."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from tests.amd.amd_gemms import emulator_missing, load_object
from tests.amd.emulated import run_emulated
from tests.fuzz.broken_texts import check_diagnostics
from tests.fuzz.judge import time_limit
from tests.kernels import Sizes, tensors_of
from tests.sim.plan_variations import Varied, simulated
from wavespec.cache import CompileCache
from wavespec.diagnostics import WavespecError
from wavespec.emit.code_figures import object_in
from wavespec.emit.compiler import compiler_name
from wavespec.emit.targets import EmittedModule, module_to_binaries
from wavespec.ir.kernel import Kernel as IRKernel
from wavespec.pipeline import kernel_to_module, lower
from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.kernel import Kernel
from wavespec.runtime.launch_plan import make_plan
from wavespec.schema.resolve import numbers_of_contiguous
from wavespec.schema.resolved import ResolvedKernel, resolve
from wavespec.targets.machine import Machine

SECONDS = 20
"""Of a processor, for what takes minutes in a simulator, or in a compiler, and is left out."""
Run = Callable[[Sizes, Sequence[Tensor]], Sequence[Tensor]]
"""What a call writes; the inputs stay as they are."""


class RefusedLater(Exception):
    """What `check` has nothing against was not built, or a call of it was refused."""


class NotRun(Exception):
    """Nothing is known of a call: it takes too long, or needs what an emulator lacks."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What `wavespec check` has nothing against, as far as it was lowered."""

    subject: Varied
    machine: Machine
    resolved: ResolvedKernel
    kernel: IRKernel
    module: EmittedModule

    @property
    def lines(self) -> int:
        """Of MLIR, by which a compiler takes its time."""
        return self.module.text.count("\n")


def accept(subject: Varied, machine: Machine) -> Accepted | str:
    """The kernel for all sizes, or why it is left out: the machine refuses it, or that takes too long."""
    try:
        with time_limit(SECONDS):
            spec = subject.spec
            kernel = lower(spec, machine)
            resolved = resolve(spec, machine.target)
            module = kernel_to_module(kernel, machine, resolved)
    except WavespecError as error:
        check_diagnostics(error)
        return "refused"
    except TimeoutError:
        return "long to lower"
    return Accepted(subject, machine, resolved, kernel, module)


def build(one: Accepted) -> KernelArtifact:
    """With machine code."""
    try:
        binaries, _ = module_to_binaries(one.module, cache=CompileCache(enabled=False))
    except WavespecError as error:
        raise RefusedLater(str(error)) from error
    return replace(one.module.interface, binaries=binaries, compiler=compiler_name())


def run_on_cpu(built: KernelArtifact) -> Run:
    return _run_on("cpu", built)


def run_on_gpu(built: KernelArtifact) -> Run:
    return _run_on("cuda", built)


def _run_on(device: str, built: KernelArtifact) -> Run:
    compiled = Kernel(built)

    def run(_: Sizes, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        try:
            return [one.cpu() for one in tensors_of(compiled(*(one.to(device) for one in inputs)))]
        except TimeoutError:
            raise
        except Exception as error:  # whatever a call raises, the kernel was accepted
            raise RefusedLater(f"{type(error).__name__}: {error}") from error

    return run


def run_simulated(one: Accepted) -> Run:
    return lambda sizes, inputs: simulated(one.subject, one.kernel, one.machine, sizes, inputs)


def run_in_emulator(one: Accepted, built: KernelArtifact) -> Run:
    """Of a kernel for AMD."""
    if reason := emulator_missing():
        raise NotRun(reason)
    failure: type[Exception] = importlib.import_module("gfx_emulator").EmuError
    (binary,) = built.binaries
    try:
        code, _ = load_object(object_in(binary.data))
    except failure as error:
        raise _of_emulator(error) from error

    def run(sizes: Sizes, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        try:
            known = {**numbers_of_contiguous(one.subject.spec, sizes), **sizes}
            held = run_emulated(code, one.subject.spec, make_plan(built, known), inputs)
        except failure as error:
            raise _of_emulator(error) from error
        return [held[name] for name in one.subject.written]

    return run


def _of_emulator(error: Exception) -> Exception:
    """Code that does something wrong, or something that the emulator cannot do."""
    text = str(error)
    unknown = "unsupported" in text or text == "instruction limit"
    return NotRun(f"emulator: {text}") if unknown else AssertionError(text)

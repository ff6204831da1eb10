"""A thread kernel in, machine code out, per backend: which container, which flags."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from wavespec.cache import CompileCache
from wavespec.emit.code_figures import ptx_figures, vmfb_figures
from wavespec.emit.compiler import Compiled, compile_executable, compile_module
from wavespec.emit.function import KernelFunction
from wavespec.emit.host_module import HOST_PHASE, executable_module, host_module, pipeline_layout
from wavespec.emit.launch_overlap import with_launch_overlap
from wavespec.emit.negated_extremes import negated_apart
from wavespec.emit.ptx import descriptors_by_value
from wavespec.emit.thread_to_mlir import thread_to_mlir
from wavespec.ir.kernel import Kernel
from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.code import Binary
from wavespec.targets.machine import Machine

_LAYOUT = "#layout"
_LOCATION = re.compile(r"^#spec\d+ = loc\(.*\)\n?| loc\((?:#spec\d+|unknown)\)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class EmittedModule:
    """MLIR of a kernel in its container, and the interface it is launched by."""

    text: str
    interface: KernelArtifact
    machine: Machine

    @property
    def sha256(self) -> str:
        """Of the text without locations, which depend on the layout of the spec's file."""
        text = _LOCATION.sub("", self.text)
        return hashlib.sha256(text.encode()).hexdigest()

    def binary(self, code: bytes = b"", figures: Mapping[str, int] | None = None) -> Binary:
        """What the machine code is for the artifact; without ``code`` what is known before it is compiled."""
        machine = self.machine
        found = tuple((figures or {}).items())
        return Binary(
            machine.variant, "ptx" if machine.backend == "cuda" else "vmfb", code, machine.requires, self.sha256, found
        )


def thread_to_module(
    kernel: Kernel, machine: Machine, interface: KernelArtifact, *, bounded_waits: bool = False
) -> EmittedModule:
    """Emit the kernel function and wrap it into what the machine's compiler takes; ``bounded_waits`` is for finding
    errors in kernels of specialised waves: see `Function`."""
    return function_to_module(thread_to_function(kernel, machine, bounded_waits=bounded_waits), machine, interface)


def thread_to_function(kernel: Kernel, machine: Machine, *, bounded_waits: bool = False) -> KernelFunction:
    """The kernel function alone, which is the same for machines that differ in what their compiler is told."""
    return thread_to_mlir(kernel, machine, _LAYOUT, bounded_waits=bounded_waits)


def function_to_module(function: KernelFunction, machine: Machine, interface: KernelArtifact) -> EmittedModule:
    """Wrap the kernel function into what the machine's compiler takes."""
    interface = replace(interface, tensor_maps=function.tensor_maps)
    aliases = [f"{_LAYOUT} = {pipeline_layout(interface)}", *function.aliases]
    text = "\n".join([*aliases, function.text])
    interface = replace(interface, assumptions=(*interface.assumptions, *function.assumptions))
    if machine.backend == "llvm-cpu":
        return EmittedModule(host_module(interface, text, "local", executable_target(machine)), interface, machine)
    interface = replace(interface, shared_memory_bytes=function.shared_bytes)
    target = executable_target(machine)
    if machine.backend == "rocm":
        return EmittedModule(host_module(interface, text, "hip", target), interface, machine)
    return EmittedModule(executable_module(interface, text, target), interface, machine)


def module_to_binaries(
    module: EmittedModule, *, intermediates: bool = False, cache: CompileCache | None = None
) -> tuple[tuple[Binary, ...], Compiled]:
    """Compile, unless ``cache`` has it; returns the binaries for the artifact and everything the compiler dumped.

    PTX for NVIDIA; a vmfb for the CPU, and for AMD, where it has the HSACO in it.
    """
    if module.machine.backend == "cuda":
        compiled = compile_executable(module.text, intermediates=intermediates, cache=cache)
        compiled = _as_launched(compiled, module.interface)
        ptx = _dumped(compiled, ".ptx")
        return (module.binary(ptx, ptx_figures(ptx.decode())),), compiled
    compiled = compile_module(module.text, HOST_PHASE, intermediates=intermediates, cache=cache)
    return (module.binary(compiled.module, vmfb_figures(compiled.module)),), compiled


def _as_launched(compiled: Compiled, interface: KernelArtifact) -> Compiled:
    """The same with tensor maps as parameters by value, those after the pointers of tensors and of scratch memory; with
    negations that stay; and waiting for the launch before it, where the interface says so."""
    first = len(interface.tensors) + len(interface.scratch_bytes)
    ordinals = range(first, first + len(interface.tensor_maps))

    def launched(ptx: str) -> str:
        ptx = negated_apart(descriptors_by_value(ptx, interface.entry_point, ordinals))
        return with_launch_overlap(ptx) if interface.waits else ptx

    dumped = {
        name: launched(data.decode()).encode() if name.endswith(".ptx") else data
        for name, data in compiled.dumped.items()
    }
    return replace(compiled, dumped=dumped)


def _dumped(compiled: Compiled, suffix: str) -> bytes:
    (data,) = (content for name, content in compiled.dumped.items() if name.endswith(suffix))
    return data


def executable_target(machine: Machine) -> str:
    """The `#hal.executable.target<...>` of a machine."""
    if machine.backend == "llvm-cpu":
        return _cpu_target(machine)
    assert machine.resources is not None, f"{machine.variant} has no table of resources"
    most = machine.max_threads
    wgp = (
        "compute = fp64|fp32|fp16|int64|int32|int16|int8, storage = b64|b32|b16|b8, subgroup = shuffle|arithmetic, dot = dp4xi8toi32, mma = [], "
        f"subgroup_size_choices = [{machine.lanes}], max_workgroup_sizes = [{most}, {most}, {most}], "
        f"max_thread_count_per_workgroup = {most}, max_workgroup_memory_bytes = {machine.shared.bytes}, "
        "max_workgroup_counts = [2147483647, 65535, 65535], "
        f"max_load_instruction_bits = {machine.globals.access_bytes * 8}, simds_per_wgp = {machine.resources.parts}, "
        "vgpr_space_bits = 16384"
    )
    features = machine.compiler.get("features", "")
    target = f'#iree_gpu.target<arch = "{machine.compiler["arch"]}", features = "{features}", wgp = <{wgp}>>'
    if machine.backend == "cuda":
        return f'#hal.executable.target<"cuda", "cuda-nvptx-fb", {{iree_codegen.target_info = {target}}}>'
    return f'#hal.executable.target<"rocm", "rocm-hsaco-fb", {{abi = "hip", iree_codegen.target_info = {target}, ukernels = "none"}}>'


def _cpu_target(machine: Machine) -> str:
    """What IREE makes of the flags for such a machine, without debug symbols."""
    compiler = machine.compiler
    return (
        f'#hal.executable.target<"llvm-cpu", "{compiler["executable"]}", {{cpu = "generic", '
        f'cpu_features = "{compiler["cpu_features"]}", data_layout = "{compiler["data_layout"]}", debug_symbols = false, '
        f"max_stack_allocation_size = 32768 : i64, native_vector_size = {machine.vector_bytes} : i64, "
        f'target_triple = "{compiler["triple"]}"}}>'
    )

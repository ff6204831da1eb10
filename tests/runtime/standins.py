"""Small hand-written kernels, compiled with IREE for the CPU, that stand in for what the emitter makes."""

from __future__ import annotations

import functools
from dataclasses import replace

from wavespec.emit.compiler import begin_behind
from wavespec.emit.host_module import HOST_PHASE, host_module, pipeline_layout
from wavespec.emit.targets import executable_target
from wavespec.runtime import Binary, Dim, KernelArtifact, TensorParameter
from wavespec.targets.machine import machines

_MLIR_TYPES = {"f32": "f32", "f16": "f16", "bf16": "bf16", "f8e4m3fn": "f8E4M3FN", "i8": "i8", "i32": "i32"}


def compile_vmfb(text: str) -> bytes:
    """IREE's vmfb of a module that `host_module` made, compiled in this process."""
    from iree.compiler.api import Invocation, Output, Session, Source

    session = Session()
    invocation: Invocation = session.invocation()
    invocation.enable_console_diagnostics()
    begin_behind(invocation, HOST_PHASE)
    source = Source.wrap_buffer(session, text.encode() + b"\0")
    assert invocation.parse_source(source)
    assert invocation.execute()
    output = Output.open_membuffer()
    invocation.output_vm_bytecode(output)
    return bytes(output.map_memory())


def hosted(interface: KernelArtifact, kernel: str, variant: str = "x86_64_v3") -> str:
    """The module of a kernel for CPUs, which may use 2 MiB of stack."""
    (machine,) = machines(f"cpu:{variant}")
    text = host_module(interface, kernel, "local", executable_target(machine))
    return text.replace("max_stack_allocation_size = 32768", f"max_stack_allocation_size = {2 << 20}")


def built(interface: KernelArtifact, kernel: str) -> KernelArtifact:
    """`interface` with the one binary that `kernel` compiles to."""
    vmfb = compile_vmfb(hosted(interface, kernel))
    return replace(interface, binaries=(Binary("x86_64_v3", "vmfb", vmfb, ("avx2", "fma")),))


def gemm_interface(dtype: str = "f32", rows: int | None = None, multiple_of: int = 1) -> KernelArtifact:
    """c[M, N] = a[M, K] · b[N, K]ᵀ, one workgroup per 4 rows of c."""
    return KernelArtifact(
        name="gemm",
        target="cpu",
        backend="cpu",
        architecture="x86_64",
        entry_point="gemm",
        tensors=(
            TensorParameter("a", dtype, ("M", "K")),
            TensorParameter("b", dtype, ("N", "K")),
            TensorParameter("c", "f32", ("M", "N"), output=True),
        ),
        dims=(Dim("M", size=rows), Dim("N"), Dim("K", multiple_of=multiple_of)),
        grid=(("ceildiv", "M", 4), 1, 1),
        workgroup_size=(1, 1, 1),
        binaries=(),
        spec_sha256="5ca1ab1e" * 8,
    )


def gemm_kernel(interface: KernelArtifact) -> str:
    """The naive kernel of `gemm_interface`: three loops, sums in f32."""
    layout = pipeline_layout(interface)
    dtype = _MLIR_TYPES[interface.inputs[0].dtype]
    sizes: list[str] = []
    for dim in interface.dims:
        if dim.size is not None:
            sizes.append(f"%{dim.name} = arith.constant {dim.size} : index")
            continue
        ordinal = interface.dynamic_dims.index(dim.name)
        load = f"hal.interface.constant.load layout({layout}) ordinal({ordinal}) : i32"
        sizes.append(f"%i{dim.name} = {load}\n%{dim.name} = arith.index_castui %i{dim.name} : i32 to index")
    subspan = f"hal.interface.binding.subspan layout({layout}) binding"
    storage = "#hal.descriptor_type<storage_buffer>"
    widen = f"%x = arith.extf %xe : {dtype} to f32\n%y = arith.extf %ye : {dtype} to f32"
    if dtype == "f32":
        widen = "%x = arith.mulf %xe, %f1 : f32\n%y = arith.mulf %ye, %f1 : f32"
    newline = "\n"
    return f"""func.func @gemm() attributes {{translation_info = #iree_codegen.translation_info<
  pipeline = #iree_codegen.no_pipeline workgroup_size = [1, 1, 1]>}} {{
{newline.join(sizes)}
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c4 = arith.constant 4 : index
%f0 = arith.constant 0.0 : f32
%f1 = arith.constant 1.0 : f32
%a = {subspan}(0) alignment(64) offset(%c0) : memref<?x?x{dtype}, {storage}>{{%M, %K}}
%b = {subspan}(1) alignment(64) offset(%c0) : memref<?x?x{dtype}, {storage}>{{%N, %K}}
%c = {subspan}(2) alignment(64) offset(%c0) : memref<?x?xf32, {storage}>{{%M, %N}}
%w = hal.interface.workgroup.id[0] : index
%first = arith.muli %w, %c4 : index
%end = arith.addi %first, %c4 : index
%last = arith.minui %end, %M : index
scf.for %m = %first to %last step %c1 {{
  scf.for %n = %c0 to %N step %c1 {{
    %sum = scf.for %k = %c0 to %K step %c1 iter_args(%acc = %f0) -> (f32) {{
      %xe = memref.load %a[%m, %k] : memref<?x?x{dtype}, {storage}>
      %ye = memref.load %b[%n, %k] : memref<?x?x{dtype}, {storage}>
      {widen}
      %p = arith.mulf %x, %y : f32
      %s = arith.addf %acc, %p : f32
      scf.yield %s : f32
    }}
    memref.store %sum, %c[%m, %n] : memref<?x?xf32, {storage}>
  }}
}}
return
}}"""


@functools.cache
def gemm_artifact(dtype: str = "f32", rows: int | None = None, multiple_of: int = 1) -> KernelArtifact:
    """The compiled stand-in GEMM."""
    interface = gemm_interface(dtype, rows, multiple_of)
    return built(interface, gemm_kernel(interface))


def scaled_interface() -> KernelArtifact:
    """Two outputs and a scratch buffer: double[N] = 2 * x[N], triple[N] = 3 * x[N], through N floats of
    scratch."""
    return KernelArtifact(
        name="scaled",
        target="cpu",
        backend="cpu",
        architecture="x86_64",
        entry_point="scaled",
        tensors=(
            TensorParameter("x", "f32", ("N",)),
            TensorParameter("double", "f32", ("N",), output=True),
            TensorParameter("triple", "f32", ("N",), output=True),
        ),
        dims=(Dim("N"),),
        grid=(("ceildiv", "N", 256), 1, 1),
        workgroup_size=(1, 1, 1),
        binaries=(),
        scratch_bytes=(("mul", "N", 4),),
        spec_sha256="0ddba115" * 8,
    )


@functools.cache
def scaled_artifact() -> KernelArtifact:
    """The compiled kernel with two outputs and scratch."""
    interface = scaled_interface()
    layout = pipeline_layout(interface)
    storage = "#hal.descriptor_type<storage_buffer>"
    spans = "\n".join(
        f"%b{i} = hal.interface.binding.subspan layout({layout}) binding({i}) alignment(64) offset(%c0) "
        f": memref<?xf32, {storage}>{{%n}}"
        for i in range(4)
    )
    kernel = f"""func.func @scaled() attributes {{translation_info = #iree_codegen.translation_info<
  pipeline = #iree_codegen.no_pipeline workgroup_size = [1, 1, 1]>}} {{
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c256 = arith.constant 256 : index
%ni = hal.interface.constant.load layout({layout}) ordinal(0) : i32
%n = arith.index_castui %ni : i32 to index
{spans}
%w = hal.interface.workgroup.id[0] : index
%first = arith.muli %w, %c256 : index
%end = arith.addi %first, %c256 : index
%last = arith.minui %end, %n : index
scf.for %i = %first to %last step %c1 {{
  %x = memref.load %b0[%i] : memref<?xf32, {storage}>
  %d = arith.addf %x, %x : f32
  memref.store %d, %b1[%i] : memref<?xf32, {storage}>
  memref.store %d, %b3[%i] : memref<?xf32, {storage}>
}}
scf.for %i = %first to %last step %c1 {{
  %x = memref.load %b0[%i] : memref<?xf32, {storage}>
  %d = memref.load %b3[%i] : memref<?xf32, {storage}>
  %t = arith.addf %x, %d : f32
  memref.store %t, %b2[%i] : memref<?xf32, {storage}>
}}
return
}}"""
    return built(interface, kernel)


def hal_of(text: str) -> str:
    """`text` after IREE's lowering to its HAL dialect."""
    from iree.compiler.tools import compile_str

    return compile_str(text, extra_args=[f"--compile-from={HOST_PHASE}", "--compile-to=hal"]).decode()

"""A generated kernel in; what a call of it costs the host, in µs, as a Markdown table, out.

    python benchmarks/launch_overhead.py                            on a machine with an NVIDIA GPU
    python benchmarks/launch_overhead.py --kernel generated.gemm_bf16 --size 256
    python benchmarks/launch_overhead.py --stand-in                 without one: Python's part alone

It takes torch and the committed wrapper, and no compiler. The matrices are small, so that the GPU is never behind,
and calls come in bursts that fit its queue, with a wait in between: what is measured is the host.  Beside the median
of the bursts stands the fastest, which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from wavespec.runtime import Kernel, KernelSet, load_artifact
from wavespec.runtime import cuda_launcher as cuda
from wavespec.runtime.checks import DTYPES
from wavespec.runtime.cuda_driver import CudaDriver

ROOT = Path(__file__).parents[1]

# µs above the bare launch: what a launch by our launcher, and a call of the wrapper, may cost.
LIMITS = {"launcher": 2.0, "wrapper, out=": 4.0, "wrapper, new tensor": 6.5}
BARE = "driver, prebuilt arguments"
Figures = dict[str, tuple[float, float]]
"""Median and fastest burst, in µs a call."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print; 1 where a limit is exceeded (on a GPU alone)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="generated.gemm", help="module of a GEMM's wrapper (default %(default)s)")
    parser.add_argument("--size", type=int, default=64, help="M = N = K (default %(default)s)")
    parser.add_argument("--bursts", type=int, default=50, help="the median of these counts (default %(default)s)")
    parser.add_argument("--calls", type=int, default=200, help="calls of a burst (default %(default)s)")
    parser.add_argument("--stand-in", action="store_true", help="CPU tensors, and a driver that does nothing")
    parser.add_argument("--target", default="sm_90", help="artifact of the stand-in (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args(arguments)
    if not options.stand_in and not torch.cuda.is_available():
        parser.error("torch finds no GPU here; --stand-in measures Python's part alone.")
    sys.path.insert(0, str(ROOT))  # `generated` is no package that is installed
    wrapper = import_module(options.kernel)
    device = torch.device("cpu") if options.stand_in else torch.device("cuda", torch.cuda.current_device())
    if options.stand_in:
        use_stand_in(wrapper._KERNELS, options.target)
    calls = calls_of(wrapper, device, options.size)
    figures = measure(
        calls, options.bursts, options.calls, (lambda: None) if options.stand_in else torch.cuda.synchronize
    )
    if options.json:
        print(json.dumps({"machine": machine(device), "microseconds": figures}, indent=2))
    else:
        print(table(figures, machine(device)))
    return int(bool(exceeded(figures)) and not options.stand_in)


def calls_of(wrapper: ModuleType, device: torch.device, size: int) -> dict[str, Callable[[], Any]]:
    """What to measure, from the driver up; all multiply the same two matrices."""
    kernels: KernelSet = wrapper._KERNELS
    kernel = kernels.kernel_for(device)
    first, second = kernel.artifact.inputs
    a, b = (torch.zeros(size, size, dtype=DTYPES[tensor.dtype], device=device) for tensor in (first, second))
    function = getattr(wrapper, kernels.name)
    new, write = (getattr(wrapper, f"_{kernels.name}_{name}op") for name in ("", "out_"))
    c: Tensor = kernel(a, b)
    tensors = (a, b, c)
    _, call = kernel.prepare((a, b), (c,))
    launcher = call.launcher
    assert isinstance(launcher, cuda.CudaLauncher)
    addresses = tuple(tensor.data_ptr() for tensor in tensors)
    bound = launcher._bound_launch(cuda._current_stream(launcher._index), addresses, (), call.plan)
    assert bound is not None
    bare, arguments = bound.launch.func, bound.launch.args
    calls: dict[str, Callable[[], Any]] = {BARE: lambda: bare(*arguments)}
    if device.type == "cuda":
        calls |= bindings_launch(launcher, call.plan.grid, table_of(launcher, arguments[0]))
    calls |= {
        "driver, often": bound.often,
        "launcher": lambda: launcher.launch(tensors, addresses, call.plan),
        "kernel.raw": lambda: kernel.raw(a, b, c),
        "kernel, out=": lambda: kernel(a, b, out=c),
        "kernel, new tensor": lambda: kernel(a, b),
        "wrapper, out=": lambda: function(a, b, out=c),
        "wrapper, new tensor": lambda: function(a, b),
        "operator, out=": lambda: write(a, b, c),
        "operator, new tensor": lambda: new(a, b),
    }
    if device.type == "cuda" and a.is_floating_point() and a.element_size() >= 2:
        transposed, product = b.t(), torch.empty(size, size, dtype=a.dtype, device=device)
        calls["torch.mm, out="] = lambda: torch.mm(a, transposed, out=product)
        calls["torch.mm, new tensor"] = lambda: torch.mm(a, transposed)
    return calls


def table_of(launcher: cuda.CudaLauncher, config: Any) -> int:
    """The address of the table of parameters behind a configuration, which starts at a multiple of 64 bytes."""
    memory = ctypes.addressof(config._obj)
    return memory + -memory % cuda._CONFIG_BYTES + launcher._memory._table_at


def bindings_launch(
    launcher: cuda.CudaLauncher, grid: tuple[int, int, int], parameters: int
) -> dict[str, Callable[[], Any]]:
    """The same bare launch through NVIDIA's own Python package, where that is installed."""
    try:
        from cuda.bindings import driver
    except ImportError:
        return {}
    artifact = launcher._artifact
    function, stream = driver.CUfunction(launcher._function), cuda._current_stream(launcher._index)
    shape = (*grid, *artifact.workgroup_size, artifact.shared_memory_bytes, stream, parameters, 0)
    return {"cuda.bindings, prebuilt arguments": lambda: driver.cuLaunchKernel(function, *shape)}


def measure(calls: dict[str, Callable[[], Any]], bursts: int, count: int, wait: Callable[[], Any]) -> Figures:
    """Time every way to call; they take turns, so that none has the machine's best minute to itself."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(bursts + 1):
        for name, call in calls.items():
            wait()
            start = time.perf_counter()
            for _ in range(count):
                call()
            seconds[name].append((time.perf_counter() - start) / count)
    # The first round warms up.
    return {name: (1e6 * statistics.median(times[1:]), 1e6 * min(times[1:])) for name, times in seconds.items()}


def exceeded(figures: Figures) -> list[str]:
    """Which of the calls cost more than they may."""
    return [name for name, limit in LIMITS.items() if figures[name][0] - figures[BARE][0] > limit]


def table(figures: Figures, where: str) -> str:
    """The figures as Markdown."""
    lines = [
        where,
        "",
        "| call | µs | above the driver | at most | fastest burst | above |",
        "|---|---|---|---|---|---|",
    ]
    for name, (median, fastest) in figures.items():
        limit = f"{LIMITS[name]:g}{', exceeded' if name in exceeded(figures) else ''}" if name in LIMITS else ""
        above = [value - bare for value, bare in zip((median, fastest), figures[BARE], strict=True)]
        lines.append(f"| {name} | {median:.2f} | {above[0]:+.2f} | {limit} | {fastest:.2f} | {above[1]:+.2f} |")
    return "\n".join(lines)


def machine(device: torch.device) -> str:
    """What the figures were measured on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU, a driver that does nothing"
    return f"{name}; torch {torch.__version__}, Python {platform.python_version()}, CPU {platform.processor()}"


def use_stand_in(kernels: KernelSet, target: str) -> None:
    """Have CPU tensors launched by the CUDA launcher, on a driver whose functions return at once."""
    kernel = Kernel(load_artifact(kernels._directory / f"{target}.json", kernels._spec))
    kernel._device_type, kernel._empty = "cpu", torch._C._dynamo.guards._empty_strided_cpu
    cpu = torch.device("cpu")
    for member, artifact in enumerate(kernel.artifact.members):
        kernel._launchers[member][cpu] = cuda.CudaLauncher(artifact, artifact.binaries, cpu, CudaDriver(idle_library()))
    kernels._kernels[cpu] = kernel
    cuda._current_stream = lambda index: 0


def idle_library() -> SimpleNamespace:
    """A library in the place of the driver's."""
    names = ("cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute", "cuGetErrorName", "cuLaunchKernelEx")
    # A C function that returns 0 and does nothing else, whatever it is called with.
    return SimpleNamespace(
        **{name: ctypes.CDLL(None)["pthread_mutexattr_destroy"] for name in (*names, "cuTensorMapEncodeTiled")}
    )


if __name__ == "__main__":
    sys.exit(main())

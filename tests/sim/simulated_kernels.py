"""Small thread-level kernels for the simulator tests: from printed bodies or from a builder."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from wavespec.diagnostics import Span
from wavespec.ir.kernel import Kernel
from wavespec.ir.layout import row_major
from wavespec.ir.parser import parse_kernel
from wavespec.ir.thread import ThreadBuilder
from wavespec.targets.machine import Machine, machines

NVIDIA, AMD, CPU = machines("sm_90")[0], machines("gfx942")[0], machines("cpu")[0]


def line(number: int) -> Span:
    """A place in an imaginary spec."""
    return Span("copy.wave.yaml", number, 1, number, 9)


def tensor(name: str, role: str, *shape: int, dtype: str = "f32") -> str:
    dims = ", ".join(f"d{position}: [{extent}]" for position, extent in enumerate(shape))
    return f"memory @{name} : {dtype} ({dims}) global {role}"


def shared(name: str, *shape: int, dtype: str = "f32", padding: int = 0, buffers: int = 1) -> str:
    dims = tuple(f"d{position}" for position in range(len(shape)))
    extents = ", ".join(f"{dim}: [{extent}]" for dim, extent in zip(dims, shape, strict=True))
    copies = f" x{buffers}" if buffers > 1 else ""
    return f"memory @{name} : {dtype} ({extents}) shared {row_major(dims, shape, padding)}{copies}"


def kernel(
    machine: Machine, memories: list[str], body: str = "", *, waves: int = 1, grid: int = 1, symbols: str = ""
) -> Kernel:
    """A kernel with symbols ``lane``, ``wave`` and ``wg0``; the body is printed IR."""
    header = f"""thread kernel @test target {machine.target} lanes {machine.lanes}
symbol lane in 0..{machine.lanes - 1} by 1
symbol wave in 0..{waves - 1} by 1
symbol wg0 in 0..{grid - 1} by 1
{symbols}
plan "auto" stages 1 group 1
wave wave {waves}
grid [{grid}]
"""
    if grid == 1:
        header = header.replace("symbol wg0 in 0..0 by 1\n", "")
    if waves == 1:
        header = header.replace("symbol wave in 0..0 by 1\n", "").replace("wave wave 1\n", "")
    return parse_kernel(header + "\n".join(memories) + "\n{\n" + body + "\n}\n")


def built(header: Kernel, fill: Callable[[ThreadBuilder], None]) -> Kernel:
    """The kernel with a body from a builder."""
    count = itertools.count()
    build = ThreadBuilder(lambda hint: f"{hint}{next(count)}")
    fill(build)
    return replace(header, body=tuple(build.ops))


def numbers(*shape: int, dtype: object = np.float32, seed: int = 0) -> np.ndarray:
    """Small whole numbers, so that every product and sum is exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)

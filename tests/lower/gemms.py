"""GEMM specs in every variation the passes meet, as YAML text: parameters in, a checked spec out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from wavespec.ir.kernel import Kernel
from wavespec.ir.printer import print_kernel
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.interleaving import Order
from wavespec.sim.simt import SimulationReport, simulate
from wavespec.targets.machine import Machine, machines

NVIDIA, AMD = machines("sm_90")[0], machines("gfx942")[0]
AMD_COPYING = machines("gfx950")[0]
"""With asynchronous copies, which write in the order of lanes."""
CPU = next(machine for machine in machines("cpu") if machine.variant == "x86_64_v4_bf16")
MACHINES = tuple(machine for target in ("cpu", "sm_90", "gfx942", "gfx950") for machine in machines(target))
ACCUMULATOR = {"f32": "f32", "f16": "f32", "bf16": "f32", "i8": "i32"}

_TEXT = """\
apiVersion: wavespec/v1
kind: Kernel
name: gemm
dims:
  M: {{{m}}}
  N: {{{n}}}
  K: {{{k}}}
params:
  BM: {tile[0]}
  BN: {tile[1]}
  BK: {tile[2]}
tensors:
  a: {{shape: [{a}], dtype: {dtype}, space: {spaces[0]}}}
  b: {{shape: [{b}], dtype: {dtype}, space: {spaces[1]}}}
  c: {{shape: [{c}], dtype: {acc}, role: output}}
constraints:
  - {{workgroup: M, tile: BM, axis: 0}}
  - {{workgroup: N, tile: BN, axis: 1}}
  - {{tiling: K, tile: BK}}
{waves}  - {{hardware: {{mma: {mma}}}}}
graph:
  - zero: {{register: [{c}], dtype: {acc}, value: {value}}}
  - k_loop:
      iterate: K
      carry: {{acc: zero}}
      body:
        - a_tile: {{read: a}}
        - b_tile: {{read: b}}
        - acc: {{mma: [a_tile, b_tile, acc]}}
  - {{write: k_loop.acc, to: c}}
schedule: {{stages: {stages}{schedule}}}
"""


@dataclass(frozen=True, slots=True)
class Gemm:
    """One variation of ``c[M, N] = value + a[M, K] · b[N, K]``; ``dims`` holds the YAML of each size."""

    dtype: str = "f16"
    tile: tuple[int, int, int] = (32, 64, 32)
    wave: tuple[int | None, int | None] = (16, 32)
    mma: str = "auto"
    dims: tuple[str, str, str] = ("", "", "")
    spaces: tuple[str, str] = ("shared", "shared")
    stages: int = 1
    value: int = 0
    orders: tuple[str, str, str] = field(default=("M, K", "N, K", "M, N"))
    schedule: str = ""

    @property
    def text(self) -> str:
        m, n, k = self.dims
        a, b, c = self.orders
        splits = zip("MN", self.wave, strict=True)
        waves = "".join(f"  - {{wave: {dim}, tile: {size}}}\n" for dim, size in splits if size is not None)
        return _TEXT.format(
            m=m,
            n=n,
            k=k,
            a=a,
            b=b,
            c=c,
            tile=self.tile,
            dtype=self.dtype,
            acc=ACCUMULATOR[self.dtype],
            spaces=self.spaces,
            waves=waves,
            mma=self.mma,
            stages=self.stages,
            schedule=self.schedule and f", {self.schedule}",
            value=self.value,
        )

    @property
    def spec(self) -> KernelSpec:
        return loads(self.text, "gemm.wave.yaml")

    def lowered(self, machine: Machine, after: str = "") -> Kernel:
        """The kernel after a pass (default: all of them)."""
        return lower(self.spec, machine, after=after)


def source(name: str) -> str:
    """The text of a spec in ``specs/``."""
    return (Path(__file__).parents[2] / "specs" / name).read_text(encoding="utf-8")


def operands(spec: KernelSpec, sizes: dict[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    """Whole numbers from -3 to 3 in the dtypes of the spec: sums of products of them are exact in f32."""
    import ml_dtypes

    kinds = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "u8": np.uint8}
    random = np.random.default_rng(seed)
    return {
        name: random.integers(-3, 4, [sizes[dim] for dim in tensor.shape]).astype(kinds[tensor.dtype])
        for name, tensor in spec.tensors.items()
        if tensor.role == "input"
    }


def run(
    spec: KernelSpec,
    machine: Machine,
    sizes: dict[str, int],
    *,
    kernel: Kernel | None = None,
    seed: int = 0,
    order: Order = "forward",
) -> tuple[SimulationReport, np.ndarray]:
    """Simulate the whole grid of a spec; returns the report and what the reference computes in f64."""
    import torch

    from wavespec.sim.reference import reference

    inputs = operands(spec, sizes, seed)
    report = simulate(kernel or lower(spec, machine), machine, inputs, sizes, order=order)
    wide = [
        torch.from_numpy(array.astype(np.int8 if array.dtype == np.int8 else np.float64)) for array in inputs.values()
    ]
    return report, np.asarray(reference(spec, *wide))


def lines(kernel: Kernel, *words: str) -> list[str]:
    """The printed operations called one of ``words``, without indentation."""
    printed = [line.strip() for line in print_kernel(kernel).splitlines()]
    return [line for line in printed if _name(line) in words]


def _name(line: str) -> str:
    words = line.split()
    return words[words.index("=") + 1] if line.startswith("%") else words[0] if words else ""

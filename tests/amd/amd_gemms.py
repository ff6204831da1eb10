"""Parameters of a GEMM in, its HSACO and the result of running that in an emulator out.

The emulator is no part of this project: `gfx_emulator.py` and `hsaco.py` are looked for where
WAVESPEC_AMD_EMULATOR says, then in `shared/tools/amd` above this file.  It stops at races, reads of what was
never written, and accesses out of bounds.
"""

from __future__ import annotations

import functools
import importlib
import os
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from benchmarks.peer_gemms import FIXED, PEER_GEMMS, PeerGemm, Sizes
from tests.amd.atomics import with_atomics
from tests.amd.copies_in_flight import with_copies
from wavespec.emit.code_figures import object_in
from wavespec.pipeline import build_variant
from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.size_expr import evaluate
from wavespec.schema import KernelSpec, loads
from wavespec.targets.machine import machines

DISASSEMBLER = "llvm-objdump-22"
_VARIABLE = "WAVESPEC_AMD_EMULATOR"
_ACCUMULATOR = {"f16": "f32", "bf16": "f32", "f32": "f32", "i8": "i32"}
_PROMISES = {"f16": 8, "bf16": 8, "f32": 4, "i8": 16}


class AnyGemm(Protocol):
    """What the functions below need of a GEMM; it is hashable."""

    @property
    def dtype(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def tile(self) -> tuple[int, int, int]: ...
    @property
    def spec(self) -> KernelSpec: ...


@dataclass(frozen=True, slots=True)
class Gemm:
    """``c[M, N] = a[M, K] · b[N, K]ᵀ`` and how it is split.

    ``sizes``: the YAML of M, N and K, such as ``multiple_of: 8``; by default K is promised to be vectors.
    """

    dtype: str = "f16"
    mma: str = "auto"
    tile: tuple[int, int, int] = (128, 128, 32)
    waves: tuple[int, int] = (2, 2)
    sizes: tuple[str, str, str] | None = None
    target: str = "gfx942"
    schedule: str = "{stages: 1}"

    @property
    def spec(self) -> KernelSpec:
        """The checked spec."""
        return loads(self.text)

    @property
    def text(self) -> str:
        """The spec."""
        m, n, k = self.tile
        sizes = self.sizes or ("", "", f"multiple_of: {_PROMISES[self.dtype]}")
        acc = _ACCUMULATOR[self.dtype]
        return f"""apiVersion: wavespec/v1
kind: Kernel
name: gemm
dims: {{M: {{{sizes[0]}}}, N: {{{sizes[1]}}}, K: {{{sizes[2]}}}}}
params: {{BLOCK_M: {m}, BLOCK_N: {n}, BLOCK_K: {k}}}
tensors:
  a: {{shape: [M, K], dtype: {self.dtype}, space: shared}}
  b: {{shape: [N, K], dtype: {self.dtype}, space: shared}}
  c: {{shape: [M, N], dtype: {acc}, role: output}}
constraints:
  - {{workgroup: M, tile: BLOCK_M, axis: 0}}
  - {{workgroup: N, tile: BLOCK_N, axis: 1}}
  - {{tiling: K, tile: BLOCK_K}}
  - {{wave: M, tile: BLOCK_M / {self.waves[0]}}}
  - {{wave: N, tile: BLOCK_N / {self.waves[1]}}}
  - {{hardware: {{mma: {self.mma}}}}}
graph:
  - zero: {{register: [M, N], dtype: {acc}, value: 0}}
  - k_loop:
      iterate: K
      carry: {{acc: zero}}
      body:
        - a_tile: {{read: a}}
        - b_tile: {{read: b}}
        - acc: {{mma: [a_tile, b_tile, acc]}}
  - {{write: k_loop.acc, to: c}}
schedule: {self.schedule}
targets: {{gfx942: {{}}, gfx950: {{}}}}
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """One of the eight GEMMs that a peer has figures for, by its number; ``sides``: of M, N and K, None = any."""

    number: int
    target: str = "gfx942"
    sides: tuple[int, int, int] | None = None
    dtype: str = "f16"

    @property
    def case(self) -> PeerGemm:
        return PEER_GEMMS[self.number]

    @property
    def tile(self) -> tuple[int, int, int]:
        return self.case.tile

    @property
    def spec(self) -> KernelSpec:
        """The checked spec."""
        sizes: Sizes = {dim: {"value": side} for dim, side in zip("MNK", self.sides or (), strict=False)}
        return self.case.spec(self.target, sizes)


@dataclass(frozen=True, slots=True)
class PeerAsMeasured(Peer):
    """At the sizes of the peer's figures."""

    @property
    def spec(self) -> KernelSpec:
        return self.case.spec(self.target, FIXED)


@dataclass(frozen=True, slots=True)
class Run:
    """What the emulator saw: the result, executed instructions per opcode, and its statistics."""

    result: Any
    expected: Any
    executed: Counter[str]
    statistics: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def right(self) -> bool:
        """Whether every element is exactly as expected."""
        return bool(np.array_equal(self.result.astype(np.int64), self.expected))


def emulator_directory() -> Path | None:
    """Where the emulator is: named by the environment, or beside the checkout."""
    if named := os.environ.get(_VARIABLE):
        return Path(named)
    above = (parent / "shared" / "tools" / "amd" for parent in Path(__file__).resolve().parents)
    return next((place for place in above if (place / "gfx_emulator.py").is_file()), None)


def emulator_missing() -> str:
    """Why the emulator cannot run; empty where it can be imported from now on."""
    directory = emulator_directory()
    if directory is None or not (directory / "gfx_emulator.py").is_file():
        return f"no gfx_emulator.py: name its directory in {_VARIABLE}"
    if shutil.which(DISASSEMBLER) is None:
        return f"the emulator reads kernels through {DISASSEMBLER}: not found"
    if str(directory) not in sys.path:
        sys.path.append(str(directory))
    return ""


def require_emulator() -> None:
    """Skip the module where it cannot run."""
    if reason := emulator_missing():
        pytest.skip(reason, allow_module_level=True)


@functools.cache
def built(gemm: AnyGemm) -> KernelArtifact:
    """The compiled kernel and how it is launched."""
    (machine,) = machines(gemm.target)
    return build_variant(gemm.spec, machine)[0]


def hsaco(gemm: AnyGemm) -> bytes:
    """The code object."""
    (vmfb,) = built(gemm).binaries
    return object_in(vmfb.data)


@functools.lru_cache(maxsize=8)  # fifty megabytes of each large one: what is read of every instruction
def loaded(gemm: AnyGemm) -> tuple[Any, dict[str, Any]]:
    """The kernel as the emulator runs it, and the figures in the notes of the code object."""
    return load_object(hsaco(gemm))


def load_object(data: bytes) -> tuple[Any, dict[str, Any]]:
    """What `loaded` gives, of a code object."""
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the emulator leaves closing to the collector
        path = Path(directory) / "gemm.hsaco"
        path.write_bytes(data)
        code = importlib.import_module("hsaco").Hsaco(str(path))
        return _waves_apart()(str(path)), code.figures(next(iter(code.kernels)))


class _AnyPlace(int):
    """Equal to every other: where one wave waits is no news to another."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def _of_three(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    def joined(a: Any, b: Any, c: Any) -> Any:
        return function(function(a, b), c)

    return joined


def _bits_and(a: Any, b: Any) -> Any:
    """How many bits ``a`` has, added to ``b``."""
    return np.bitwise_count(a).astype(np.uint32) + b


class InFlight(list[Any]):
    """Accesses of one wave under way, as many as a counter of the hardware counts: the next one waits for the oldest.

    Compilers rely on it: what has as many behind it needs no ``s_waitcnt``.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def append(self, commit: Any) -> None:
        if len(self) == self.most and (landed := self.pop(0)):
            landed()
        super().append(commit)


def _waves_apart() -> Any:
    """The emulator's kernel, for waves that wait at different barriers of the code at the same time, and whose counters
    of accesses in flight have 6 and 4 bits.

    It takes the former for a mistake; for waves that take turns it is the point.  What a barrier orders, it goes by how
    many each wave has passed, so that races are found all the same.
    """
    emulator: Any = importlib.import_module("gfx_emulator")
    kernel: Any = with_atomics(with_copies(emulator.Kernel))
    for name, function in (("min", np.minimum), ("max", np.maximum)):  # it has those of unsigned numbers and floats
        emulator.VOP.setdefault(f"v_{name}3_i32", ("i32", ["i32"] * 3, _of_three(function)))
    emulator.VOP.setdefault("v_bcnt_u32_b32", ("u32", ["u32"] * 2, _bits_and))

    class Apart(kernel):
        def step(self, w: Any, max_ins: int) -> None:
            if not isinstance(w.q["vm"], InFlight):
                w.q = {"vm": InFlight(63), "lgkm": InFlight(15)}
            super().step(w, max_ins)  # pyright: ignore[reportUnknownMemberType]
            if not w.done:
                w.pc = _AnyPlace(w.pc)

    return Apart


def figures(gemm: AnyGemm) -> dict[str, Any]:
    """Registers, memory and sizes from the notes of the code object."""
    return loaded(gemm)[1]


def opcodes(gemm: AnyGemm) -> list[str]:
    """The instructions of the code object, in order, without their operands."""
    return [one.base for one in loaded(gemm)[0].ins]


def loop(gemm: AnyGemm) -> list[str]:
    """Opcodes of the loop with the most matrix instructions."""
    kernel, _ = loaded(gemm)
    every = opcodes(gemm)
    bodies = [
        every[kernel.labels[one.ops[0]] : at + 1]
        for at, one in enumerate(kernel.ins)
        if "branch" in one.base and kernel.labels[one.ops[0]] <= at
    ]
    return max(bodies, key=lambda body: count(body, "v_mfma"))


def count(names: list[str], *starts: str) -> int:
    """How many opcodes begin with one of ``starts``."""
    return sum(name.startswith(starts) for name in names)


def run(gemm: AnyGemm, m: int, n: int, k: int, order: str = "fwd") -> Run:
    """Multiply small integers, whose sums every type of accumulator holds exactly."""
    emulator = importlib.import_module("gfx_emulator")
    numbers = np.random.default_rng(m + n + k)
    dtype = _numpy_type(gemm.dtype)
    a, b = (numbers.integers(-4, 5, (rows, k)).astype(dtype) for rows in (m, n))
    out = np.full((m, n), -7777, np.int32 if gemm.dtype == "i8" else np.float32)
    memory = emulator.Memory()
    addresses = [memory.add(array, name) for name, array in (("a", a), ("b", b), ("c", out))]
    sides = dict(zip(gemm.spec.dims, (m, n, k), strict=True))
    grid = tuple(evaluate(extent, sides) for extent in built(gemm).grid)
    dims = gemm.spec.dims.values()
    sizes = [size for size, dim in zip((m, n, k), dims, strict=True) if dim.value is None]
    executed, statistics = loaded(gemm)[0].run(grid, [*addresses, *sizes], mem=memory, order=order)
    expected = a.astype(np.int64) @ b.astype(np.int64).T
    return Run(memory.get(addresses[2]), expected, Counter(executed), statistics)


def _numpy_type(dtype: str) -> Any:
    import ml_dtypes

    return {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "i8": np.int8}[dtype]

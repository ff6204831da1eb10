"""Machines as data: one YAML file per target in, `Machine` rows out; nothing else in the compiler names a chip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Literal

import yaml

from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.expr import symbol
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.ir.parser import parse_expr

TARGETS = ("cpu", "sm_90", "gfx942", "gfx950")


@dataclass(frozen=True, slots=True)
class Fragment:
    """One operand of a matrix instruction: element type and where each element lives, in dims ``m``, ``n``, ``k``."""

    dtype: DType
    layout: Layout
    staging: Literal["rows", "panels"] = "rows"
    """How a staged tile of this operand lies on machines that pack panels."""


@dataclass(frozen=True, slots=True)
class MatrixInstruction:
    """``acc[m, n] += a[m, k] · b[n, k]`` by one wave, in one step of the machine."""

    name: str
    m: int
    n: int
    k: int
    """Extents of one issue, in elements."""
    a: Fragment
    b: Fragment
    acc: Fragment
    inputs: tuple[DType, ...]
    """Element types in memory that it takes; a type other than ``a.dtype`` is converted when it is staged."""
    lanes: int
    emit: str
    """How the emitter spells it: ``family`` or ``family:intrinsic``."""
    source: str
    """Where the row was read: vendor page and table."""
    auto: bool = True
    """Whether ``mma: auto`` may pick it; a row that changes the numerics of its types is taken by name only."""
    unroll: int = 1
    """Steps along k that one iteration of the inner loop issues (machines that keep the inner loop rolled)."""

    def swapped(self) -> MatrixInstruction:
        """The same instruction computing the transposed product: ``a`` takes n, ``b`` takes m."""
        names = {"m": "n", "n": "m", "k": "k"}

        def flip(fragment: Fragment) -> Fragment:
            return replace(fragment, layout=fragment.layout.renamed(names))

        return replace(
            self, m=self.n, n=self.m, a=flip(self.b), b=flip(self.a), acc=flip(self.acc), emit=self.emit + ":swapped"
        )


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """Memory of one workgroup."""

    bytes: int
    banks: int
    bank_bytes: int
    access_bytes: int
    """Widest access of one lane."""
    arrangement: Literal["rows", "panels"]
    matrix_load: Literal["", "ldmatrix", "tile"]
    """``ldmatrix``: one instruction loads matrices of 8 rows of 16 bytes.  ``tile``: operands are tile registers
    of 16 rows of 64 bytes."""
    spread: Literal["", "padding", "swizzle"]
    """How rows are kept off the same banks."""


@dataclass(frozen=True, slots=True)
class GlobalMemory:
    """Memory of the device."""

    access_bytes: int
    """Widest access of one lane."""
    any_alignment: bool
    """Whether a wide access may start at any element."""
    masked_vectors: bool
    """Whether one access can leave out some of its elements."""
    async_copy_bytes: int
    """Widest asynchronous copy into shared memory; 0 = none."""
    checked_stores: bool = False
    """Whether wide stores are emitted where only the call's sizes decide their alignment, with narrow ones beside
    them."""
    alignment_bytes: int = 0
    """What a wide access has to be aligned to; 0 = its own width."""

    def aligned(self, divisor: int, elements: int, element_bytes: int) -> bool:
        """Whether an access of some elements may start at multiples of ``divisor`` elements."""
        needed = (
            elements * element_bytes
            if not self.alignment_bytes
            else min(self.alignment_bytes, elements * element_bytes)
        )
        return self.any_alignment or divisor * element_bytes % needed == 0


@dataclass(frozen=True, slots=True)
class Machine:
    """One chip, or one instruction set of a CPU, as the passes see it."""

    target: str
    variant: str
    backend: Literal["llvm-cpu", "cuda", "rocm"]
    lanes: int
    concurrent_waves: bool
    """True: the waves of a workgroup run together.  False: one after another between barriers, on one core."""
    max_threads: int
    registers: int
    """32-bit registers that one lane can hold; 0 = not a limit, because tiles are as large as the register file by
    design."""
    vector_bytes: int
    """Width of a vector register of one lane; 0 = as wide as the access."""
    shared: SharedMemory
    globals: GlobalMemory
    instructions: tuple[MatrixInstruction, ...]
    """In order of preference for ``mma: auto``."""
    compiler: Mapping[str, Any]
    """What the backend needs to be told: features, architecture name, target attribute."""
    raster_group: int = 1
    """Workgroups along grid axis 0 that run together with their neighbours along axis 1."""
    requires: tuple[str, ...] = ()
    """Features (as the operating system names them) that the running machine must have."""

    def instruction(self, name: str) -> MatrixInstruction | None:
        """The row called ``name``, the other way round where the name ends in ``:swapped``; None for an unknown one."""
        plain, _, swapped = name.partition(":")
        found = next((row for row in self.instructions if row.name == plain), None)
        if swapped not in ("", "swapped"):
            return None
        return found.swapped() if found is not None and swapped else found


@cache
def machines(target: str) -> tuple[Machine, ...]:
    """Every variant of a target, best first; raises ``KeyError`` for an unknown target."""
    if target not in TARGETS:
        raise KeyError(target)
    text = (resources.files("wavespec.targets") / f"{target}.yaml").read_text(encoding="utf-8")
    data: dict[str, Any] = yaml.safe_load(text)
    variants: list[dict[str, Any]] = data.pop("variants", [{}])
    return tuple(_machine(target, {**data, **variant}) for variant in variants)


def _machine(target: str, data: dict[str, Any]) -> Machine:
    lanes: int = data["lanes"]
    return Machine(
        target=target,
        variant=data.get("variant", target),
        backend=data["backend"],
        lanes=lanes,
        concurrent_waves=data["concurrent_waves"],
        max_threads=data["max_threads"],
        registers=data.get("registers", 0),
        vector_bytes=data.get("vector_bytes", 0),
        shared=SharedMemory(**data["shared"]),
        globals=GlobalMemory(**data["global"]),
        instructions=tuple(_instruction(row, lanes) for row in data["matrix_instructions"]),
        compiler=data["compiler"],
        raster_group=data.get("raster_group", 1),
        requires=tuple(data.get("requires", ())),
    )


def _instruction(row: dict[str, Any], lanes: int) -> MatrixInstruction:
    lanes = row.get("lanes", lanes)
    a, b, acc = (_fragment(row[name], lanes) for name in ("a", "b", "acc"))
    m, n, k = row["shape"]
    inputs = tuple(DTYPES[name] for name in row.get("inputs", [row["a"]["dtype"]]))
    auto, unroll = row.get("auto", True), row.get("unroll", 1)
    return MatrixInstruction(row["name"], m, n, k, a, b, acc, inputs, lanes, row["emit"], row["source"], auto, unroll)


def _fragment(row: dict[str, Any], lanes: int) -> Fragment:
    symbols = {"lane": symbol("lane", 0, lanes - 1)}
    base = tuple((dim, parse_expr(str(text), symbols)) for dim, text in row["base"].items())
    axes = tuple(
        RegisterAxis(axis["extent"], tuple((dim, stride) for dim, stride in axis.items() if dim != "extent"))
        for axis in row["registers"]
    )
    return Fragment(DTYPES[row["dtype"]], Layout(base, axes, len(axes)), row.get("staging", "rows"))

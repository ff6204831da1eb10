"""Elements at other places: every way in one kernel, its inputs, and its run in the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tests.kernels import TORCH, array_to_tensor, tensor_to_array, tensors_of
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.findings import SimulationReport
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

WAYS: Mapping[str, tuple[str, str]] = {
    "first_half": ("M, D", "{N: D}"),
    "second_half": ("M, D", "{N: D + size(D)}"),
    "even": ("M, D", "{N: 2 * D}"),
    "odd": ("M, D", "{N: 2 * D + 1}"),
    "neighbour": ("M, N", "{N: 'xor(N, 1)'}"),
    "halves_swapped": ("M, N", "{N: (N + size(D)) % size(N)}"),
    "before": ("M, N", "{N: N - 1}"),
    "later": ("M, N", "{N: N + 3}"),
    "backwards": ("M, N", "{N: size(N) - 1 - N}"),
    "split": ("M, F, E", "{N: F * size(E) + E}"),
    "turned": ("F, E, M", "{N: E * size(F) + F}"),
    "looked_up": ("M, N", "{N: place}"),
    "one": ("M, N", "{N: 5}"),
    "outside": ("M, D", "{N: 0 - 1 - D}"),
    "reordered": ("N, M", "{}"),
    "repeated": ("M, E, N", "{}"),
}
"""Name of an output: its dims, and where its elements are in x[M, N]; N = 2 D = E F, E = 4."""


@dataclass(frozen=True, slots=True)
class Takes:
    """``y = (x + x) at other places`` of rows of ``n``, for each of ``ways``; ``tile`` of M and N, ``wave`` of them."""

    ways: tuple[str, ...] = tuple(WAYS)
    n: int = 64
    dtype: str = "f32"
    tile: int = 4
    wave: tuple[int, int] = (2, 0)
    known: bool = True
    """Whether the size of the rows is."""

    @property
    def sizes(self) -> dict[str, int]:
        return {"N": self.n, "D": self.n // 2, "E": 4, "F": self.n // 4}

    @property
    def spec(self) -> KernelSpec:
        large = self.n if self.known else -(-self.n // 32) * 32
        fixed = {dim: f"value: {size}" for dim, size in self.sizes.items()}
        if not self.known:
            fixed |= {
                "N": f"max: {large}",
                "D": f"equals: N // 2, max: {large // 2}",
                "F": f"equals: N // 4, max: {large // 4}",
            }
        is_small = self.dtype.startswith("f8")
        computed = "" if is_small else f"  - computed: {'part' if self.dtype == 'bool' else 'part + part'}\n"
        tilings = {"N": large, "D": large // 2, "F": large // 4}
        waves = f"  - {{wave: N, tile: {self.wave[1]}}}\n" if self.wave[1] else ""
        outputs = "".join(
            f"  {way}: {{shape: [{WAYS[way][0]}], dtype: {self.dtype}, role: output}}\n" for way in self.ways
        )
        taken = "".join(
            f"  - y_{way}: {{take: {'part' if is_small else 'computed'}, dims: [{WAYS[way][0]}], at: {WAYS[way][1]}}}\n"
            f"  - {{write: y_{way}, to: {way}}}\n"
            for way in self.ways
        )
        return loads(
            "apiVersion: wavespec/v1\nkind: Kernel\nname: takes\n"
            f"dims: {{M: {{}}, {', '.join(f'{dim}: {{{size}}}' for dim, size in fixed.items())}}}\n"
            "tensors:\n"
            f"  x: {{shape: [M, N], dtype: {self.dtype}}}\n"
            "  p: {shape: [N], dtype: i32}\n"
            f"{outputs}"
            "constraints:\n"
            f"  - {{workgroup: M, tile: {self.tile}, axis: 0}}\n"
            f"  - {{wave: M, tile: {self.wave[0]}}}\n"
            f"{''.join(f'  - {{tiling: {dim}, tile: {tile}}}' + chr(10) for dim, tile in tilings.items())}"
            f"{waves}"
            "graph:\n"
            "  - part: {read: x}\n"
            "  - place: {read: p}\n"
            f"{computed}"
            f"{taken}",
            "takes.wave.yaml",
        )

    def inputs(self, rows: int) -> tuple[Tensor, Tensor]:
        """Small whole numbers, and places of which some are outside."""
        random = torch.Generator().manual_seed(rows)
        low, high = (0, 2) if self.dtype in ("bool", "u8") else (-4, 5)
        x = torch.randint(low, high, (rows, self.n), generator=random).to(TORCH[self.dtype])
        return x, torch.randint(-3, self.n + 3, (self.n,), generator=random).int()

    def run(self, machine: Machine, rows: int, kernel: Kernel | None = None) -> tuple[SimulationReport, list[str]]:
        """The simulator's report, and the outputs that are wrong."""
        x, p = self.inputs(rows)
        arrays = {"x": tensor_to_array(x, self.dtype), "p": p.numpy()}
        report = simulate(kernel or lower(self.spec, machine), machine, arrays, {"M": rows, **self.sizes})
        exact = tensors_of(reference(self.spec, x, p))
        found = {way: array_to_tensor(report.tensors[way], self.dtype) for way in self.ways}
        wrong = [
            way
            for way, right in zip(self.ways, exact, strict=True)
            if not np.array_equal(found[way].double().numpy(), right.to(TORCH[self.dtype]).double().numpy())
        ]
        return report, wrong

    def check(self, machine: Machine, rows: int) -> None:
        report, wrong = self.run(machine, rows)
        assert report.ok, report.render()
        assert not wrong

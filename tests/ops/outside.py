"""Places made of values that lie far outside: small kernels that read, look up, write, combine and stage at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from wavespec.schema import KernelSpec, loads

SIZES: Mapping[str, int] = {"M": 13, "N": 24, "V": 6, "K": 32}

WAYS: Mapping[str, tuple[str, str, str]] = {
    "read": (
        "  x: {shape: [V, N], dtype: f32}",
        "  y: {shape: [M, N], dtype: f32, role: output}",
        "  - values: {read: x, dims: [M, N], at: {V: @}}\n  - {write: values, to: y}",
    ),
    "read_columns": (
        "  x: {shape: [N, V], dtype: bf16}",
        "  y: {shape: [M, N], dtype: bf16, role: output}",
        "  - values: {read: x, dims: [M, N], at: {V: @}}\n  - {write: values, to: y}",
    ),
    "read_element": (
        "  x: {shape: [V], dtype: f32}",
        "  y: {shape: [M], dtype: f32, role: output}",
        "  - values: {read: x, dims: [M], at: {V: @}}\n  - {write: values, to: y}",
    ),
    "take": (
        "  x: {shape: [M, V], dtype: f32}",
        "  y: {shape: [M], dtype: f32, role: output}",
        "  - one: {read: x}\n  - twice: one + one\n"
        "  - values: {take: twice, dims: [M], at: {V: @}}\n  - {write: values, to: y}",
    ),
    "write": (
        "  x: {shape: [M, N], dtype: f32}",
        "  y: {shape: [V, N], dtype: f32, role: inout}",
        "  - values: {read: x}\n  - {write: values, to: y, at: {V: @}}",
    ),
    "combine": (
        "  x: {shape: [M, N], dtype: f32}",
        "  y: {shape: [V, N], dtype: f32, role: inout}",
        "  - values: {read: x}\n  - {write: values, to: y, at: {V: @}, combine: add}",
    ),
    "stage": (
        "  x: {shape: [V, K], dtype: f16, space: shared}\n  w: {shape: [N, K], dtype: f16, space: shared}",
        "  y: {shape: [M, N], dtype: f32, role: output}",
        "  - zero: {register: [M, N], dtype: f32, value: 0}\n"
        "  - k_loop:\n      iterate: K\n      carry: {acc: zero}\n      body:\n"
        "        - a: {read: x, dims: [M, K], at: {V: @}}\n        - b: {read: w}\n        - acc: {mma: [a, b, acc]}\n"
        "  - {write: k_loop.acc, to: y}",
    ),
}
"""Name: the inputs, the tensor that the kernel changes, and the graph; ``@`` is where along V."""

FAR = (-1, 6, 2**31 - 1, 2**31, 2**32, 2**32 + 1, -(2**31), -(2**32), -(2**32) + 1, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1)
"""Whole numbers outside of V, by little and by so much that some multiple of them is inside again."""


@dataclass(frozen=True, slots=True)
class Outside:
    """One way to access a tensor at places along V that row ``m`` of ``place[M]`` decides."""

    way: str
    index: str = "i64"
    at: str = "row"
    target: str = "gfx942"
    dtype: str = "f32"
    tile: tuple[int, int, int] = (1, 1, 1)

    @property
    def spec(self) -> KernelSpec:
        """The checked spec."""
        inputs, output, graph = WAYS[self.way]
        rows, wave = (32, 16) if self.way == "stage" else (8, 4)
        used = {"M", "V", *(dim for dim in "NK" if f"[{dim}" in inputs + output or f" {dim}]" in inputs + output)}
        fixed = {"M": "", "N": "", "K": "multiple_of: 8", "V": "value: 6" if self.way == "take" else ""}
        dims = ", ".join(f"{dim}: {{{fixed[dim]}}}" for dim in "MNVK" if dim in used)
        columns = "  - {workgroup: N, tile: 32, axis: 1}\n" if "N" in used else ""
        if self.way == "stage":
            columns += "  - {tiling: K, tile: 16}\n"
        if self.way == "take":
            columns += "  - {tiling: V, tile: 6}\n"
        return loads(
            f"apiVersion: wavespec/v1\nkind: Kernel\nname: outside\ndims: {{{dims}}}\n"
            f"tensors:\n  place: {{shape: [M], dtype: {self.index}}}\n{inputs}\n{output}\n"
            f"constraints:\n  - {{workgroup: M, tile: {rows}, axis: 0}}\n{columns}  - {{wave: M, tile: {wave}}}\n"
            f"graph:\n  - row: {{read: place}}\n{graph.replace('@', repr(self.at))}\n",
            "outside.wave.yaml",
        )

    @property
    def sizes(self) -> dict[str, int]:
        return {dim: SIZES[dim] for dim in self.spec.dims}

    def inputs(self, rows: Sequence[int]) -> list[Tensor]:
        """``rows`` are the places, as far as the type of the index has them."""
        random, spec, made = torch.Generator().manual_seed(1), self.spec, list[Tensor]()
        for name, tensor in spec.tensors.items():
            shape = [SIZES[dim] for dim in tensor.shape]
            if name == "place":
                bits = int(self.index[1:])
                held = [row if -(1 << bits - 1) <= row < 1 << bits - 1 else -1 for row in rows]
                made.append(torch.tensor(held, dtype=getattr(torch, f"int{bits}")))
            elif tensor.role != "output":
                dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[tensor.dtype]
                made.append(torch.randint(1, 9, shape, generator=random).to(dtype))
        return made

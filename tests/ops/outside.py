"""Places made of values that lie far outside: small kernels that read, look up, write, combine and stage at them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.kernels import TORCH, tensors_of
from wavespec.schema import KernelSpec, loads
from wavespec.sim.reference import reference

SIZES: Mapping[str, int] = {"M": 13, "N": 24, "V": 6, "K": 32}

WAYS: Mapping[str, tuple[str, str, str]] = {
    "read": (
        "  x: {shape: [V, N], dtype: f32}",
        "  y: {shape: [M, N], dtype: f32, role: output}",
        "  - values: {read: x, dims: [M, N], at: {V: '@'}}\n  - {write: values, to: y}",
    ),
    "read_columns": (
        "  x: {shape: [N, V], dtype: bf16}",
        "  y: {shape: [M, N], dtype: bf16, role: output}",
        "  - values: {read: x, dims: [M, N], at: {V: '@'}}\n  - {write: values, to: y}",
    ),
    "read_element": (
        "  x: {shape: [V], dtype: f32}",
        "  y: {shape: [M], dtype: f32, role: output}",
        "  - values: {read: x, dims: [M], at: {V: '@'}}\n  - {write: values, to: y}",
    ),
    "take": (
        "  x: {shape: [M, V], dtype: f32}",
        "  y: {shape: [M], dtype: f32, role: output}",
        "  - one: {read: x}\n  - twice: one + one\n"
        "  - values: {take: twice, dims: [M], at: {V: '@'}}\n  - {write: values, to: y}",
    ),
    "write": (
        "  x: {shape: [M, N], dtype: f32}",
        "  y: {shape: [V, N], dtype: f32, role: inout}",
        "  - values: {read: x}\n  - {write: values, to: y, at: {V: '@'}}",
    ),
    "combine": (
        "  x: {shape: [M, N], dtype: f32}",
        "  y: {shape: [V, N], dtype: f32, role: inout}",
        "  - values: {read: x}\n  - {write: values, to: y, at: {V: '@'}, combine: add}",
    ),
    "stage": (
        "  x: {shape: [V, K], dtype: f16, space: shared}\n  w: {shape: [N, K], dtype: f16, space: shared}",
        "  y: {shape: [M, N], dtype: f32, role: output}",
        "  - zero: {register: [M, N], dtype: f32, value: 0}\n"
        "  - k_loop:\n      iterate: K\n      carry: {acc: zero}\n      body:\n"
        "        - a: {read: x, dims: [M, K], at: {V: '@'}}\n        - b: {read: w}\n        - acc: {mma: [a, b, acc]}\n"
        "  - {write: k_loop.acc, to: y}",
    ),
}
"""Name: the inputs, the tensor that the kernel changes, and the graph; ``@`` is where along V."""

FAR = (-1, 6, 2**31 - 1, 2**31, 2**32, 2**32 + 1, -(2**31), -(2**32), 1 - 2**32, 2**62, 2**63 - 1, -(2**63), 1 - 2**63)
"""Outside of V, by little and by so much that what is left modulo 2³², or of a multiple, is inside again."""
ROWS = (FAR, (0, 6, 3, *FAR[3:5], 5, 1, *FAR[7:12], 2))


@dataclass(frozen=True, slots=True)
class Outside:
    """One way to access a tensor, at places along V that each row has a number for."""

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
        used = [dim for dim in SIZES if re.search(rf"\b{dim}\b", inputs + output)]
        words = {"K": "multiple_of: 8", "V": "value: 6" if self.way == "take" else ""}
        tilings = {"N": "workgroup: N, tile: 32, axis: 1", "K": "tiling: K, tile: 16"}
        tilings |= {"V": "tiling: V, tile: 6"} if self.way == "take" else {}
        return loads(
            "apiVersion: wavespec/v1\nkind: Kernel\nname: outside\n"
            f"dims: {{{', '.join(f'{dim}: {{{words.get(dim, str())}}}' for dim in used)}}}\n"
            f"tensors:\n  place: {{shape: [M], dtype: {self.index}}}\n{inputs}\n{output}\n"
            f"constraints:\n  - {{workgroup: M, tile: {rows}, axis: 0}}\n  - {{wave: M, tile: {wave}}}\n"
            + "".join(f"  - {{{text}}}\n" for dim, text in tilings.items() if dim in used)
            + f"graph:\n  - row: {{read: place}}\n{graph.replace('@', self.at)}\n",
            "outside.wave.yaml",
        )

    @property
    def sizes(self) -> dict[str, int]:
        """Of every dim."""
        return {dim: SIZES[dim] for dim in self.spec.dims}

    def inputs(self, rows: Sequence[int]) -> list[Tensor]:
        """``rows`` are the numbers, as far as the type of the index has them."""
        random, made, least = torch.Generator().manual_seed(1), list[Tensor](), -(1 << int(self.index[1:]) - 1)
        for name, tensor in self.spec.tensors.items():
            if name == "place":
                held = [row if least <= row < -least else -3 for row in rows]
                made.append(torch.tensor(held, dtype=TORCH[self.index]))
            elif tensor.role != "output":
                shape = [SIZES[dim] for dim in tensor.shape]
                made.append(torch.randint(1, 9, shape, generator=random).to(TORCH[tensor.dtype]))
        return made

    def expected(self, inputs: Sequence[Tensor]) -> Tensor:
        """What ``y`` holds behind the call."""
        (result,) = tensors_of(reference(self.spec, *(one.clone() for one in inputs)))
        return result.to(TORCH[self.spec.tensors["y"].dtype])


def cases() -> list[Outside]:
    """Every way with both types of numbers, and other places that are made of them."""
    turned = [Outside(way, at=at) for way in ("read", "write", "stage") for at in ("row - 1", "size(V) - 1 - row")]
    return [Outside(way, index) for way in WAYS for index in ("i64", "i32")] + turned

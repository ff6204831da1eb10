"""Reductions of several values and dims, and of bool: as whole tensors say it, on every machine."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.kernels import TORCH, tensor_to_array
from tests.lower.gemms import AMD, CPU, NVIDIA
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.builder import KernelBuilder
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

EACH = [NVIDIA, AMD, CPU]


def spec(statement: str, dtype: str = "f32", start: str = "0", kept: str = "M, K", carried: str = "") -> KernelSpec:
    """``total`` of x[M, N, K], or of it and y, from ``start`` on; N is walked over in tiles."""
    carried = carried or dtype
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: totals
dims: {{M: {{}}, N: {{}}, K: {{value: 8}}}}
tensors:
  x: {{shape: [M, N, K], dtype: {dtype}}}
  y: {{shape: [M, N, K], dtype: {dtype}}}
  z: {{shape: [{kept}], dtype: {carried}, role: output}}
constraints:
  - {{workgroup: M, tile: 4, axis: 0}}
  - {{wave: M, tile: 2}}
  - {{tiling: N, tile: 16}}
graph:
  - start: {{register: [{kept}], dtype: {carried}, value: {start}}}
  - steps:
      iterate: N
      carry: {{total: start}}
      body:
        - one: {{read: x}}
        - other: {{read: y}}
        - {statement}
  - {{write: steps.total, to: z}}
""",
        "gemm.wave.yaml",
    )


def check(kernel: KernelSpec, machine: Machine, *, dtype: str = "f32") -> None:
    random = torch.Generator().manual_seed(0)
    sizes = (5, 19, 8)
    x, y = (torch.randint(0, 3 if dtype != "bool" else 2, sizes, generator=random).to(TORCH[dtype]) for _ in "xy")
    if dtype == "bool":
        x[0], x[1], y[0], y[1] = False, True, False, True
    inputs = {name: tensor_to_array(one, dtype) for name, one in (("x", x), ("y", y))}
    report = simulate(lower(kernel, machine), machine, inputs, dict(zip("MNK", sizes, strict=True)))
    assert report.ok, report.render()
    expected = np.asarray(reference(kernel, x, y))
    np.testing.assert_array_equal(report.tensors["z"].astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("machine", EACH, ids=lambda machine: machine.variant)
@pytest.mark.parametrize("word", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "i32", "i64"])
def test_several_values(machine: Machine, word: str, dtype: str) -> None:
    check(spec(f"total: {{{word}: [one, other], dim: N, init: total}}", dtype), machine, dtype=dtype)


@pytest.mark.parametrize("machine", EACH, ids=lambda machine: machine.variant)
@pytest.mark.parametrize("dims", ["[K, N]", "[N, K]"])
@pytest.mark.parametrize("value", ["one", "[one, other]"])
def test_several_dims(machine: Machine, dims: str, value: str) -> None:
    check(spec(f"total: {{sum: {value}, dim: {dims}, init: total}}", kept="M"), machine)


@pytest.mark.parametrize("machine", EACH, ids=lambda machine: machine.variant)
@pytest.mark.parametrize(("word", "start"), [("any", "0"), ("all", "1")])
@pytest.mark.parametrize(("dims", "kept"), [("N", "M, K"), ("[N, K]", "M")])
def test_truth_values(machine: Machine, word: str, start: str, dims: str, kept: str) -> None:
    check(
        spec(f"total: {{{word}: [one, other], dim: {dims}, init: total}}", "bool", start, kept), machine, dtype="bool"
    )


def test_what_lies_between_several_dims_is_not_rounded() -> None:
    kernel = spec("total: {sum: one, dim: [K, N], init: total}", "f16", kept="M")
    tiles = [op.result.tile for op in lower(kernel, NVIDIA, after="spec-to-tile").walk() if op.name == "reduce"]
    assert [(tile.dims, str(tile.dtype)) for tile in tiles] == [(("M", "N"), "f32"), (("M",), "f16")]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("total: {mean: [one, other], dim: N, init: total}", "'mean' takes one value."),
        ("total: {sum: one, dim: [N, N], init: total}", "'N' goes away once."),
        ("total: {any: one, dim: N, init: total}", "'any' takes bool; 'one' is f32."),
        ("total: {sum: [one, start], dim: N, init: total}", "'sum' joins values of one type"),
    ],
)
def test_mistakes(statement: str, message: str) -> None:
    with pytest.raises(WavespecError, match=message):
        spec(statement)


def test_the_builder_says_the_same() -> None:
    k = KernelBuilder("totals")
    m, n, count = k.dim("M"), k.dim("N"), k.dim("K", value=8)
    x, y = k.input("x", [m, n, count], "f32"), k.input("y", [m, n, count], "f32")
    z = k.output("z", [m], "f32")
    k.workgroup(m, 4, axis=0)
    k.wave(m, 2)
    k.tiling(n, 16)
    start = k.register("start", [m], "f32", 0)
    with k.iterate("steps", n, total=start) as steps:
        one, other = k.read("one", x), k.read("other", y)
        k.reduce("sum", "total", [one, other], [count, n], init=steps["total"])
    k.write(steps["total"], z)
    assert k.build() == spec("total: {sum: [one, other], dim: [K, N], init: total}", kept="M")

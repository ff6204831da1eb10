"""Operands that lanes load themselves are loaded for the next step while one is multiplied: right in the simulator,
behind the last step, without any step, and where the last one is not whole."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.emit.test_hopper import NVIDIA
from tests.kernels import subjects
from tests.sim.plan_variations import simulated
from wavespec.emit.thread_to_mlir import thread_to_mlir
from wavespec.ir.kernel import Kernel, Op
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.simt import simulate

SPEC = """apiVersion: wavespec/v1
kind: Kernel
name: linear_i4
dims: {M: {max: 8}, N: {multiple_of: 16}, K: {multiple_of: MULTIPLE}, G: {equals: "ceildiv(K, 128)"}}
tensors:
  x: {shape: [M, K], dtype: bf16}
  w: {shape: [N, K], dtype: i4}
  scale: {shape: [N, G], dtype: bf16}
  y: {shape: [M, N], dtype: bf16, role: output}
constraints:
  - {workgroup: M, tile: 8, axis: 0}
  - {workgroup: N, tile: 16, axis: 1}
  - {tiling: K, tile: 256}
  - {wave: N, tile: 16}
  - {wave: K, tile: 128}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - x_tile: {read: x}
        - w_tile: {read: w}
        - s_tile: {read: scale, dims: [N, K], at: {G: K // 128}}
        - weight: bf16(w_tile) * s_tile
        - acc: {mma: [x_tile, weight, acc]}
  - result: bf16(k_loop.acc)
  - {write: result, to: y}
schedule: {stages: 2}
"""


def spec_of(multiple: int, *, ahead: bool = True) -> KernelSpec:
    text = SPEC.replace("MULTIPLE", str(multiple))
    return loads(text if ahead else text.replace("schedule: {stages: 2}\n", ""))


def loop_of(kernel: Kernel) -> Op:
    return next(op for op in kernel.body if op.name == "for")


@pytest.mark.parametrize(("multiple", "k"), [(256, 0), (256, 256), (256, 1024), (32, 0), (32, 512), (32, 1120)])
def test_results_are_those_of_loads_in_their_own_step(multiple: int, k: int) -> None:
    subject = next(one for one in subjects("sm_90") if one.name == "linear_i4")
    sizes = {"M": 3, "N": 48, "K": k}
    inputs = subject.inputs(sizes)
    kernel = lower(spec_of(multiple), NVIDIA)
    subject.check(inputs, simulated(subject, kernel, NVIDIA, subject.complete(sizes), inputs), sizes)


def test_a_step_loads_what_no_other_workgroup_does_and_the_next_one_multiplies_it() -> None:
    kernel = lower(spec_of(256), NVIDIA)
    loop = loop_of(kernel)
    first = [op["memory"] for op in kernel.body if op.name == "load" and not str(op["memory"]).endswith(".parts")]
    assert first == ["w", "w", "scale", "scale"]
    (ahead,) = (op["symbol"] for op in loop.body.ops if op.name == "let")
    by_step = {op["memory"]: ahead in op["offset"].symbols for op in loop.body.ops if op.name == "load"}
    assert by_step == {"w": True, "scale": True, "x": False}, "all workgroups load the same of x"
    own = {op["memory"] for op in loop_of(lower(spec_of(256, ahead=False), NVIDIA)).body.ops if op.name == "load"}
    assert own == {"w", "scale", "x"}


def test_elements_that_share_bytes_are_carried_in_these() -> None:
    text = thread_to_mlir(lower(spec_of(256), NVIDIA), NVIDIA, "#layout").text
    (carried,) = re.findall(r"scf\.for .* -> \((.*)\)  : i32", text)
    assert carried.startswith("f32, f32, f32, f32, vector<4xi8>, ") and carried.endswith(", bf16, bf16")
    assert carried.count("vector<4xi8>") == 8, "64 elements of four bits"


CHOSEN = """apiVersion: wavespec/v1
kind: Kernel
name: chosen
dims: {M: {}, N: {}, W: {value: 4}}
tensors:
  x: {shape: [N, W], dtype: f32}
  back: {shape: [M, N], dtype: i32}
  y: {shape: [M], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
  - {wave: M, tile: 2}
  - {tiling: N, tile: 64}
graph:
  - zero: {register: [M], dtype: f32, value: 0}
  - steps:
      iterate: N
      carry: {total: zero}
      body:
        - number: {read: back}
        - elements: {read: x, dims: [M, N], at: {N: N - number, W: number * 4}}
        - part: {sum: elements, dim: N}
        - total: total + part
  - {write: steps.total, to: y}
schedule: {stages: 3}
"""
"""Places that are the same whatever the value, and in the tensor or not as it says."""


@pytest.mark.parametrize("length", [0, 64, 130])
def test_what_values_of_a_step_leave_out_is_loaded_in_that_step(length: int) -> None:
    random = np.random.default_rng(0)
    back = random.integers(-1, 2, (3, length)).astype(np.int32)
    x = random.integers(1, 9, (length, 4)).astype(np.float32)
    sizes = {"M": 3, "N": length, "W": 4}
    report = simulate(lower(loads(CHOSEN), NVIDIA), NVIDIA, {"x": x, "back": back}, sizes)
    assert report.ok, report.render()
    assert (report.tensors["y"] == np.where(back == 0, x[:, 0], 0).sum(1)).all()

"""Elements at places made of values, where one lane has a whole tile: loops over them, and what they compute."""

from __future__ import annotations

import pytest
import torch

from tests.lower.gemms import CPU
from tests.ops.mapped_kernels import HEAD, assert_exact, whole_numbers
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.pipeline import best_variant, build, emit, lower
from wavespec.runtime.kernel import Kernel
from wavespec.schema import KernelSpec, loads
from wavespec.sim.reference import reference
from wavespec.targets.machine import Machine, machines

AVX2 = machines("cpu")[-1]
WHOLE = """graph:
  - shift: {{read: s}}
  - place: {{read: p}}
  - value: {{read: x, at: {{N: place}}}}
  - result: "bf16(value * 2)"
  - {{write: result, to: y, at: {{N: (N + shift) % size(N)}}}}
"""
IN_A_LOOP = """  - {{tiling: N, tile: {n}}}
graph:
  - shift: {{read: s}}
  - steps:
      iterate: N
      body:
        - place: {{read: p}}
        - value: {{read: x, at: {{N: place, M: shift}}}}
        - result: "bf16(value * 2)"
        - {{write: result, to: y, at: {{N: (N + shift) % size(N)}}}}
"""
SIZES = {"M": 19, "N": 70}


def gathered(graph: str, m: int = 16, n: int = 64) -> KernelSpec:
    text = """dims: {{M: {{}}, N: {{min: 1}}}}
tensors:
  x: {{shape: [M, N], dtype: f32}}
  p: {{shape: [M, N], dtype: i32}}
  s: {{shape: [M], dtype: i64}}
  y: {{shape: [M, N], dtype: bf16, role: output}}
constraints:
  - {{workgroup: M, tile: {m}, axis: 0}}
"""
    split = "" if graph is IN_A_LOOP else "  - {{workgroup: N, tile: {n}, axis: 1}}\n"
    return loads(HEAD + (text + split + graph).format(m=m, n=n), "mapped.wave.yaml")


@pytest.mark.parametrize("graph", [WHOLE, IN_A_LOOP], ids=["whole", "in a loop"])
@pytest.mark.parametrize("machine", [CPU, AVX2], ids=lambda machine: machine.variant)
def test_elements_are_those_of_whole_tensors(machine: Machine, graph: str) -> None:
    assert_exact(gathered(graph), machine, SIZES)


def test_code_is_as_long_for_a_large_tile_as_for_a_small_one() -> None:
    small, large = (lower(gathered(WHOLE, m), AVX2) for m in (8, 32))
    for kernel in (small, large):
        touched = [op["memory"] for op in kernel.walk() if op.name in ("load", "store")]
        assert touched.count("x") == touched.count("y") == 8, "of one vector"
    lines, more = (emit(gathered(WHOLE, m), AVX2).text.count("\n") for m in (8, 32))
    assert more - lines < 24 * 64 * 3, "a vector of 8 elements is loaded, checked, converted and laid down"


def test_a_few_elements_need_no_loop() -> None:
    assert not any(op.name == "for" for op in lower(gathered(WHOLE, 1), AVX2).walk())


def test_loops_print_and_parse() -> None:
    kernel = lower(gathered(WHOLE), AVX2)
    assert parse_kernel(print_kernel(kernel)) == kernel


@pytest.mark.compiles
def test_this_cpu_agrees() -> None:
    spec = gathered(WHOLE)
    x, p, s = whole_numbers(spec, SIZES, -4, 75)
    made = Kernel(build(spec, "cpu", only=best_variant("cpu")))(x, p, s)
    assert torch.equal(made.float(), reference(spec, x, p, s).float())

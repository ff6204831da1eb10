"""Assertions: outputs that tell where they fail, and kernels that do nothing of them."""

from __future__ import annotations

import pytest
import torch

import wavespec as ws
from wavespec.ir.printer import print_kernel
from wavespec.pipeline import lower
from wavespec.schema.assertions import with_assertions
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.sim.reference import reference
from wavespec.targets.machine import machines
from wavespec.targets.names import TARGETS

GATHER = """\
apiVersion: wavespec/v1
kind: Kernel
name: gather
dims: {T: {}, V: {}, D: {}}
tensors:
  token: {shape: [T], dtype: i32}
  table: {shape: [V, D], dtype: f32}
  y: {shape: [T, D], dtype: f32, role: output}
constraints:
  - {workgroup: T, tile: 8, axis: 0}
  - {workgroup: D, tile: 64, axis: 1}
graph:
  - row: {read: token}
  - inside: (row >= 0) & (row < V)
  - {assert: inside, message: tokens are rows of the table}
  - values: {read: table, dims: [T, D], at: {V: row}}
  - finite: isfinite(values)
  - {assert: finite}
  - {write: values, to: y}
"""
STEPS = """\
apiVersion: wavespec/v1
kind: Kernel
name: steps
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 8, axis: 0}
  - {tiling: N, tile: 16}
graph:
  - zero: {register: [M], dtype: f32, value: 0}
  - yes: {register: [M], dtype: bool, value: 1}
  - sums:
      iterate: N
      carry: {total: zero, every: yes}
      body:
        - part: {read: x}
        - small: part < 9
        - {assert: small}
        - total: {sum: part, dim: N, init: total}
        - large: part > -9
        - holds: {all: large, dim: N}
        - every: {logical_and: [every, holds]}
  - {write: sums.total, to: y}
  - {assert: sums.every}
"""
"""Of elements in every step, and of rows, which steps have a part of each."""


def failed(text: str, *inputs: torch.Tensor) -> list[torch.Tensor]:
    asserted = with_assertions(ws.loads(text))
    _, *found = reference(asserted.spec, *inputs)
    return found


def test_what_fails_is_an_output() -> None:
    asserted = with_assertions(ws.loads(GATHER))
    assert [(name, op.value, op.message) for name, op in asserted.outputs.items()] == [
        ("failed_0", "inside", "tokens are rows of the table"),
        ("failed_1", "finite", ""),
    ]
    assert asserted.spec.tensors["failed_1"].shape == ("T", "D")
    assert ws.loads(dump_yaml(asserted.spec)) == asserted.spec
    inside, finite = failed(GATHER, torch.tensor([0, 3, -1, 2]), torch.tensor([[1.0], [2.0], [torch.inf]]))
    assert inside.tolist() == [False, True, True, False] and finite.tolist() == [[False], [False], [False], [True]]


def test_every_step_is_looked_at() -> None:
    x = torch.ones(3, 40)
    x[0, 20], x[1, 3] = 9.5, -10
    small, every = failed(STEPS, x)
    assert small.nonzero().tolist() == [[0, 20]] and every.tolist() == [False, True, False]


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_do_nothing_of_it(target: str) -> None:
    lines = [line for line in GATHER.splitlines() if not any(word in line for word in ("assert", "inside", "finite"))]
    machine = machines(target)[0]
    kernel, plain = (print_kernel(lower(ws.loads(text), machine)) for text in (GATHER, "\n".join(lines)))
    assert kernel == plain


def test_specs_without_are_left_alone() -> None:
    spec = ws.loads("\n".join(line for line in GATHER.splitlines() if "assert" not in line))
    assert with_assertions(spec) == (spec, {})


def test_the_builder_has_a_word_for_it() -> None:
    k = ws.KernelBuilder("copy")
    m = k.dim("M")
    a, b = k.input("a", [m], "f32"), k.output("b", [m], "f32")
    k.workgroup(m, 8, axis=0)
    x = k.read("x", a)
    k.assert_that(k.formula("finite", "isfinite(x)"), "all are numbers")
    k.write(x, b)
    spec = k.build()
    assert "- {assert: finite, message: all are numbers}" in dump_yaml(spec)
    assert ws.loads(dump_yaml(spec)) == spec

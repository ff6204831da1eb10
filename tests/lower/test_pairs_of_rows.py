"""Loops that join what is made of two rows each keep the sums of several pairs in registers, on CPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import ELEMENTWISE, FOR, LOAD
from wavespec.pipeline import lower
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.language.constraints import Tiling, Workgroup
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.load import loads
from wavespec.schema.plans.find_roles import roles_of
from wavespec.schema.resolve import resolve_params
from wavespec.targets import machines
from wavespec.targets.machine import Machine

AVX2 = next(machine for machine in machines("cpu") if machine.variant == "x86_64_v3")
DISTANCES = """
apiVersion: wavespec/v1
kind: Kernel
name: distances
dims: {M: {}, N: {}, K: {}}
tensors:
  x: {shape: [M, K], dtype: f32}
  y: {shape: [N, K], dtype: f32}
  d: {shape: [M, N], dtype: f32, role: output}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {squares: zero}
      body:
        - left: {read: x}
        - right: {read: y}
        - apart: "left - right"
        - square: "apart * apart"
        - squares: {sum: square, dim: K, init: squares}
  - {write: steps.squares, to: d}
"""
OF_ONE = DISTANCES.replace("y: {shape: [N, K]", "y: {shape: [M, N, K]")
"""What is read of both sides is read once anyway."""


def tiles(spec: KernelSpec, target: str) -> dict[str, int]:
    plain = case_for_sizes(cases_for_target(spec, target), {"M": 1000, "N": 1000, "K": 256}).spec
    values = resolve_params(plain)
    split = [one for one in plain.constraints if isinstance(one, Workgroup | Tiling)]
    return {one.dim: int(one.tile.evaluate(values)) for one in split}


def step(kernel: Kernel) -> tuple[Op, ...]:
    """The operations of the innermost loop, of whole tiles."""
    loops = [op for op in kernel.walk() if op.is_(FOR) and any(inner.is_(LOAD) for inner in op.body.ops)]
    return loops[0].body.ops


def test_both_sides_have_tiles_where_each_element_meets_all_of_the_other_side() -> None:
    assert tiles(loads(DISTANCES), "cpu") == {"M": 16, "N": 32, "K": 8}
    assert tiles(loads(DISTANCES), "sm_90") == {"M": 64, "N": 64, "K": 4}
    assert tiles(loads(OF_ONE), "cpu")["N"] == 1


def test_targets_without_such_tiles_have_those_of_rows() -> None:
    assert tiles(loads(DISTANCES), "gfx942")["N"] == 1


@pytest.mark.parametrize(("text", "are_pairs"), [(DISTANCES, True), (OF_ONE, False)])
def test_the_graph_says_which_these_are(text: str, are_pairs: bool) -> None:
    roles = roles_of(loads(text))
    assert roles is not None
    assert (roles.kind, roles.pairs is not None) == ("rows", are_pairs)


@pytest.mark.parametrize(("registers", "apart"), [(16, 1), (64, 8), (4, 8)])
def test_pairs_are_made_one_by_one_where_registers_hold_no_more(registers: int, apart: int) -> None:
    """Not where they hold all of a step, nor where they do not hold the sums either."""
    machine: Machine = replace(AVX2, vector_registers=registers)
    ops = step(lower(loads(DISTANCES), machine, after="sink-arithmetic"))
    made = [op["function"] for op in ops if op.is_(ELEMENTWISE)]
    assert made[: apart + 1] == ["sub"] * apart + ["mul"]


def test_rows_beyond_the_edge_are_read_again_and_not_checked() -> None:
    ops = step(lower(loads(DISTANCES), AVX2))
    read = [op for op in ops if op.is_(LOAD)]
    assert len(read) == 6
    assert all(not op["mask"] and "min(" in str(op["offset"]) for op in read)

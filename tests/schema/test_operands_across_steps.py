"""Operands that lie across the steps of a product, as they are or computed: which plans they get on a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.schema.test_planned import tiles
from wavespec.pipeline import lower
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.load import load, loads
from wavespec.schema.plans.find_roles import roles_of
from wavespec.targets import machines

COVARIANCE = Path("tests/specs/covariance.wave.yaml")
AVX2 = next(machine for machine in machines("cpu") if machine.variant == "x86_64_v3")


def product(left: str, right: str) -> KernelSpec:
    return loads(f"""
apiVersion: wavespec/v1
kind: Kernel
name: one
dims: {{M: {{}}, N: {{}}, K: {{}}}}
tensors:
  a: {{shape: {left}, dtype: f32}}
  b: {{shape: {right}, dtype: f32}}
  c: {{shape: [M, N], dtype: f32, role: output}}
graph:
  - zero: {{register: [M, N], dtype: f32, value: 0}}
  - steps:
      iterate: K
      carry: {{acc: zero}}
      body: [a_tile: {{read: a}}, b_tile: {{read: b}}, acc: {{mma: [a_tile, b_tile, acc]}}]
  - {{write: steps.acc, to: c}}
""")


@pytest.mark.parametrize(("left", "right"), [("[M, K]", "[K, N]"), ("[K, M]", "[K, N]"), ("[K, M]", "[N, K]")])
def test_few_rows_have_tiles_of_long_steps_only_where_both_operands_lie_along_them(left: str, right: str) -> None:
    """Columns across steps were read a few at a time, with a row of the tensor between: 0.05 of torch."""
    few = {"M": 16, "N": 2048, "K": 2048}
    assert tiles(product("[M, K]", "[N, K]"), "cpu", **few)["K"] == 2048 + 2048
    assert tiles(product(left, right), "cpu", **few)["K"] == 256


def test_both_operands_of_a_covariance_are_computed_across_steps() -> None:
    roles = roles_of(load(COVARIANCE))
    assert roles is not None
    assert roles.across
    assert roles.with_sums is not None
    assert roles.with_sums.sums_before == {"sum_i": ("I",), "sum_j": ("J",)}


@pytest.mark.parametrize(
    ("size", "made"),
    [(256, {"sum_i", "sum_j", "centred_j"}), (12, {"sum_i", "sum_j"}), (4, set[str]())],
)
def test_sums_and_columns_are_made_before_where_there_are_enough(size: int, made: set[str]) -> None:
    sizes = {"N": 1000, "D": size, "I": size, "J": size}
    case = case_for_sizes(cases_for_target(load(COVARIANCE), "cpu"), sizes)
    written = {name for one in case.before for name, tensor in one.tensors.items() if tensor.role == "output"}
    assert written == {f"{name}_made" for name in made}


def test_what_is_computed_of_a_read_by_other_names_is_in_vectors_along_what_lies_side_by_side() -> None:
    """Along steps, each of its elements was loaded by itself: the covariance took 23 times as long as torch's."""
    spec = case_for_sizes(cases_for_target(load(COVARIANCE), "cpu"), {"N": 1000, "D": 256, "I": 256, "J": 256}).spec
    kernel = lower(spec, AVX2, after="assign-layouts")
    centred = next(op.result.tile for op in kernel.walk() if op.results and op.result.name == "centred_i")
    assert centred.layout is not None
    fragment = centred.layout.axes[-1]
    assert (fragment.stride("I"), fragment.stride("N")) == (1, 0)

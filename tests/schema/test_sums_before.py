"""Sums of one side that a loop carries beside a product are made by kernels of their own, where a plan says so."""

from __future__ import annotations

import pytest

from wavespec.diagnostics import WavespecError
from wavespec.schema import loads
from wavespec.schema.cases import TargetCase, case_for_sizes, cases_for_target
from wavespec.schema.ops import Iterate, Read, every
from wavespec.schema.sums_before import sums_that_can_be_made

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
  - of_rows: {register: [M], dtype: f32, value: 0}
  - of_columns: {register: [N], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {acc: zero, xx: of_rows, yy: of_columns}
      body:
        - left: {read: x}
        - right: {read: y}
        - acc: {mma: [left, right, acc]}
        - left_square: "left * left"
        - right_square: "right * right"
        - xx: {sum: left_square, dim: K, init: xx}
        - yy: {sum: right_square, dim: K, init: yy}
  - squares: "steps.xx + steps.yy - 2 * steps.acc"
  - {write: squares, to: d}
"""
APART = DISTANCES.replace(
    "  - steps:\n      iterate: K\n      carry: {acc: zero, xx: of_rows, yy: of_columns}",
    """  - norms:
      iterate: K
      carry: {xx: of_rows, yy: of_columns}
      body:
        - l: {read: x}
        - r: {read: y}
        - l_square: "l * l"
        - r_square: "r * r"
        - xx: {sum: l_square, dim: K, init: xx}
        - yy: {sum: r_square, dim: K, init: yy}
  - steps:
      iterate: K
      carry: {acc: zero}""",
).replace(
    """        - left_square: "left * left"
        - right_square: "right * right"
        - xx: {sum: left_square, dim: K, init: xx}
        - yy: {sum: right_square, dim: K, init: yy}
  - squares: "steps.xx + steps.yy""",
    """  - squares: "norms.xx + norms.yy""",
)
MANY = {"M": 1024, "N": 1024, "K": 256}


def case_of(text: str, target: str = "cpu", sizes: dict[str, int] = MANY) -> TargetCase:
    return case_for_sizes(cases_for_target(loads(text), target), sizes)


@pytest.mark.parametrize("text", [DISTANCES, APART])
def test_the_loop_of_the_product_is_left_with_the_product(text: str) -> None:
    case = case_of(text)
    assert [one.name for one in case.before] == ["distances_xx", "distances_yy"]
    assert [{*one.tensors} for one in case.before] == [{"x", "xx_made"}, {"y", "yy_made"}]
    (loop,) = every(Iterate, case.spec.graph)
    assert [*loop.carry] == ["acc"]
    assert [op.name for op in loop.body if isinstance(op, Read)] == ["left", "right"]
    assert len(loop.body) == 3


def test_few_elements_are_one_kernel() -> None:
    assert not case_of(DISTANCES, sizes={"M": 8, "N": 8, "K": 8}).before


def test_targets_without_such_plans_have_one_kernel() -> None:
    assert not case_of(DISTANCES, "sm_90").before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("- acc: {mma", '- other: "xx * 2"\n        - acc: {mma'),
        ("iterate: K", "iterate: K\n      end: size(K) - 1"),
    ],
)
def test_what_needs_more_than_inputs_stays_in_the_loop(old: str, new: str) -> None:
    """What others in the loop use, and a part of the dim."""
    for text, found in ((DISTANCES, True), (DISTANCES.replace(old, new), False)):
        spec = cases_for_target(loads(text), "cpu")[-1].spec
        assert sums_that_can_be_made(spec, ["xx"]) == ({"xx": ("M",)} if found else {})


def test_asked_for_with_other_dims() -> None:
    tiles = "constraints:\n  - {workgroup: M, tile: 48, axis: 0}\n  - {workgroup: N, tile: 64, axis: 1}\n"
    tiles += "  - {tiling: K, tile: 64}\ngraph:"
    cases = "targets: {cpu: {cases: [{when: [M >= 64], schedule: {materialize: {xx: [N]}}}]}}\n"
    with pytest.raises(WavespecError, match="'xx' cannot be materialized: it has the dims 'M'"):
        loads(DISTANCES.replace("graph:", tiles) + cases)


@pytest.mark.parametrize("columns", ["{}", "{value: 16}"])
def test_a_product_beside_which_there_is_no_other_is_no_sum(columns: str) -> None:
    """Of many columns it ended in a StopIteration, of few the loop was left without anything to do."""
    text = DISTANCES.replace("N: {}", f"N: {columns}")
    assert sums_that_can_be_made(loads(text), ["acc", "xx"]) == {"xx": ("M",)}
    asked = "targets: {cpu: {cases: [{when: [M > 9], schedule: {materialize: {acc: [M, N]}}}]}}\n"
    with pytest.raises(WavespecError, match="'acc' cannot be materialized: it is made by 'mma'"):
        loads(text + asked)

"""A product whose columns are joined is a kernel of its own where a plan says so, and its rows are another one's."""

from __future__ import annotations

import pytest

from wavespec.diagnostics import WavespecError
from wavespec.schema import loads
from wavespec.schema.cases import TargetCase, case_for_sizes, cases_for_target
from wavespec.schema.language.constraints import Hardware, Tiling, Wave, Workgroup
from wavespec.schema.ops import Iterate, Mma, Read, every
from wavespec.schema.products_before import product_that_can_be_made
from wavespec.schema.tiled_loops import with_tiled_loops

ROUTER = """\
apiVersion: wavespec/v1
kind: Kernel
name: route
dims: {T: {}, D: {}, X: {value: 256}, K: {value: 8}}
tensors:
  x: {shape: [T, D], dtype: f32}
  router: {shape: [X, D], dtype: f32}
  bias: {shape: [X], dtype: f32}
  weights: {shape: [T, K], dtype: f32, role: output}
  experts: {shape: [T, K], dtype: i32, role: output}
graph:
  - zero: {register: [T, X], dtype: f32, value: 0}
  - logits:
      iterate: D
      carry: {acc: zero}
      body:
        - token: {read: x}
        - expert: {read: router}
        - acc: {mma: [token, expert, acc]}
  - offset: {read: bias}
  - shifted: logits.acc + offset
  - found: {topk: shifted, dim: X, k: K, indices: places, dtype: i32}
  - {write: found, to: weights}
  - {write: places, to: experts}
"""
BESIDE = """\
  - none: {register: [T], dtype: f32, value: 0}
  - logits:
      iterate: D
      carry: {acc: zero, rest: none}
      body:
        - part: {read: x}
        - rest: {sum: part, dim: D, init: rest}"""
AGAIN = """\
  - none: {register: [T], dtype: f32, value: 0}
  - again:
      iterate: D
      carry: {more: none}
      body:
        - part: {read: x}
        - more: {sum: part, dim: D, init: more}
  - offset:"""
SIZES = {"T": 100, "D": 4096, "X": 256, "K": 8}


def case_of(text: str, target: str = "sm_90", **sizes: int) -> TargetCase:
    return case_for_sizes(cases_for_target(loads(text), target), SIZES | sizes)


def test_product_and_rows_are_two_kernels() -> None:
    case = case_of(ROUTER)
    (product,), rows = case.before, case.spec
    assert [*product.tensors] == ["x", "router", "acc_made"] and product.tensors["acc_made"].shape == ("T", "X")
    assert any(every(Mma, product.graph)) and not any(every(Mma, rows.graph)) and not any(every(Iterate, rows.graph))
    assert [op.tensor for op in every(Read, rows.graph)] == ["acc_made", "bias"]


def test_product_has_the_tiles_of_products_and_each_wave_a_row() -> None:
    case = case_of(ROUTER)
    (product,), rows = case.before, case.spec
    assert {one.dim for one in product.constraints if isinstance(one, Workgroup | Tiling)} == {"T", "X", "D"}
    assert [one.settings.mma for one in product.constraints if isinstance(one, Hardware)] == ["wgmma3_m64n64k8_f32"]
    assert product.schedule is not None and product.schedule.workgroups is not None
    assert product.schedule.workgroups.split > 1  # few tiles and many steps
    waves = {one.dim: str(one.tile) for one in rows.constraints if isinstance(one, Wave)}
    assert waves == {"T": "1"} and rows.schedule is None
    assert not [one for one in rows.constraints if isinstance(one, Hardware) and one.settings.mma]


def test_few_steps_are_one_kernel() -> None:
    """A pass over the product would take longer than that."""
    assert not case_of(ROUTER, D=128).before


def test_targets_without_such_plans_have_one_kernel() -> None:
    assert not case_of(ROUTER, "gfx942").before


def test_rows_that_no_wave_holds_are_one_kernel() -> None:
    assert not case_of(ROUTER.replace("value: 256", "value: 2048"), X=2048).before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("iterate: D", "iterate: D\n      end: size(D) - 1"),
        ("  - logits:\n      iterate: D\n      carry: {acc: zero}\n      body:", BESIDE),
        ("  - offset:", AGAIN),
        ("dims: {T: {}, D: {}, X: {value: 256},", "dims: {T: {}, D: {}, X: {min: 8},"),
    ],
)
def test_what_is_no_product_alone_stays(old: str, new: str) -> None:
    """A part of the dim, a sum beside the product, another loop behind, and rows of any length."""
    for text, is_found in ((ROUTER, True), (ROUTER.replace(old, new), False)):
        spec = with_tiled_loops(loads(text))
        assert (product_that_can_be_made(spec, ["acc"]) is not None) == is_found
        assert product_that_can_be_made(spec, ["shifted"]) is None


def test_asked_for_with_other_dims() -> None:
    tiles = "constraints:\n  - {workgroup: T, tile: 64, axis: 0}\n  - {tiling: D, tile: 64}\ngraph:"
    cases = "targets: {sm_90: {cases: [{when: [T >= 64], schedule: {materialize: {acc: [T]}}}]}}\n"
    with pytest.raises(WavespecError, match="'acc' cannot be materialized: it has the dims 'T' and 'X'"):
        loads(ROUTER.replace("graph:", tiles) + cases)

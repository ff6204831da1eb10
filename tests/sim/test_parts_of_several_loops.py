"""Loops over one dim, each of which goes on from what those before it have found: its kernels of parts find what one
kernel finds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.kernels import tensor_to_array
from tests.sim.cases import lowered_case
from wavespec.diagnostics import WavespecError
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import cases_for_target
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.kernels_before import simulate_before
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

TARGETS = ("cpu", "sm_90", "gfx942")
SOFTMAX = """
  - lowest: {register: [B], dtype: f32, value: -.inf}
  - none: {register: [B], dtype: f32, value: 0}
  - tops: {iterate: N, carry: {top: lowest}, body: [{part: {read: x}}, {top: {max: part, dim: N, init: top}}]}
  - sums:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - power: exp(part - tops.top)
        - total: {sum: power, dim: N, init: total}
  - again:
      iterate: N
      body:
        - part: {read: x}
        - result: exp(part - tops.top) / sums.total
        - {write: result, to: y}
"""
VARIANCE = """
  - none: {register: [B], dtype: f32, value: 0}
  - sums: {iterate: N, carry: {total: none}, body: [{part: {read: x}}, {total: {sum: part, dim: N, init: total}}]}
  - middle: "sums.total / f32(size(N))"
  - squares:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - apart: part - middle
        - square: apart * apart
        - total: {sum: square, dim: N, init: total}
  - result: "squares.total / f32(size(N))"
  - {write: result, to: y}
"""
GROUPS = """
  - none: {register: [B], dtype: f32, value: 0}
  - sums: {iterate: N, carry: {total: none}, body: [{part: {read: x}}, {total: {sum: part, dim: [N, D], init: total}}]}
  - middle: "sums.total / f32(size(N) * size(D))"
  - again: {iterate: N, body: [{part: {read: x}}, {result: part - middle}, {write: result, to: y}]}
"""
NESTED = """
  - none: {register: [B], dtype: f32, value: 0}
  - sums:
      iterate: N
      carry: {total: none}
      body:
        - inner:
            iterate: S
            carry: {total: total}
            body: [{part: {read: x}}, {total: {sum: part, dim: [N, S], init: total}}]
        - total: inner.total
  - middle: "sums.total / f32(size(N) * size(S))"
  - again: {iterate: N, body: [{inside: {iterate: S, body: [{part: {read: x}}, {result: part - middle}, {write: result, to: y}]}}]}
"""


def spec_of(target: str, graph: str, x: str, y: str, tiles: str) -> KernelSpec:
    dims = "B: {}, N: {min: 1}" + (", D: {value: 3}" if "D" in x else ", S: {min: 1}" if "S" in x else "")
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: norm
dims: {{{dims}}}
tensors: {{x: {{shape: {x}, dtype: f32}}, y: {{shape: {y}, dtype: f32, role: output}}}}
constraints: [{tiles}]
graph:{graph}targets: {{{target}: {{cases: [{{when: [B <= 100], schedule: {{parts: {{N: 4}}}}}}]}}}}
""",
        "norm.wave.yaml",
    )


def found(target: str, spec: KernelSpec, x: torch.Tensor, kernels: int) -> np.ndarray:
    """The output of a call."""
    (case, *_), machine = cases_for_target(spec, target), machines(target)[0]
    assert len(case.kernels) == kernels
    lowered = lowered_case(case, machine)
    sizes = {dim: x.shape[place] for place, dim in enumerate(spec.tensors["x"].shape) if spec.dims[dim].value is None}
    given = {"x": tensor_to_array(x, "f32")}
    arrays, reports = simulate_before(case, lowered[:-1], machine, given, sizes, {})
    read = {name: array for name, array in arrays.items() if name in case.spec.tensors}
    report = simulate(lowered[-1], machine, read, complete_sizes(case.spec, sizes))
    assert all(one.ok for one in (*reports, report)), [one.render() for one in (*reports, report)]
    return np.asarray({**arrays, **report.tensors}["y"])


_COLUMNS = "{workgroup: B, tile: 8, axis: 0}, {tiling: N, tile: 32}, {wave: N, tile: 8}"
_ROWS = "{workgroup: B, tile: 1, axis: 0}, {tiling: N, tile: 64}, {wave: N, tile: 32}"


@pytest.mark.parametrize("length", [1, 64, 300])
@pytest.mark.parametrize("target", TARGETS)
def test_softmax_over_the_first_dim(target: str, length: int) -> None:
    x = torch.randn(length, 11, generator=torch.Generator().manual_seed(length))
    spec = spec_of(target, SOFTMAX, "[N, B]", "[N, B]", _COLUMNS)
    right = reference(spec, x.double())
    np.testing.assert_allclose(found(target, spec, x, 3), right.numpy(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("length", [1, 64, 300])
@pytest.mark.parametrize("target", TARGETS)
def test_softmax_of_rows(target: str, length: int) -> None:
    x = torch.randn(3, length, generator=torch.Generator().manual_seed(length))
    spec = spec_of(target, SOFTMAX, "[B, N]", "[B, N]", _ROWS)
    right = reference(spec, x.double())
    np.testing.assert_allclose(found(target, spec, x, 3), right.numpy(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("target", TARGETS)
def test_what_no_loop_is_behind_is_joined_in_the_last_kernel(target: str) -> None:
    x = torch.randn(333, 11, generator=torch.Generator().manual_seed(3)) + 2
    spec = spec_of(target, VARIANCE, "[N, B]", "[B]", _COLUMNS)
    right = reference(spec, x.double())
    np.testing.assert_allclose(found(target, spec, x, 3), right.numpy(), rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_other_dims_are_joined_with_the_elements_of_a_part(target: str) -> None:
    x = torch.randint(-4, 5, (2, 130, 3), generator=torch.Generator().manual_seed(3)).float()
    spec = spec_of(target, GROUPS, "[B, N, D]", "[B, N, D]", "{workgroup: B, tile: 1, axis: 0}, {tiling: N, tile: 32}")
    right = reference(spec, x.double())
    np.testing.assert_allclose(found(target, spec, x, 2), right.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_loops_in_loops_have_parts_of_the_outer_dim(target: str) -> None:
    x = torch.randint(-4, 5, (13, 2, 50), generator=torch.Generator().manual_seed(3)).float()
    tiles = "{workgroup: B, tile: 1, axis: 0}, {tiling: N, tile: 2}, {tiling: S, tile: 32}, {wave: N, tile: 1}"
    spec = spec_of(target, NESTED, "[N, B, S]", "[N, B, S]", tiles)
    right = reference(spec, x.double())
    np.testing.assert_allclose(found(target, spec, x, 2), right.numpy(), rtol=1e-5, atol=1e-6)


SUM_AND_LARGEST = """
  - none: {register: [B], dtype: f32, value: 0}
  - lowest: {register: [B], dtype: f32, value: -.inf}
  - found:
      iterate: N
      carry: {total: none, largest: lowest}
      body:
        - inner:
            iterate: S
            carry: {below: total, above: largest}
            body:
              - part: {read: x}
              - below: {sum: part, dim: [N, S], init: below}
              - above: {max: part, dim: [N, S], init: above}
        - total: inner.below
        - largest: inner.above
  - more: {iterate: S, carry: {total: found.total}, body: [{row: {read: x, dims: [B, S], at: {N: 0}}}, {total: {sum: row, dim: S, init: total}}]}
  - result: more.total * 100 + found.largest
  - {write: result, to: y}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_loops_in_loops_join_several_values_by_names_of_their_own_in_front_of_others(target: str) -> None:
    x = torch.randint(-9, -4, (13, 2, 50), generator=torch.Generator().manual_seed(3)).float()
    tiles = "{workgroup: B, tile: 1, axis: 0}, {tiling: N, tile: 2}, {tiling: S, tile: 32}"
    spec = spec_of(target, SUM_AND_LARGEST, "[N, B, S]", "[B]", tiles)
    right = reference(spec, x.double())
    np.testing.assert_array_equal(found(target, spec, x, 2), right.numpy())


def test_one_pass_for_a_mean_and_a_variance_of_planes_is_planned() -> None:
    graph = SUM_AND_LARGEST.partition("  - more:")[0].replace("- above: {max: part", "- above: {sum: part")
    spec = loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: norm
dims: {{B: {{}}, N: {{}}, S: {{max: 256}}}}
tensors: {{x: {{shape: [N, B, S], dtype: f32}}, y: {{shape: [B], dtype: f32, role: output}}}}
graph:{graph}  - result: found.total - found.largest
  - {{write: result, to: y}}
""",
        "norm.wave.yaml",
    )
    machine = machines("sm_90")[0]
    with_parts = [case for case in cases_for_target(spec, "sm_90") if len(case.kernels) > 1]
    assert with_parts
    for case in with_parts:
        lowered_case(case, machine)


def test_parts_are_of_the_loop_that_plans_have_them_of() -> None:
    """The first loop around another one joins squares of what that finds; only a later one may have parts."""
    spec = loads(
        """apiVersion: wavespec/v1
kind: Kernel
name: norm
dims: {B: {}, N: {}, T: {}, S: {}}
tensors:
  x: {shape: [B, N, S], dtype: f32}
  v: {shape: [B, T, S], dtype: f32}
  y: {shape: [B], dtype: f32, role: output}
graph:
  - none: {register: [B], dtype: f32, value: 0}
  - squares:
      iterate: N
      carry: {total: none}
      body:
        - zero: {register: [B, N], dtype: f32, value: 0}
        - inner: {iterate: S, carry: {most: zero}, body: [{part: {read: x}}, {most: {sum: part, dim: S, init: most}}]}
        - square: inner.most * inner.most
        - total: {sum: square, dim: N, init: total}
  - more:
      iterate: T
      carry: {total: squares.total}
      body:
        - inner: {iterate: S, carry: {total: total}, body: [{part: {read: v}}, {total: {sum: part, dim: [T, S], init: total}}]}
        - total: inner.total
  - {write: more.total, to: y}
""",
        "norm.wave.yaml",
    )
    assert all(len(case.kernels) == 1 for case in cases_for_target(spec, "sm_90"))


def test_a_loop_in_a_loop_that_writes_beside_what_it_joins_is_refused() -> None:
    graph = NESTED.partition("  - middle:")[0].replace(
        "{total: {sum: part, dim: [N, S], init: total}}]",
        "{total: {sum: part, dim: [N, S], init: total}}, {twice: part + part}, {write: twice, to: y}]",
    )
    with pytest.raises(WavespecError, match="writes beside what it joins"):
        spec_of(
            "sm_90",
            graph,
            "[N, B, S]",
            "[N, B, S]",
            "{workgroup: B, tile: 1, axis: 0}, {tiling: N, tile: 2}, {tiling: S, tile: 32}",
        )
